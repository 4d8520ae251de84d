#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plans found here against those Alpa recorded, against a Megatron grid, and against simpler cuts into stages; see README.md.

    experiments/alpa_osdi22/run.py MESHWRIGHT [--only gpt-2.6b,moe-2.4b] [--part plans|megatron|inter_op|all]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "alpa_osdi22"
NO_PLAN = 5  # exit code: no feasible plan
# Hidden size and transformer layers (GPT), with the number of experts (MoE).
GPT = {"gpt-350m": (1024, 24), "gpt-760m": (1536, 24), "gpt-1.3b": (2048, 24), "gpt-2.6b": (2560, 32), "gpt-6.7b": (4096, 32),
       "gpt-15b": (5120, 48), "gpt-39b": (8192, 48)}
MOE = {"moe-380m": (768, 8, 8), "moe-690m": (768, 8, 16), "moe-1.3b": (768, 16, 16), "moe-2.4b": (1024, 16, 16),
       "moe-10b": (1536, 16, 32), "moe-27b": (2048, 16, 48), "moe-70b": (2048, 32, 64)}
# TFLOP of one step as the artifact counts them (experiments/alpa_v100): convolutions of four passes, none in the padding.
WRESNET = {"wresnet-250m": 491.39, "wresnet-500m": 961.59, "wresnet-1b": 1960.08, "wresnet-2b": 3838.69}
# Model, micro-batches, published TFLOPS per GPU; None: not published as a number. 64 GPUs: the paper's total over 64.
ROWS = [
    ("gpt-350m", 512, 45.07), ("gpt-760m", 128, 57.92), ("gpt-1.3b", 128, 58.21), ("gpt-2.6b", 128, 61.61),
    ("gpt-6.7b", 64, None), ("gpt-15b", 128, None), ("gpt-39b", 1024, 3650 / 64),
    ("moe-380m", 512, 45.46), ("moe-690m", 32, 43.03), ("moe-1.3b", 32, 39.92), ("moe-2.4b", 32, 45.76),
    ("moe-10b", 16, None), ("moe-27b", 128, None), ("moe-70b", 64, 2340 / 64),
    ("wresnet-250m", 24, 8.3), ("wresnet-500m", 24, 8.46), ("wresnet-1b", 24, 8.16), ("wresnet-2b", 24, 8.04),
    ("wresnet-4b", 32, None), ("wresnet-6.8b", 32, None), ("wresnet-13b", 38, None),
]
MEGATRON = {"gpt-350m": 47.53, "gpt-760m": 55.53, "gpt-1.3b": 55.89, "gpt-2.6b": 50.44}  # published: the best of its grid
# Adafactor, the optimizer of the MoE rows, keeps next to no state: sgd is the nearest there is.
OPTIMIZER = {"gpt": "adam", "moe": "sgd", "wresnet": "momentum"}


