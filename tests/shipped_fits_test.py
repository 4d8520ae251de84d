#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shipped numbers of software profiles are what `calibrate` finds: shipped_fits_test.py MESHWRIGHT

Two profiles with few rows are fitted again from the published runs in $MESHWRIGHT_DATA/validation, and adopting the result changes no
number of costmodel/sheets/software.json by more than one in its last digit, the third of a number and the tenth of a per cent of a mean
error: that much may turn with the mathematics library of a processor.
"""
import difflib
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FITS = ("megatron-te", "megatron-te-mixtures", "nemo-2026-mixtures")
SKIPPED = 77


NUMBER = re.compile(r'("mean(?:_kept_back)?": )?(?<![\w.])(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])')


def last_digit(is_mean, number):
    """What one in the last digit is worth."""
    if is_mean:
        return 0.1
    return 10.0 ** (math.floor(math.log10(abs(number))) - 2) if number else 0.0


def agree(shipped, again):
    """Whether two lines are the same text with the same numbers, to the last digit."""
    if NUMBER.sub(r"\1", shipped) != NUMBER.sub(r"\1", again):
        return False
    pairs = [(mean, float(x), float(y)) for (mean, x), (_, y) in zip(NUMBER.findall(shipped), NUMBER.findall(again))]
    return all(abs(x - y) <= 1.001 * last_digit(mean, max(x, y, key=abs)) for mean, x, y in pairs)


def main():
    data = os.environ.get("MESHWRIGHT_DATA")
    if not data:
        print("MESHWRIGHT_DATA is not set: no published runs here")
        return SKIPPED
    root = pathlib.Path(__file__).resolve().parents[1]
    accuracy, shipped = root / "experiments/accuracy", root / "costmodel/sheets/software.json"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([accuracy / "fit.sh", sys.argv[1], pathlib.Path(data) / "validation", folder, "megatron-te", "nemo-2026"], check=True)
        again = pathlib.Path(folder) / "software.json"
        again.write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
        subprocess.run([sys.executable, "-B", accuracy / "adopt.py", again, *(f"{folder}/{fit}.json" for fit in FITS)], check=True)
        before, after = (path.read_text(encoding="utf-8").splitlines() for path in (shipped, again))
    if len(before) != len(after) or not all(map(agree, before, after)):
        print("\n".join(difflib.unified_diff(before, after, "shipped", "fitted again", lineterm="", n=0)))
        return 1
    print(f"{len(FITS)} fits find the shipped numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
