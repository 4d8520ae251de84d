#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a transcript and compares what the commands print with what it says: run_golden.py MESHWRIGHT CASE.txt

A transcript is `# ` comments, then any number of commands, each a line `$ meshwright ...` (run by bash; pipes are allowed)
followed by its exact standard output. All commands of a file share one fresh directory, so a plan made by the first can be simulated
by the second. Every command must exit with 0. What is printed must be what the file recorded from another run; where it is not, the
whole file is run again, to tell another result from one that differs from run to run.
With ACCEPT=1 in the environment the file is rewritten with what was printed; review the difference like code.
"""
import difflib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from sandbox import Sandbox  # noqa: E402

PROMPT = "$ "


def read_transcript(path):
    """The text before the first command, and the commands in order."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.startswith(PROMPT)), None)
    if first is None:
        sys.exit(f"{path}: no command; write a line '$ meshwright ...' followed by what it prints.")
    stray = next((i for i, line in enumerate(lines[:first], 1) if line.strip() and not line.startswith("#")), None)
    if stray:
        sys.exit(f"{path}:{stray}: before the first command only comments ('# ...') may stand.")
    return "".join(lines[:first]), [line[len(PROMPT):].strip() for line in lines if line.startswith(PROMPT)]


def play(binary, path):
    """The transcript as it comes out of this binary."""
    head, commands = read_transcript(path)
    printed = [head]
    with Sandbox(binary, path) as box:
        for command in commands:
            result = box.run(command)
            if result.returncode != 0:
                sys.exit(f"{path}: exit code {result.returncode}, expected 0: {command}\n{result.stderr}")
            output = result.stdout
            printed.append(f"{PROMPT}{command}\n{output}" + ("" if output.endswith("\n") or not output else "\n"))
    return "".join(printed)


def difference(expected, got, expected_name, got_name):
    lines = difflib.unified_diff(expected.splitlines(keepends=True), got.splitlines(keepends=True), expected_name, got_name)
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    binary, path = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    got = play(binary, path)
    expected = path.read_text(encoding="utf-8")
    again = got if got == expected else play(binary, path)
    if got != again:
        print(difference(got, again, "first run", "second run") + "The same command printed different bytes when it was run again.")
        return 1
    if os.environ.get("ACCEPT") == "1":
        path.write_text(got, encoding="utf-8")
        print(f"{path}: accepted")
        return 0
    if got != expected:
        print(difference(expected, got, path.name, "printed") + "If the new output is right: ACCEPT=1 ctest --preset release -L golden")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
