#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it is worth to know that hosts are unlike: 8 A100 and 8 V100 in one cluster; see README.md.

    experiments/unlike_devices/run.py MESHWRIGHT [--only gpt-2.6b]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MIXED, FAST, SLOW, ALIKE = "dgx-a100:1+p3.16xlarge:1", "dgx-a100:1", "p3.16xlarge:1", "p3.16xlarge:2"
NO_PLAN = 5  # exit code: no feasible plan
# Model, batch.
ROWS = [("gpt-2.6b", 1024), ("gpt-6.7b", 1024), ("llama-7b", 256), ("moe-2.4b", 1024)]
WITHIN_A_HOST = ("--submesh-space", "manual:1x1,1x2,1x4,1x8")


class Planner:
    """Plans of one model and batch; f16, recomputed, micro-batches searched where no number is given."""

    def __init__(self, meshwright, model, batch):
        self.common = [meshwright, "plan", "--model", model, "--batch", str(batch), "--dtype", "f16", "--recompute", "full", "--threads", "1"]
        self.faults = []

    def plan(self, cluster, *options):
        """(what --json says, the plan's file), or None when nothing fits."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "plan.json"
            done = subprocess.run([*self.common, "--cluster", cluster, *options, "--json", "-o", str(file)], capture_output=True, text=True)
            if done.returncode == 0:
                return json.loads(done.stdout), json.loads(file.read_text(encoding="utf-8"))
            if done.returncode != NO_PLAN:
                self.faults.append(f"{cluster}: {done.stderr.strip().splitlines()[-1]}")
            return None

    def blind(self):
        """Stages, layers and micro-batches as 16 V100 would have them, on the real hosts: the better of the two orders of hosts."""
        alike = self.plan(ALIKE, *WITHIN_A_HOST)
        best = None
        for first in (0, 1) if alike else ():
            stages = [{"layers": stage["layers"], "submesh": [*stage["submesh"], (stage["devices"][0] // 8 + first) % 2],
                       "logical_shape": stage["logical_shape"]} for stage in alike[1]["stages"]]
            with tempfile.NamedTemporaryFile("w", suffix=".json") as manual:
                json.dump({"stages": stages}, manual)
                manual.flush()
                real = self.plan(MIXED, "--method", f"manual:{manual.name}", "--layers", str(alike[0]["num_layers"]),
                                 "--micro-batches", str(alike[0]["num_micro_batches"]))
            if real and (best is None or real[0]["step_time_s"] < best[0]["step_time_s"]):
                best = real
        return best


def stages_of(plan):
    """Layers and devices of each stage, as in 11 on 4xA100."""
    kinds = ["A100" if stage["devices"][0] < 8 else "V100" for stage in plan[1]["stages"]]
    return ", ".join(f"{stage['layers'][1] - stage['layers'][0] + 1} on {len(stage['devices'])} {kind}"
                     for stage, kind in zip(plan[1]["stages"], kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--only", help="models, by comma")
    arguments = parser.parse_args()
    print("# seconds per step, predicted; f16, adam, recompute full; blind: planned as for 16 V100, then put on the real hosts")
    print("# model         batch    found    blind  8 A100 alone  8 V100 alone  blind /  A100 alone /")
    print("#                                                                       found          found")
    faults, worse = [], []
    for model, batch in ROWS:
        if arguments.only and model not in arguments.only.split(","):
            continue
        planner = Planner(arguments.meshwright, model, batch)
        plans = [planner.plan(MIXED), planner.blind(), planner.plan(FAST), planner.plan(SLOW)]
        times = [plan and plan[0]["step_time_s"] for plan in plans]
        quotient = [times[i] / times[0] if times[0] and times[i] else None for i in (1, 2)]
        cells = ["-" if time is None else f"{time:.3f}" for time in times] + ["-" if q is None else f"{q:.3f}" for q in quotient]
        print(f"  {model:12}  {batch:5}  {cells[0]:>7}  {cells[1]:>7}  {cells[2]:>12}  {cells[3]:>12}  {cells[4]:>7}  {cells[5]:>12}")
        for name, plan in zip(("found", "blind"), plans):
            if plan:
                print(f"#   {name}: {plan[0]['num_micro_batches']} micro-batches, layers: {stages_of(plan)}", flush=True)
        others = [time for time in times[1:] if time]
        if times[0] is None or any(time < times[0] * (1 - 1e-9) for time in others):
            worse.append(model)
        faults += planner.faults
    print("# the found plan is never slower" if not worse else f"# the found plan is slower or none: {', '.join(worse)}")
    if faults:
        sys.exit("not planned, though not for lack of memory:\n" + "\n".join(faults))


if __name__ == "__main__":
    main()
