#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it is worth that the towers of a two-tower model work at the same time; see README.md.

    experiments/two_tower/run.py MESHWRIGHT [--only clip-l14]
"""
import argparse
import json
import subprocess
import sys

NO_PLAN = 5  # exit code: no feasible plan
# Name, model, batch, blocks of the image and of the text tower, layers that each tower is cut into.
MODELS = [
    ("clip-b32", "clip-b32", 4096, 12, 12, 6),
    ("clip-l14", "clip-l14", 4096, 24, 12, 6),
    ("twins-3.3b", "two_tower:layers=32,hidden=2048,heads=16,image=224,patch=14,text_layers=32,text_hidden=2048,text_heads=16,seq=257,"
     "vocab=49408,embed=1024", 1024, 32, 32, 8),
    ("twins-6.5b", "two_tower:layers=32,hidden=2880,heads=24,image=224,patch=14,text_layers=32,text_hidden=2880,text_heads=24,seq=257,"
     "vocab=49408,embed=1024", 1024, 32, 32, 8),
]
CLUSTERS = ["p3.16xlarge:1", "p3.16xlarge:2", "dgx-a100:1"]
ONE_STAGE = ["shard", "data", "zero1", "zero2", "zero3"]


def starts(image_blocks, text_blocks, layers, line):
    """First ops of whole-block layers, the same number per tower. A line: the first of the text tower is not where that tower begins but
    after its embedding, which the last layer of the image tower gets: all layers of texts then follow all of images."""
    def rest(tower, blocks):
        return [f"{tower}.blk{blocks * i // layers}.ln1" for i in range(1, layers)]
    return ",".join(["image.embed", *rest("image", image_blocks), "text.blk0.ln1" if line else "text.embed", *rest("text", text_blocks)])


class Planner:
    def __init__(self, meshwright, model, batch, cluster):
        self.common = [meshwright, "plan", "--model", model, "--batch", str(batch), "--cluster", cluster, "--recompute", "full",
                       "--threads", "1", "--json"]
        self.faults = []

    def plan(self, *options):
        """The plan as JSON, or None when nothing fits."""
        done = subprocess.run([*self.common, *options], capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        if done.returncode != NO_PLAN:
            self.faults.append(f"{' '.join(self.common[1:])} {' '.join(options)}: {done.stderr.strip().splitlines()[-1]}")
        return None


def shown(time):
    return "-" if time is None else f"{time:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--only", help="models, by comma")
    arguments = parser.parse_args()
    print("# seconds per step, predicted; recompute full; found and line: pipeshard; micro-batches of all as found's, which are searched")
    print("# pipelines: the same where a stage is at most half a host, so that there are stages side by side, or in a line")
    print("# model       cluster          micro-    found   stages     line   stages  best of one stage    best other  pipelines:  line  line /")
    print("#                              batches                                                        / found     branches          branches")
    faults, worse = [], []
    for name, model, batch, images, texts, layers in MODELS:
        if arguments.only and name not in arguments.only.split(","):
            continue
        for cluster in CLUSTERS:
            planner = Planner(arguments.meshwright, model, batch, cluster)
            cuts = [("--layer-starts", starts(images, texts, layers, line)) for line in (False, True)]
            found = planner.plan(*cuts[0])
            if found is None:
                print(f"  {name:10}  {cluster:15}  no plan fits", flush=True)
                faults += planner.faults
                continue
            count = ("--micro-batches", str(found["num_micro_batches"]))
            line = planner.plan(*cuts[1], *count)
            single = min(((plan["step_time_s"], method) for method in ONE_STAGE if (plan := planner.plan("--method", method, *count))),
                         default=(None, "-"))
            halves = ("--submesh-space", "manual:1x1,1x2,1x4")
            piped = [planner.plan(*cut, *count, *halves) for cut in cuts]
            times = [plan and plan["step_time_s"] for plan in (found, line, *piped)]
            others = [time for time in (times[1], single[0]) if time]
            quotient = min(others) / times[0] if others else None
            gain = times[3] / times[2] if times[2] and times[3] else None
            print(f"  {name:10}  {cluster:15}  {found['num_micro_batches']:7}  {times[0]:7.3f}  {found['num_stages']:6}  {shown(times[1]):>7}  "
                  f"{line['num_stages'] if line else '-':>6}  {shown(single[0]):>9} {single[1]:7}  {shown(quotient):>11}  "
                  f"{shown(times[2]):>9}  {shown(times[3]):>7}  {shown(gain):>6}", flush=True)
            if others and min(others) < times[0] * (1 - 1e-9):
                worse.append(f"{name} on {cluster}")
            faults += planner.faults
    print("# the found plan is never slower" if not worse else f"# the found plan is slower: {', '.join(worse)}")
    if faults:
        sys.exit("not planned, though not for lack of memory:\n" + "\n".join(faults))


if __name__ == "__main__":
    main()
