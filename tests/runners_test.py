#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden and error runners must accept what is right and reject each way of being wrong, played with a command of a few lines."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

COMMAND = """#!/bin/sh
case "$1" in
  greet) echo "# hello"; echo "a b" ;;
  clock) date +%N ;;
  refuse) echo "plan.json: expected a plan" >&2; exit 2 ;;
  chatter) echo data; echo "plan.json: expected a plan" >&2; exit 2 ;;
  litter) echo more >> kept; echo new > made; echo "plan.json: expected a plan" >&2; exit 2 ;;
  blame-self) echo "plan.json: expected a plan" >&2; exit 3 ;;
esac
"""

# name, runner, case file, whether it must pass
CASES = [
    ("what is printed", "golden", "# a comment\n\n$ meshwright greet\n# hello\na b\n", True),
    ("files are shared", "golden", "$ meshwright greet > f\n$ cat f | tail -1\na b\n", True),
    ("other output", "golden", "$ meshwright greet\n# hello\na c\n", False),
    ("missing output", "golden", "$ meshwright greet\n", False),
    ("other bytes when run again", "golden", "$ meshwright clock\n0\n", False),
    ("a failing command", "golden", "$ meshwright refuse\n", False),
    ("a failure inside a pipe", "golden", "$ meshwright refuse | cat\n", False),
    ("no command", "golden", "# nothing\n", False),
    ("refused as it must be", "error", "setup: echo 1 > kept\n$ meshwright refuse\nexit: 2\nstderr: expected\nunchanged: kept\n", True),
    ("another sentence", "error", "$ meshwright refuse\nexit: 2\nstderr: nearest\n", False),
    ("another exit code", "error", "$ meshwright refuse\nexit: 4\nstderr: expected\n", False),
    ("no failure", "error", "$ meshwright greet\nexit: 2\nstderr: expected\n", False),
    ("a fault of ours", "error", "$ meshwright blame-self\nexit: 2\nstderr: expected\n", False),
    ("a fault of ours cannot be expected", "error", "$ meshwright blame-self\nexit: 3\nstderr: expected\n", False),
    ("data beside a refusal", "error", "$ meshwright chatter\nexit: 2\nstderr: expected\n", False),
    ("a changed file", "error", "setup: echo 1 > kept\n$ meshwright litter\nexit: 2\nstderr: expected\nunchanged: kept\n", False),
    ("a file left behind", "error", "$ meshwright litter\nexit: 2\nstderr: expected\nabsent: made\n", False),
    ("a failing setup", "error", "setup: false\n$ meshwright refuse\nexit: 2\nstderr: expected\n", False),
    ("a misspelled key", "error", "$ meshwright refuse\nexit: 2\nstderr: expected\nsterr: plan\n", False),
    ("nothing expected on stderr", "error", "$ meshwright refuse\nexit: 2\n", False),
]


def run(runner, command, case, accept):
    environment = {key: value for key, value in os.environ.items() if key != "ACCEPT"}
    if accept:
        environment["ACCEPT"] = "1"
    script = HERE / runner / f"run_{runner}.py"
    return subprocess.run([sys.executable, "-B", script, command, case], env=environment, capture_output=True, text=True, check=False)


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        command, case = pathlib.Path(folder, "meshwright"), pathlib.Path(folder, "case.txt")
        command.write_text(COMMAND, encoding="utf-8")
        command.chmod(0o755)
        for name, runner, text, passes in CASES:
            case.write_text(text, encoding="utf-8")
            result = run(runner, command, case, accept=False)
            if (result.returncode == 0) != passes or "Traceback" in result.stderr:
                failures.append(f"{runner}: {name}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        case.write_text("$ meshwright greet\nold\n", encoding="utf-8")
        run("golden", command, case, accept=True)
        if case.read_text(encoding="utf-8") != "$ meshwright greet\n# hello\na b\n":
            failures.append(f"ACCEPT=1 left: {case.read_text(encoding='utf-8')}")
    print("\n".join(failures) if failures else f"{len(CASES)} cases judged as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
