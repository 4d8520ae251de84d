#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs plans in several processes: together_test.py MESHWRIGHT MPIRUN

Whatever the number of processes, a plan trains as one device does; where a process fails or dies, all end, and one sentence says why.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MODEL = "gpt:layers=2,hidden=32,heads=4,seq=16,vocab=64"
SECONDS = 60


class Together(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="meshwright-mpi-")
        cls.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LC_ALL="C.UTF-8",
                               TMPDIR="/tmp")
        version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, env=cls.environment).stdout
        # Others take more processes than cores without being told.
        cls.options = ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in version or "OpenRTE" in version else []

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def meshwright(self, *arguments):
        return subprocess.run([MESHWRIGHT, *arguments], cwd=self.folder.name, capture_output=True, text=True, timeout=SECONDS)

    def command(self, processes, *arguments):
        return [MPIRUN, *self.options, "-n", str(processes), MESHWRIGHT, *arguments]

    def together(self, processes, *arguments):
        return subprocess.run(self.command(processes, *arguments), cwd=self.folder.name, capture_output=True, text=True,
                              env=self.environment, timeout=SECONDS)

    def plan(self, name, *options, model=MODEL):
        made = self.meshwright("plan", "--model", model, "--dtype", "f32", "--batch", "8", "--cluster", "cpu:4", *options, "-o",
                               f"{name}.json")
        self.assertEqual(made.returncode, 0, made.stderr)
        return f"{name}.json"

    def ran(self, processes, plan, *options):
        run = self.together(processes, "run", plan, "--transport", "mpi", "--precision", "f64", "--steps", "2", "--json", *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)  # one document, whatever the number of processes

    def test_plans_train_like_one_device_in_any_number_of_processes(self):
        for name, method in {"tensor_and_pipeline": "megatron:tp=2,pp=2", "data": "data", "zero": "zero3"}.items():
            plan = self.plan(name, "--method", method, "--micro-batches", "2")
            alone = self.meshwright("run", plan, "--precision", "f64", "--steps", "2", "--json")
            expected = json.loads(alone.stdout)["losses"]
            for processes in (1, 2, 3, 4):
                with self.subTest(plan=name, processes=processes):
                    run = self.ran(processes, plan, "--check")
                    self.assertLess(run["max_relative_difference"], 1e-12)
                    self.assertEqual(run.get("processes", 1), processes)
                    if processes == 4:  # each sum is made in the same order then
                        self.assertEqual(run["losses"], expected)

    def test_keys_travel_around_a_ring_of_processes(self):
        model = "llama:layers=1,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=32,vocab=32"
        plan = self.plan("ring", "--method", "context:cp=4,cp-comm=p2p", "--micro-batches", "2", model=model)
        for processes in (2, 3, 4):
            with self.subTest(processes=processes):
                self.assertLess(self.ran(processes, plan, "--check")["max_relative_difference"], 1e-12)

    def test_the_first_process_says_what_is_wrong_and_says_it_once(self):
        plan = self.plan("refused", "--method", "data")
        for processes, arguments, code, sentence in (
                (5, ["run", plan], 2, "5 processes are too many for 4 devices"),
                (3, ["run", "nothing.json"], 4, "nothing.json: cannot be opened"),
                (2, ["run", plan, "--precision", "f16"], 2, "--precision: unknown precision 'f16'")):
            with self.subTest(arguments=arguments):
                run = self.together(processes, *arguments, "--transport", "mpi")
                self.assertEqual(run.returncode, code, run.stderr)
                self.assertEqual(run.stderr.count("meshwright: error:"), 1, run.stderr)
                self.assertIn(sentence, run.stderr)
                self.assertEqual(run.stdout, "")

    def test_a_process_that_dies_ends_all(self):
        plan = self.plan("killed", "--method", "data")
        run = subprocess.Popen(self.command(2, "run", plan, "--transport", "mpi", "--steps", "100000"), cwd=self.folder.name,
                               env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ours = []
        give_up = time.monotonic() + SECONDS
        while len(ours) < 2 and time.monotonic() < give_up:
            ours = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_ours(pid)]
            time.sleep(0.1)
        self.assertEqual(len(ours), 2)
        os.kill(ours[-1], signal.SIGKILL)
        _, err = run.communicate(timeout=SECONDS)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(err, re.compile("killed|signal 9", re.IGNORECASE))
        self.assertFalse([pid for pid in ours if self.is_ours(pid)])

    def is_ours(self, pid):
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            folder = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            return False
        return command[0] == MESHWRIGHT.encode() and state != "Z" and folder == self.folder.name


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    MESHWRIGHT, MPIRUN = str(pathlib.Path(sys.argv.pop(1)).resolve()), sys.argv.pop(1)
    unittest.main()
