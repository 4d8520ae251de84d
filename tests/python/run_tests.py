#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package where `./dev wheel` has installed it: run_tests.py MESHWRIGHT

Exit code 77 (skipped), with the reason, where it has not, or where the package is older than the command.
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parent.parent / "build" / "wheel" / "clean"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    modules = sorted(VENV.glob("lib/python3.*/site-packages/meshwright/_core*.so"))
    if not modules:
        print("[SKIP] no wheel is installed; ./dev wheel makes one")
        return 77
    if modules[0].stat().st_mtime < pathlib.Path(sys.argv[1]).stat().st_mtime:
        print("[SKIP] the installed wheel is older than the command; ./dev wheel makes a new one")
        return 77
    return subprocess.run([VENV / "bin/python", "-B", HERE / "api_test.py"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
