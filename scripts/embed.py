#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A file as a C array NAME and NAME_size. Usage: embed.py NAME INPUT OUTPUT"""

import pathlib
import sys


def main():
    name, source, target = sys.argv[1:4]
    data = pathlib.Path(source).read_bytes()
    lines = [", ".join(str(byte) for byte in data[at:at + 24]) + ","
             for at in range(0, len(data), 24)] or ["0"]
    pathlib.Path(target).write_text(
        "/* SPDX-License-Identifier: BSD-2-Clause */\n"
        "#include <stddef.h>\n"
        f"extern const unsigned char {name}[];\n"
        f"extern const size_t {name}_size;\n"
        f"const unsigned char {name}[] __attribute__((aligned(16))) = {{\n"
        + "\n".join(lines) + "\n};\n"
        f"const size_t {name}_size = {len(data)};\n")


if __name__ == "__main__":
    main()
