#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Write the regression corpus of tracker_fuzz.c: one input per kind of life a connection has."""
import pathlib
import random

FLOW, REVERSED, L4, ICMP_ERROR, LATER, ORPHAN = 1, 2, 0x100, 0x40, 0x20, 0x200
SYN, ACK, FIN, RST = 2, 16, 17, 4
FOLDER = pathlib.Path(__file__).parent / "corpus"


# policy: the full-table policy, and three times what TCP windows are asked
def config(entries=31, half_open=0, tick=10, policy=1, switches=1, user=16, timeouts=b"\0" * 6):
    return bytes([entries, half_open, tick, policy, switches, user]) + timeouts


def packet(flow, flags, tcp=0, seq=1, step=(1, 20), what=0):
    return bytes([flow, flags & 255, flags >> 8, tcp, seq, *step, what])


def whole(flow, seq=1):
    there, back = FLOW | L4, FLOW | L4 | REVERSED
    return b"".join([
        packet(flow, there, SYN, seq), packet(flow, back, SYN | ACK), packet(flow, there, ACK),
        packet(flow, there, FIN), packet(flow, back, FIN), packet(flow, there, ACK, what=0x85)])


def main():
    FOLDER.mkdir(exist_ok=True)
    there = FLOW | L4
    flood = b"".join(packet(i, there, SYN, what=0x81) for i in range(250))
    inputs = {
        "reuse": config() + whole(0) + whole(0, 9) + packet(0, there, RST) + whole(0, 3),
        "flood_drop": config(policy=0) + flood,
        "flood_pass": config(policy=1, half_open=7) + flood,
        "flood_evict": config(policy=2) + flood + whole(0),
        "one_entry": config(entries=0) + whole(0) + flood,
        "fragments": config() + packet(2, FLOW | LATER | ORPHAN) + packet(0, FLOW | LATER)
        + packet(3, FLOW | ICMP_ERROR) + packet(3, there) + packet(3, FLOW | ICMP_ERROR, what=0x84),
        "windows_liberal": config(policy=4) + whole(0) + whole(0, 9) + packet(0, there, RST),
        "windows_strict": config(policy=7) + whole(0) + whole(0, 9) + packet(0, there, RST),
        "time_jump": config(switches=1 | 64, timeouts=bytes(range(1, 7)))
        + b"".join(packet(i % 5, there, ACK, step=(200, i % 56), what=0x85) for i in range(80)),
    }
    for seed in range(9):
        rng = random.Random(seed)
        inputs[f"random{seed}"] = config(
            entries=rng.randrange(256), half_open=rng.randrange(40), tick=rng.randrange(24),
            policy=seed, switches=rng.randrange(128), user=rng.randrange(200),
            timeouts=rng.randbytes(6)) + b"".join(
                packet(rng.randrange(64), rng.choice([0x101, 0x103, rng.randrange(1024)]),
                       rng.choice([SYN, SYN | ACK, ACK, FIN, RST, rng.randrange(256)]),
                       rng.randrange(3), (rng.randrange(256), rng.randrange(30)),
                       rng.choice([0, 0, 0, 0x80, 0x81, 0x85, rng.randrange(256)]))
                for _ in range(500))
    for name, data in inputs.items():
        (FOLDER / f"{name}.bin").write_bytes(data)


main()
