#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The manual says of each command what its help says: options, arguments; for trace commands in the
same words.

Usage: manual_test.py SHEAF MANUAL
"""

import pathlib
import re
import subprocess
import sys
import unittest

SHEAF, MANUAL = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
SHARED_SECTIONS = {"replay": "REPLAY AND COMPARE", "compare": "REPLAY AND COMPARE"}


def sheaf(*arguments):
    return subprocess.run([SHEAF, *arguments], capture_output=True, text=True, timeout=60,
                          check=False)


def plain(text):
    """Without troff's escapes and quotes."""
    text = re.sub(r"\\f[BRIP]", "", text).replace("\\-", "-").replace("\\(aq", "'")
    return re.sub(r" +", " ", text.replace('"', "")).strip()


def sections():
    """Heading and lines of each section of the manual."""
    found, lines = {}, None
    for line in MANUAL.read_text(encoding="utf-8").splitlines():
        if line.startswith(".SH "):
            lines = found.setdefault(line[4:].strip('"'), [])
        elif lines is not None:
            lines.append(line)
    return found


def manual_options(lines):
    """Option as written, and the line that explains it."""
    found = {}
    for tag, name, explanation in zip(lines, lines[1:], lines[2:]):
        if tag == ".TP" and re.match(r"\.(B|BI|BR|RI) \"?\\-", name):
            found[plain(name.split(" ", 1)[1])] = plain(explanation)
    return found


def help_options(command):
    """The same from a command's help; an item's lines stand further right."""
    found, lines = {}, sheaf("help", *command.split()).stdout.splitlines()
    for i, line in enumerate(lines):
        option = re.match(r"  (-.*?)(?:  +(.*))?$", line)
        if option:
            text = option.group(2) or lines[i + 1].strip()
            found[option.group(1).strip()] = re.sub(r" \(default .*\)$", "", text)
    return found


def commands():
    """What the overview lists, without help and version."""
    names = re.findall(r"^  sheaf ((?:(?:trace|bench|infer) )?[a-z]+)", sheaf("help").stdout, re.M)
    return [name for name in names if name not in ("help", "version")]


def help_defaults(command):
    """Long option and the default that the help shows, of the options that have one."""
    found, lines = {}, sheaf("help", *command.split()).stdout.splitlines()
    for i, line in enumerate(lines):
        option = re.match(r"  (?:-., )?--([a-z0-9-]+)(?: |$)", line)
        if not option:
            continue
        whole = line if re.search(r"\S  +\S", line[2:]) else line + lines[i + 1]
        default = re.search(r" \(default (.*)\)$", whole)
        if default:
            found[option.group(1)] = default.group(1)
    return found


class Manual(unittest.TestCase):
    def setUp(self):
        self.sections = sections()
        self.commands = commands()
        self.assertGreater(len(self.commands), 5)

    def test_the_synopsis_lists_the_commands(self):
        lines = "\n".join(self.sections["SYNOPSIS"])
        listed = re.findall(r"^\.B sheaf ((?:(?:trace|bench|infer) )?[a-z]+)", lines, re.M)
        self.assertEqual(sorted(listed), sorted([*self.commands, "help", "version"]))

    def test_groups_of_commands_have_help(self):
        groups = sorted({command.split()[0] for command in self.commands if " " in command})
        self.assertEqual(groups, ["bench", "infer", "trace"])
        for group in groups:
            done = sheaf("help", group)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            listed = re.findall(r"^  sheaf ([a-z]+ [a-z]+)", done.stdout, re.M)
            self.assertEqual(listed, [c for c in self.commands if c.startswith(group + " ")])
            for asked in ("--help", "-h"):
                self.assertEqual(sheaf(group, asked).stdout, done.stdout)
        for command in self.commands:
            words = command.split()
            self.assertEqual(sheaf(*words, "--help").stdout, sheaf("help", *words).stdout)
        self.assertEqual(sheaf("help", "trace", "gen", "twice").returncode, 1)

    def test_defaults_are_values_that_the_command_takes(self):
        shown = 0
        for command in self.commands:
            defaults = help_defaults(command)
            words = [word for name, value in defaults.items() for word in (f"--{name}", value)]
            done = sheaf(*command.split(), *words, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            shown += len(defaults)
        self.assertGreater(shown, 60)

    def test_every_decision_is_in_the_list(self):
        folder = MANUAL.parent / "decisions"
        listed = dict(re.findall(r"\| \[\d+\]\((\S+)\) \| (.*) \|", (folder / "README.md").read_text()))
        pages = {page.name: page.read_text().split("\n")[0] for page in folder.glob("0*.md")}
        self.assertEqual({name: f"# {int(name[:4])}. {title}" for name, title in listed.items()}, pages)

    def test_a_refusal_lists_the_commands(self):
        message = sheaf("help", "nothing-of-the-kind").stderr
        for command in self.commands:
            self.assertRegex(message, rf"[ ,]{command}\b")

    def test_each_command_has_its_options_and_no_other(self):
        by_section = {}
        for command in self.commands:
            section = SHARED_SECTIONS.get(command, command.upper())
            self.assertIn(section, self.sections)
            by_section.setdefault(section, {}).update(help_options(command))
        for section, options in by_section.items():
            with self.subTest(section=section):
                manual = manual_options(self.sections[section])
                self.assertEqual(sorted(manual), sorted(options))

    def test_options_are_explained_alike(self):
        """The manual's first line is the help's; more may follow."""
        for command in self.commands:
            if not command.startswith(("trace ", "infer export")):
                continue
            manual = manual_options(self.sections[command.upper()])
            for option, text in help_options(command).items():
                with self.subTest(command=command, option=option):
                    expected = text[0].upper() + text[1:] + "."
                    self.assertEqual(manual[option], expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
