#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the installed Python package; run by `./dev wheel` in a clean virtual environment: python api_test.py"""
import html
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import numpy as np

import meshwright

COMMAND = pathlib.Path(sys.executable).parent / "meshwright"
SMALL = {"model": "mlp:layers=2,hidden=64", "cluster": "cpu:2", "batch": 64, "layers": 2, "micro_batches": 2}
SMALL_WORDS = ["--model", "mlp:layers=2,hidden=64", "--cluster", "cpu:2", "--batch", "64", "--layers", "2", "--micro-batches", "2"]


def command(*words):
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False)


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = meshwright.plan(**SMALL)

    def test_plan_is_that_of_the_command_to_the_byte(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = pathlib.Path(folder) / "ours.json", pathlib.Path(folder) / "theirs.json"
            self.plan.save(ours)
            self.assertEqual(command("plan", *SMALL_WORDS, "-o", theirs).returncode, 0)
            self.assertEqual(ours.read_bytes(), theirs.read_bytes())
            self.assertEqual(meshwright.Plan.load(theirs), self.plan)

    def test_stages_have_their_layers_devices_and_specs(self):
        (stage,) = self.plan.stages
        self.assertEqual((stage.first_layer, stage.last_layer, stage.submesh), (0, 1, (1, 2)))
        self.assertEqual(stage.devices.tolist(), [0, 1])
        self.assertEqual(stage.parameters["blk0.up/blk0.up.weight"].weight, "RS0")
        self.assertEqual(self.plan.specs["blk0.down/blk0.down.weight"], "S0R")

    def test_timeline_has_every_pass_of_every_device(self):
        timeline = self.plan.timeline
        self.assertEqual(len(timeline), 2 * (2 + 2 + 1))  # devices, and forwards, backwards and an update
        self.assertEqual(timeline.start_s.dtype, np.float64)
        self.assertTrue(np.all(np.diff(timeline.start_s) >= 0.0))
        self.assertAlmostEqual(float(timeline.end_s.max()), self.plan.step_time_s, delta=1e-12)
        self.assertEqual(np.unique(timeline.kind).tolist(), ["backward", "forward", "update"])
        self.assertEqual(np.unique(timeline.micro_batch[timeline.kind == "forward"]).tolist(), [0, 1])

    def test_simulation_predicts_the_plan_and_what_if(self):
        self.assertAlmostEqual(self.plan.simulate().step_time_s, self.plan.step_time_s, delta=1e-12)
        slow = self.plan.simulate(slow_device={1: 0.5})
        self.assertGreater(slow.step_time_s, 1.5 * self.plan.step_time_s)
        self.assertAlmostEqual(float(slow.timeline.end_s.max()), slow.step_time_s, delta=1e-12)

    def test_report_is_shown_in_a_notebook(self):
        shown = self.plan._repr_html_()
        self.assertTrue(shown.startswith(f"<p>{self.plan.answer}</p><iframe sandbox"))
        page = html.unescape(shown.split('srcdoc="')[1].split('"')[0])
        self.assertTrue(page.lower().startswith("<!doctype html"))
        self.assertIn("meshwright-data", page)
        self.assertIn("stage", repr(self.plan))

    def test_run_measures_what_was_predicted(self):
        measured = meshwright.run(self.plan, steps=2, warmup=1, check=True)
        self.assertEqual(measured.step_times_s.shape, (3,))
        self.assertEqual(len(measured.losses), 3)
        self.assertGreater(measured.step_time_s, 0.0)
        self.assertEqual(measured.predicted_step_time_s, self.plan.step_time_s)
        self.assertIn("forward", measured.timeline.kind)

    def test_sweep_is_a_list_of_records(self):
        records = meshwright.sweep(model="mlp:layers=4,hidden=64", cluster="cpu:2", batch=64, layers=[2, 4], micro_batches=[2, 4])
        self.assertEqual([(record["layers"], record["micro_batches"]) for record in records], [("2", "2"), ("2", "4"), ("4", "2"), ("4", "4")])
        best = [record for record in records if record["best"]]
        self.assertEqual(best[0]["step_time_s"], min(record["step_time_s"] for record in records))
        try:
            import pandas
        except ImportError:
            return
        self.assertEqual(pandas.DataFrame(records).shape[0], 4)

    def test_models_and_clusters_are_those_of_the_command(self):
        self.assertIn("gpt-2.6b", [model["name"] for model in meshwright.models()])
        self.assertIn("p3.16xlarge:N", [cluster["pattern"] for cluster in meshwright.clusters()])


class Errors(unittest.TestCase):
    def expect(self, kind, words, verb_call):
        """The function raises `kind` with the sentence that the command prints, and the command ends with the kind's code."""
        said = command(*words)
        self.assertEqual(said.returncode, kind.exit_code, said.stderr)
        with self.assertRaises(kind) as caught:
            verb_call()
        self.assertEqual(f"meshwright: error: {caught.exception}", said.stderr.strip().splitlines()[-1])

    def test_wrong_values_say_what_the_command_says(self):
        for option, value in (("batch", "many"), ("optimizer", "adamm"), ("schedule", "1f2b"), ("dtype", "f8"), ("micro_batches", 7), ("model", "gpt-9"),
                              ("cluster", "p9"), ("learning_rate", -1), ("method", "megatron:tp=3"), ("batch", "")):
            given = {**SMALL, option: value}
            words = [f"--{name.replace('_', '-')}={item}" for name, item in given.items()]
            with self.subTest(option=option, value=value):
                self.expect(meshwright.InputError, ["plan", *words], lambda given=given: meshwright.plan(**given))

    def test_unknown_option_names_the_nearest(self):
        with self.assertRaisesRegex(meshwright.InputError, "unknown option '--bacth'; the nearest known are --batch, "):
            meshwright.plan(**SMALL, bacth=3)

    def test_file_that_cannot_be_written_is_the_systems(self):
        self.expect(meshwright.SystemError, ["plan", *SMALL_WORDS, "-o", "/nowhere/plan.json"], lambda: meshwright.plan(**SMALL, output="/nowhere/plan.json"))

    def test_what_does_not_fit_has_no_plan(self):
        words = ["plan", "--model=gpt-39b", "--cluster=p3.16xlarge:1", "--quiet"]
        self.expect(meshwright.NoFeasiblePlan, words, lambda: meshwright.plan(model="gpt-39b", cluster="p3.16xlarge:1"))

    def test_kinds_have_one_base_and_their_exit_codes(self):
        kinds = (meshwright.InputError, meshwright.InternalError, meshwright.SystemError, meshwright.NoFeasiblePlan)
        self.assertEqual([kind.exit_code for kind in kinds], [2, 3, 4, 5])
        self.assertTrue(all(issubclass(kind, meshwright.MeshwrightError) for kind in kinds))

    def test_call_after_an_error_works(self):
        with self.assertRaises(meshwright.InputError):
            meshwright.call("nothing")
        self.assertEqual(meshwright.plan(**SMALL).micro_batches, 2)


class Long(unittest.TestCase):
    def test_other_threads_go_on(self):
        turns, done = 0, threading.Event()

        def plan():
            meshwright.plan(model="gpt-1.3b", cluster="p3.16xlarge:1", batch=64, layers=8)
            done.set()

        thread = threading.Thread(target=plan)
        thread.start()
        while not done.is_set():
            turns += 1
            time.sleep(0.001)
        thread.join()
        self.assertGreater(turns, 20)

    def interrupt(self, work):
        """Ctrl-C in another interpreter, half a second after it began to work."""
        program = f"import meshwright\nprint('begins', flush=True)\n{work}"
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            self.assertEqual(child.stdout.readline(), "begins\n")
            time.sleep(0.5)
            began = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=60)
            return errors.strip().splitlines()[-1], time.monotonic() - began

    def test_control_c_ends_a_search(self):
        last, seconds = self.interrupt("meshwright.plan(model='llama-3.1-70b', cluster='dgx-h100:64', layers='auto', schedule='auto')")
        self.assertEqual(last, "KeyboardInterrupt")
        self.assertLess(seconds, 20.0)

    def test_control_c_ends_a_sweep(self):
        last, _ = self.interrupt("meshwright.sweep(model='gpt-39b', cluster='p3.16xlarge:8', layers=[8, 16, 32], micro_batches=[16, 32, 64])")
        self.assertEqual(last, "KeyboardInterrupt")

    def test_control_c_ends_a_run(self):
        last, _ = self.interrupt("meshwright.run(meshwright.plan(model='mlp:layers=2,hidden=512', cluster='cpu:2', batch=512, layers=2), steps=100000)")
        self.assertEqual(last, "KeyboardInterrupt")


