# SPDX-License-Identifier: Apache-2.0
"""The command `meshwright` itself, which the wheel brings along."""
from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    """Becomes the command: its arguments, its exit code, its signals."""
    command = pathlib.Path(__file__).parent / "bin" / "meshwright"
    os.execv(command, ["meshwright", *sys.argv[1:]])
