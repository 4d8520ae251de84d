#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures that the command writes are XML that says what it shows, whatever names are in it: svg_test.py MESHWRIGHT."""
import json
import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from sandbox import Sandbox  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</style><script>alert(1)</script>\"'&"
MAKE_PLAN = ("meshwright plan --model mlp:layers=2,hidden=256 --cluster {} --batch 256 --layers 2 --micro-batches 4 "
             "--method megatron:pp=2 -o plan.json")


class Pictures(unittest.TestCase):
    def setUp(self):
        self.box = Sandbox(BINARY, pathlib.Path("svg.txt")).__enter__()
        self.addCleanup(self.box.__exit__)

    def run_line(self, line):
        done = self.box.run(line)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def picture(self, line, name="picture.svg"):
        """The root of the picture that the command writes; the same bytes when it runs again."""
        self.run_line(line)
        text = (self.box.work / name).read_bytes()
        self.run_line(line)
        self.assertEqual((self.box.work / name).read_bytes(), text)
        root = ElementTree.fromstring(text)
        self.assertEqual(root.tag, SVG + "svg")
        self.assertEqual(root.get("role"), "img")
        self.assertTrue(root.find(SVG + "title").text)
        self.assertTrue(root.find(SVG + "desc").text)
        self.assertIn("prefers-color-scheme:dark", root.find(SVG + "style").text)
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        self.assertLessEqual(tags, {"svg", "title", "desc", "style", "rect", "path", "circle", "text", "g"})
        self.assertLessEqual(sum(1 for _ in root.iter()), 2 * 5000)
        return root

    def test_timeline_has_every_pass(self):
        self.run_line(MAKE_PLAN.format("cpu:2"))
        root = self.picture("meshwright simulate plan.json --svg picture.svg")
        tips = [title.text.split(":")[0] for title in root.iter(SVG + "title")]
        for stage in (0, 1):
            for micro_batch in range(4):
                self.assertIn(f"forward {micro_batch} of stage {stage}", tips)
                self.assertIn(f"backward {micro_batch} of stage {stage}", tips)

    def test_memory_tells_the_peak_that_the_command_prints(self):
        self.run_line(MAKE_PLAN.format("cpu:2"))
        root = self.picture("meshwright simulate plan.json --svg picture.svg --chart memory")
        said = json.loads(self.run_line("meshwright simulate plan.json --json"))
        peak = max(stage["peak_memory_bytes"] for stage in said["stages"]) / 2**30
        self.assertIn(f"{peak:.2f} GiB", root.find(SVG + "desc").text)

    def test_sweep_has_every_point_and_the_front_only_plans(self):
        command = ("meshwright sweep --model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 16 --layers 1,2,99 --micro-batches 2,4 "
                   "--db sweep.db --json --svg picture.svg")
        points = json.loads(self.run_line(command))["points"]
        marked = {int(group.get("data-point")) for group in self.picture(command).iter(SVG + "g")}
        self.assertEqual(marked, set(range(len(points))))
        marked = {int(group.get("data-point")) for group in self.picture(command + " --chart front --axes memory,step").iter(SVG + "g")}
        self.assertEqual(marked, {i for i, point in enumerate(points) if point["feasible"]})

    def test_front_of_a_plan_has_its_points(self):
        command = ("meshwright plan --model mlp:layers=4,hidden=256 --cluster cpu:4 --batch 64 --layers 4 --micro-batches 4 --pareto "
                   "--json --svg picture.svg --axes memory,devices")
        front = json.loads(self.run_line(command))["front"]
        self.assertEqual(sum(1 for _ in self.picture(command).iter(SVG + "g")), len(front))

    def test_evil_names_stay_text(self):
        self.run_line(MAKE_PLAN.format("cpu:2"))
        plan = self.box.work / "plan.json"
        made = json.loads(plan.read_text())
        made["cluster"]["name"] = EVIL
        plan.write_text(json.dumps(made))
        for chart in ("timeline", "memory"):
            root = self.picture(f"meshwright simulate plan.json --svg picture.svg --chart {chart}")
            self.assertIn(EVIL.replace("\u0007", "\ufffd"), root.find(SVG + "title").text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    BINARY = sys.argv.pop()
    unittest.main()
