# SPDX-License-Identifier: Apache-2.0
"""Runs the command on what it was never meant for, within limits of time and memory, and says how it failed."""
import os
import resource
import signal
import subprocess
import sys

from sandbox import Sandbox

SMALL = "--model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 16 --layers 2 --micro-batches 2".split()
TIME_S, MEMORY = 60, 3 << 30  # of processor time; of addresses


class Commands:
    def __init__(self, box):
        self.box, self.work = box, box.work

    def write(self, name, text):
        (self.work / name).write_text(text, encoding="utf-8")

    def start(self, arguments, **more):
        def limits():
            resource.setrlimit(resource.RLIMIT_CPU, (TIME_S, TIME_S))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs may ignore them
                signal.signal(number, signal.SIG_DFL)

        words = [os.fsencode(self.box.binary), *(os.fsencode(word) for word in arguments)]
        return subprocess.Popen(words, cwd=self.work, env=self.box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=limits, **more)

    def run(self, arguments):
        """(exit code, bytes of stdout, bytes of stderr)"""
        command = self.start(arguments)
        out, err = command.communicate()
        return command.returncode, out, err

    def ok(self, arguments):
        code, out, err = self.run(arguments)
        assert code == 0, f"exit code {code}: {arguments}\n{err.decode(errors='replace')}"
        return out

    def refused(self, arguments, *said, codes=(2,)):
        """One sentence that says so; returns it."""
        code, out, err = self.run(arguments)
        error = err.decode(errors="backslashreplace")
        shown = [word if len(word) < 100 else word[:100] for word in map(str, arguments)]
        assert code in codes, f"exit code {code}: {shown}\n{error[-2000:]}"
        assert not out, f"standard output is not empty: {shown}"
        sentence = error[error.index("meshwright: error: "):] if "meshwright: error: " in error else ""
        assert sentence.count("\n") == 1, f"not one sentence: {shown}\n{error[-2000:]}"
        for text in said:
            assert text in sentence, f"does not say '{text}': {shown}\n{sentence[-2000:]}"
        return sentence


def main(doc, file, claims):
    if len(sys.argv) != 2:
        sys.exit(doc)
    failures = 0
    for claim in claims:
        with Sandbox(sys.argv[1], file) as box:
            try:
                claim(Commands(box))
            except AssertionError as error:
                failures += 1
                print(f"{claim.__name__}: {error}")
    sys.exit(1 if failures else 0)
