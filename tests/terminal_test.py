#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a drawing looks like on a terminal and off it: terminal_test.py MESHWRIGHT. A pseudo-terminal stands for the terminal."""
import fcntl
import os
import pathlib
import pty
import re
import struct
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from sandbox import Sandbox  # noqa: E402

MAKE_PLAN = ("meshwright plan --model mlp:layers=2,hidden=256 --cluster cpu:2 --batch 256 --layers 2 --micro-batches 4 "
             "--method megatron:pp=2 -o plan.json")
DECIDES = ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLORTERM", "COLORFGBG", "COLUMNS")


def on_terminal(box, arguments, columns, **variables):
    """The text that the command writes to a terminal of so many columns."""
    environment = {name: value for name, value in box.environment.items() if name not in DECIDES}
    environment.update(TERM="xterm-256color", **variables)
    child, screen = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.chdir(box.work)
        os.execve(box.binary, ["meshwright", *arguments], environment)
    text = b""
    while True:
        try:
            more = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        text += more
    os.close(screen)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, text.decode()
    return text.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def drawing(text):
    """The lines of the timeline, with its axis and its legend."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if "|" in line)
    last = next(i for i, line in enumerate(lines) if "a column is" in plain(line))
    return lines[first:last + 1]


class WithPlan(unittest.TestCase):
    """Tests beside a plan file."""

    @classmethod
    def setUpClass(cls):
        cls.box = Sandbox(BINARY, pathlib.Path("terminal.txt")).__enter__()
        made = cls.box.run(MAKE_PLAN)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.box.__exit__()


class Timeline(WithPlan):
    def shown(self, columns, *options, **variables):
        return on_terminal(self.box, ["simulate", "plan.json", "--timeline", *options], columns, **variables)

    def piped(self, line=""):
        done = self.box.run(f"env -u NO_COLOR {line}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_fits_the_width_of_the_terminal(self):
        for columns in (60, 100, 173):
            lines = drawing(plain(self.shown(columns)))
            self.assertEqual({len(line) for line in lines if "|" in line}, {columns})
            self.assertLessEqual(max(map(len, lines)), columns)

    def test_has_96_columns_off_a_terminal_and_no_control_codes(self):
        text = self.piped("meshwright simulate plan.json --timeline")
        self.assertNotIn("\x1b", text)
        self.assertEqual({len(line.split(" | ")[1]) for line in drawing(text) if "|" in line}, {96})
        self.assertTrue(text.isascii())

    def test_has_colours_on_a_terminal_only(self):
        self.assertIn("\x1b[", self.shown(100))
        self.assertIn("F0", plain(self.shown(100)))

    def test_no_color_wins_over_forcing_and_the_option_over_both(self):
        self.assertNotIn("\x1b[", self.shown(100, NO_COLOR="1", FORCE_COLOR="1"))
        self.assertIn("\x1b[", self.shown(100, "--color", "always", NO_COLOR="1"))
        self.assertNotIn("\x1b[", self.shown(100, "--color", "never", FORCE_COLOR="1"))
        self.assertIn("\x1b[", self.shown(100, NO_COLOR=""))

    def test_forcing_wins_over_the_pipe_and_over_clicolor(self):
        self.assertIn("\x1b[", self.piped("CLICOLOR_FORCE=1 CLICOLOR=0 meshwright simulate plan.json --timeline"))
        self.assertIn("\x1b[", self.piped("FORCE_COLOR=1 meshwright simulate plan.json --timeline"))
        self.assertNotIn("\x1b[", self.shown(100, CLICOLOR="0"))

    def test_is_ascii_where_the_terminal_has_no_unicode(self):
        self.assertTrue(self.shown(100, LC_ALL="C").isascii())
        self.assertFalse(self.shown(100, LC_ALL="C.UTF-8").isascii())


class ProgressLine(WithPlan):
    def lines(self, columns, *more):
        """What was on the line one after the other."""
        shown = on_terminal(self.box, ["run", "plan.json", "--steps", "60", *more], columns)
        return [line for line in re.split(r"\r\x1b\[K", shown)[1:] if "steps, " in line]

    def test_fits_and_always_ends_with_how_far_the_work_is(self):
        for columns in (40, 70, 200):
            lines = self.lines(columns)
            self.assertTrue(lines)
            for line in lines:
                self.assertLess(len(line), columns)
                self.assertRegex(line, r" \d+/61(, about \d+ (s|min|h) left)?$")

    def test_is_not_there_when_quiet(self):
        self.assertEqual(self.lines(80, "--quiet"), [])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    BINARY = sys.argv.pop()
    unittest.main()
