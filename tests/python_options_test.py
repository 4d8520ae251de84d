#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the types of the Python functions against the command's options: python_options_test.py MESHWRIGHT

python/meshwright/_options.py is what `meshwright manual --json` says of the verbs that have functions. ACCEPT=1 rewrites it.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).resolve().parent.parent / "python" / "meshwright" / "_options.py"
# A verb, its class, and the options that its function names itself.
CLASSES = [("plan", "PlanOptions", {"--model", "--cluster"}), ("simulate", "SimulateOptions", set()), ("sweep", "SweepOptions", {"--model", "--cluster", "--db"}),
           ("run", "RunOptions", set()), ("profile", "ProfileOptions", {"--db"})]
# Of the terminal: the functions return documents and print nothing.
LEFT_OUT = {"--help", "--json", "--log-steps", "--timeline", "--progress", "--color", "--quiet"}
KEYWORDS = {"for", "as"}
TYPES = {"COUNT": "int", "NUMBER": "float", "FILE": "StrPath", "FOLDER": "StrPath", "NAME|FILE": "StrPath", "MODEL": "StrPath", "CLUSTER": "StrPath",
         "COUNT,...": "int | str | Sequence[int]", "COUNT,...|auto": "int | str | Sequence[int | str]", "NUMBER,...": "float | str | Sequence[float]",
         "NUMBER,...|FILE": "float | StrPath | Sequence[float]", "NAME,...": "str | Sequence[str]", "SCHEDULE,...": "str | Sequence[str]",
         "OP,...|FILE": "StrPath | Sequence[str]", "SIZE": "Mapping[str, int]", "SPEC": "Mapping[str, str]", "SPEED": "Mapping[str, float]", "WHAT FILE": "Mapping[str, StrPath]"}
DEVICE_SPEEDS = {"--slow-device": "Mapping[int, float]"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The options of the functions, written by tests/python_options_test.py from what the command says of its own."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from ._call import StrPath
'''


def literal(words):
    return f"Literal[{', '.join(json.dumps(word) for word in words)}]"


def type_of(option):
    if "value" not in option:
        return "bool"
    shown, words = option["value"], option["words"]
    if shown == "COUNT|auto":
        return f"int | {literal(words)}"
    if shown == "NAME" and words and not any(word.endswith(":") for word in words):
        return literal(words)
    return DEVICE_SPEEDS.get(option["name"]) or TYPES.get(shown, "str")


def class_of(verb, name, own):
    lines = [f"\n\nclass {name}(TypedDict, total=False):", f'    """Options of `meshwright {verb["name"]}`."""\n']
    for option in verb["options"]:
        if option["name"] in own | LEFT_OUT:
            continue
        key = option["name"].removeprefix("--").replace("-", "_")
        lines.append(f"    {key + '_' if key in KEYWORDS else key}: {type_of(option)}")
        lines.append(f'    """{option["meaning"]}"""'.replace("\\", "\\\\"))
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run([sys.argv[1], "manual", folder, "--json"], capture_output=True, text=True, check=True).stdout
    verbs = {verb["name"]: verb for verb in json.loads(said)["verbs"]}
    text = HEAD + "".join(class_of(verbs[verb], name, own) for verb, name, own in CLASSES)
    if os.environ.get("ACCEPT"):
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        print(f"{FILE}: differs from what the command says of its options; run with ACCEPT=1")
        return 1
    print("python_options_test: the types of the functions are those of the options")
    return 0


if __name__ == "__main__":
    sys.exit(main())