def step_tflop(model, microbatches):
    """TFLOP of one step, recomputation counted for GPT and MoE: what the published figures divide by. None: unknown."""
    if model in WRESNET:
        return WRESNET[model]
    tokens, seq = 1024 * 1024, 1024
    if model in GPT:
        hidden, layers = GPT[model]
        return (96 * tokens * hidden**2 * layers * (1 + seq / (6 * hidden)) + 6 * tokens * hidden * 51200) / 1e12
    if model not in MOE:
        return None
    hidden, layers, experts = MOE[model]
    group = min(2048, tokens // microbatches)
    attention = 8 * tokens * hidden**2 + 4 * tokens * seq * hidden
    mlp = 32 * tokens * hidden**2
    routed = 2 * mlp + 2 * tokens * hidden * experts + 4 * tokens * group + 8 * tokens * hidden * group
    return (4 * layers / 2 * (2 * attention + mlp + routed) + 6 * tokens * hidden * 32000) / 1e12


class Case:
    """A recorded plan and what is asked of the planner with it."""

    def __init__(self, model, microbatches, published):
        self.model, self.microbatches, self.published = model, microbatches, published
        self.file = EXAMPLES / f"{model}.json"
        stages = json.loads(self.file.read_text(encoding="utf-8"))["stages"]
        self.devices = sum(stage["submesh"][0] * stage["submesh"][1] for stage in stages)
        self.layers = stages[-1]["layers"][1] + 1
        self.faults = []

    def seconds(self, tflops):
        """A published throughput as the time of a step."""
        work = step_tflop(self.model, self.microbatches)
        return work / tflops / self.devices if tflops and work else None

    def plan(self, meshwright, method, layers=None, microbatches=None, more=()):
        """The plan as JSON, with layers and micro-batches as recorded where none are given; None when there is none that fits."""
        done = subprocess.run(
            [meshwright, "plan", "--model", self.model, "--cluster", f"p3.16xlarge:{max(1, self.devices // 8)}",
             "--devices-per-node", str(min(8, self.devices)), "--layers", str(layers or self.layers),
             "--micro-batches", str(microbatches or self.microbatches), "--recompute", "full", "--threads", "1",
             "--optimizer", OPTIMIZER[self.model.split("-")[0]], "--method", method, "--json", *more],
            capture_output=True, text=True)
        if done.returncode == NO_PLAN:
            return None
        if done.returncode != 0:
            self.faults.append(f"{self.model} with {method}: {done.stderr.strip()}")
            return None
        return json.loads(done.stdout)


def shown(seconds, digits=2):
    return "-" if seconds is None else f"{seconds:.{digits}f}"


def time_of(plan):
    return None if plan is None else plan["step_time_s"]


def ratio(found, other):
    return found / other if found and other else None


def verdict(slower):
    print("# the found plan is never slower" if not slower else f"# the found plan is slower or none: {', '.join(slower)}")


def compare_plans(meshwright, cases):
    print("# recorded plans: seconds per step, predicted for the recorded and for the found plan by one simulator; published: measured")
    print("# free: the found plan when the number of micro-batches is searched too (--micro-batches auto)")
    print("# GPUs  model         layers  micro-  stages            recorded     found  found /  free: micro-  stages  seconds   free /   "
          "published  recorded /")
    print("#                             batches recorded, found                       recorded       batches                  recorded "
          "           published")
    slower = []
    for case in cases:
        recorded, found = (case.plan(meshwright, method) for method in (f"manual:{case.file}", "pipeshard"))
        free = case.plan(meshwright, "pipeshard", microbatches="auto")
        quotients = [ratio(time_of(plan), time_of(recorded)) for plan in (found, free)]
        published = case.seconds(case.published)
        stages = ", ".join("-" if plan is None else str(plan["num_stages"]) for plan in (recorded, found))
        chosen = [free and free[key] for key in ("num_micro_batches", "num_stages")]
        print(f"  {case.devices:4}  {case.model:12}  {case.layers:6}  {case.microbatches:7}  {stages:>15}  {shown(time_of(recorded)):>9} "
              f"{shown(time_of(found)):>9}  {shown(quotients[0], 4):>8}  {str(chosen[0]):>12}  {str(chosen[1]):>6}  "
              f"{shown(time_of(free)):>7}  {shown(quotients[1], 4):>8}  {shown(published):>9}  "
              f"{shown(ratio(time_of(recorded), published)):>10}", flush=True)
        for plan, quotient, name in zip((found, free), quotients, (case.model, f"{case.model} (free)")):
            if plan is None or (quotient or 0) > 1 + 1e-9:
                slower.append(name)
    verdict(slower)


def compare_grid(meshwright, cases):
    print("# Megatron grid: every dp x tp x pp of the devices with pp <= layers; layers and micro-batches as recorded")
    print("# GPUs  model         fit of   best (dp x tp x pp)   best (s)  found (s)   found /   published")
    print("#                      all                                                  best    Megatron-LM (s)")
    slower = []
    for case in cases:
        best, fit, tried = None, 0, 0
        for pp in (2**i for i in range(7)):
            for tp in (2**i for i in range(7)):
                if pp > case.layers or case.devices % (tp * pp) != 0:
                    continue
                tried += 1
                plan = case.plan(meshwright, f"megatron:tp={tp},pp={pp}")
                fit += plan is not None
                if plan is not None and (best is None or time_of(plan) < best[0]):
                    best = (time_of(plan), f"{case.devices // tp // pp} x {tp} x {pp}")
        found = time_of(case.plan(meshwright, "pipeshard"))
        quotient = ratio(found, best and best[0])
        print(f"  {case.devices:4}  {case.model:12}  {fit:2} of {tried:2}  {best[1] if best else '-':>20}  {shown(best and best[0]):>9}  "
              f"{shown(found):>9}  {shown(quotient, 4):>8}  {shown(case.seconds(MEGATRON.get(case.model))):>9}", flush=True)
        if best is not None and (quotient is None or quotient > 1 + 1e-9):
            slower.append(case.model)
    verdict(slower)


def shapes(devices):
    """Submesh and logical shapes of a stage with that many of the devices of hosts with 8; none when it would not fill its hosts."""
    if devices > 8 and devices % 8 != 0:
        return []
    submesh = [devices // 8, 8] if devices > 8 else [1, devices]
    return [(submesh, [devices // tensor, tensor]) for tensor in (1, 2, 4, 8) if devices % tensor == 0]


def equal_stages(case, meshwright, layers, more):
    """The fastest pipeline of equal stages: (plan, number of stages), or None. layers: of a cut into that many; None: one per stage."""
    best = None
    for stages in (2**i for i in range(7)):
        count = layers or stages
        if case.devices % stages != 0 or stages > count:
            continue
        borders = [count * stage // stages for stage in range(stages + 1)]
        for submesh, shape in shapes(case.devices // stages):
            file = {"stages": [{"layers": [first, after - 1], "submesh": submesh, "logical_shape": shape}
                               for first, after in zip(borders, borders[1:])]}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as manual:
                json.dump(file, manual)
                manual.flush()
                plan = case.plan(meshwright, f"manual:{manual.name}", count, more=more)
            if plan and (best is None or time_of(plan) < time_of(best)):
                best = plan
    return best


def compare_cuts(meshwright, cases):
    print("# ablation of the inter-operator search: TFLOPS per GPU, predicted; micro-batches as recorded (stages in brackets)")
    print("# GPUs  model         search          equal layers    equal ops, DP   equal ops        best other / search   published: "
          "search, equal layers, equal ops")
    for case in cases:
        plans = [case.plan(meshwright, "pipeshard"), equal_stages(case, meshwright, case.layers, ()),
                 case.plan(meshwright, "pipeshard", more=("--layer-cut", "count")),
                 equal_stages(case, meshwright, None, ("--layer-cut", "count"))]
        cells = [f"{plan['tflops_per_device']:7.2f} ({plan['num_stages']})" if plan else "      -" for plan in plans]
        least = min((time_of(plan) for plan in plans[1:] if plan), default=None)
        known = "61, 61, 40" if case.model == "gpt-2.6b" else "-"
        print(f"  {case.devices:4}  {case.model:12}  " + "  ".join(f"{cell:14}" for cell in cells) +
              f"  {shown(ratio(least, time_of(plans[0])), 4):>18}   {known}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--only", help="models, by comma")
    parser.add_argument("--part", choices=["plans", "megatron", "inter_op", "all"], default="all")
    arguments = parser.parse_args()
    known = [row[0] for row in ROWS]
    wanted = arguments.only.split(",") if arguments.only else known
    for model in wanted:
        if model not in known:
            parser.error(f"--only: '{model}' has no recorded plan; there are {', '.join(known)}.")
    cases = [Case(*row) for row in ROWS if row[0] in wanted]
    if arguments.part in ("plans", "all"):
        compare_plans(arguments.meshwright, cases)
    if arguments.part in ("megatron", "all"):
        compare_grid(arguments.meshwright, [case for case in cases if case.model in GPT])
    if arguments.part in ("inter_op", "all"):
        compare_cuts(arguments.meshwright, [case for case in cases if case.devices >= 8])
    faults = [fault for case in cases for fault in case.faults]
    if faults:
        sys.exit("not planned, though not for lack of memory:\n" + "\n".join(faults))


if __name__ == "__main__":
    main()
