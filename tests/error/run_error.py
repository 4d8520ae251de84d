#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command that must fail and checks how it fails: run_error.py MESHWRIGHT CASE.txt

    # why this must be refused
    setup: a shell line that prepares the directory; must succeed     (any number)
    $ meshwright ...                                                  (one, after the setup)
    exit: 2
    stderr: a text that standard error must contain                   (at least one)
    unchanged: a file the command must leave byte for byte as it was  (any number)
    absent: a file that must not exist afterwards                     (any number)

Exit code 3 means a fault of this program and is always a failure; a refused input (2) must leave standard output empty. Setup lines
may call meshwright, and "$PYTHON" for what the shell cannot write.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from sandbox import Sandbox  # noqa: E402

KEYS = ("setup", "exit", "stderr", "unchanged", "absent")
EXIT_CODES = {2: "the input is wrong", 4: "the system", 5: "no feasible plan"}


def read_case(path):
    case = {key: [] for key in KEYS}
    case["$"] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.partition(" ") if line.startswith("$ ") else line.partition(": ")
        if key not in case or not value.strip():
            sys.exit(f"{path}:{number}: '{line}' is none of '$ ...', {', '.join(key + ': ...' for key in KEYS)}.")
        case[key].append(value.strip())
    if len(case["$"]) != 1 or len(case["exit"]) != 1 or not case["stderr"]:
        sys.exit(f"{path}: give one '$' line, one 'exit:' and at least one 'stderr:'.")
    if case["exit"][0] not in [str(code) for code in EXIT_CODES]:
        sys.exit(f"{path}: exit {case['exit'][0]} cannot be expected; choose one of {EXIT_CODES}.")
    return case


def contents(box, names):
    return {name: (box.work / name).read_bytes() if (box.work / name).exists() else None for name in names}


def complaints(case, box):
    for line in case["setup"]:
        result = box.run(line)
        if result.returncode != 0:
            return [f"setup failed with exit code {result.returncode}: {line}\n{result.stderr}"]
    before = contents(box, case["unchanged"])
    result, wanted = box.run(case["$"][0]), int(case["exit"][0])
    found = [f"unchanged: {name} does not exist before the command" for name, data in before.items() if data is None]
    if result.returncode == 3:
        found.append("exit code 3: the program blames itself for what is wrong with its input")
    elif result.returncode != wanted:
        found.append(f"exit code {result.returncode}, expected {wanted} ({EXIT_CODES[wanted]})")
    found += [f"standard error does not contain: {text}" for text in case["stderr"] if text not in result.stderr]
    if wanted == 2 and result.stdout:
        found.append(f"standard output is not empty: {result.stdout[:200]}")
    after = contents(box, case["unchanged"])
    found += [f"{name} was changed" for name in before if before[name] != after[name]]
    found += [f"{name} was written" for name in case["absent"] if (box.work / name).exists()]
    return found + [f"standard error was:\n{result.stderr}"] if found else []


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[2]).resolve()
    case = read_case(path)
    with Sandbox(sys.argv[1], path) as box:
        found = complaints(case, box)
    if found:
        print(f"{path.name}: $ {case['$'][0]}\n" + "\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
