# SPDX-License-Identifier: Apache-2.0
"""A temporary directory of its own for a case file, with the command under its name `meshwright` in front on the PATH."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Sandbox:
    """`with Sandbox(binary, case) as box:` where a folder beside the case with the case's name holds files the case needs."""

    def __init__(self, binary, case):
        self.binary, self.case = pathlib.Path(binary).resolve(), pathlib.Path(case)
        if not os.access(self.binary, os.X_OK):
            sys.exit(f"{self.binary}: no such command; build it with `./dev build` first.")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="meshwright-")
        root = pathlib.Path(self.folder.name)
        (root / "bin").mkdir()
        (root / "bin" / "meshwright").symlink_to(self.binary)
        self.work = root / "work"
        beside = self.case.with_suffix("")
        if beside.is_dir():
            shutil.copytree(beside, self.work)
        else:
            self.work.mkdir()
        # LC_ALL, COLUMNS and TERM fixed: the same bytes on every machine.
        self.environment = dict(os.environ, PATH=f"{root}/bin:{os.environ['PATH']}", PYTHON=sys.executable, LC_ALL="C.UTF-8",
                                COLUMNS="120", TERM="dumb")
        return self

    def __exit__(self, *unused):
        self.folder.cleanup()

    def run(self, line):
        """Runs one shell line in the directory; a failure anywhere in a pipe is a failure of the line."""
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.work, env=self.environment, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, capture_output=True, check=False)