class Command(unittest.TestCase):
    def test_command_is_the_packages(self):
        self.assertEqual(command("--version").stdout, f"meshwright {meshwright.__version__}\n")

    def test_command_has_its_manual_page(self):
        self.assertTrue((pathlib.Path(sys.prefix) / "share/man/man1/meshwright-plan.1.gz").exists())


class Types(unittest.TestCase):
    def mypy(self, text):
        try:
            import mypy.api
        except ImportError:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "user.py"
            file.write_text(textwrap.dedent(text))
            return mypy.api.run(["--strict", "--cache-dir", folder, str(file)])

    def test_right_arguments_pass_strictly(self):
        out, _, status = self.mypy("""
            import meshwright
            import numpy as np

            plan = meshwright.plan(model="gpt-2.6b", cluster="p3.16xlarge:1", batch=32, micro_batches="auto", optimizer="adam", for_="megatron")
            step: float = plan.simulate(network="fluid", overlap=True, slow_device={3: 0.5}).step_time_s
            busy: np.ndarray[tuple[int], np.dtype[np.float64]] | object = plan.timeline.duration_s
            for record in meshwright.sweep(model="mlp", cluster="cpu:2", layers=[2, 4], micro_batches="2,4"):
                print(record["step_time_s"] + step, plan.stages[0].parameters["w"].weight, busy)
            try:
                meshwright.run(plan, steps=2)
            except meshwright.InputError as error:
                print(error.sentence)
        """)
        self.assertEqual(status, 0, out)

    def test_wrong_arguments_are_found(self):
        out, _, status = self.mypy("""
            import meshwright

            meshwright.plan(model="gpt-2.6b", cluster="p3.16xlarge:1", batch="many")
            meshwright.plan(model="gpt-2.6b", cluster="p3.16xlarge:1", optimizer="adamm")
            meshwright.plan(model="gpt-2.6b")
            meshwright.simulate(3)
        """)
        self.assertEqual(status, 1)
        self.assertIn("Found 4 errors", out)


if __name__ == "__main__":
    unittest.main()
