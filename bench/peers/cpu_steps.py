#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps on one and two threads of a processor, ours and PyTorch's by turns: a row per model and number of threads.

    bench/peers/cpu_steps.py MESHWRIGHT --peer-python PYTHON [MODEL@BATCH...] [--rounds 3] [--steps 5] [--first]

PYTHON is one that has PyTorch. Ours is the plan that the search finds for as many devices as threads, with a profile taken before;
PyTorch is given as many threads (see pytorch_steps.py). A round times each once, so that what disturbs the machine disturbs all. Medians of
rounds in milliseconds; share: ours over the better of eager and torch.compile, the median of each round's; gain: one thread's time over it.
--first, as root, takes a real-time priority.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

CASES = {
    "gpt": "gpt:layers=4,hidden=256,heads=4,seq=256,vocab=4096@8",
    "bert": "bert:layers=4,hidden=256,heads=4,seq=256,vocab=4096@8",
    "vit": "vit:layers=4,hidden=256,heads=4,image=64,patch=4,classes=100@8",
    "llama": "llama:layers=4,hidden=256,heads=4,kv_heads=2,intermediate=704,seq=256,vocab=4096@8",
    "moe": "moe:layers=2,hidden=256,heads=4,experts=4,seq=256,vocab=4096@4",
    "wresnet": "wresnet:layers=50,channels=64,width=2,image=64,classes=100@16",
}


class Peer:
    """A process of PyTorch that has a model ready and times steps when asked."""

    def __init__(self, arguments, case, mode, threads):
        words = [arguments.peer_python, pathlib.Path(__file__).with_name("pytorch_steps.py"), case, "--device", "cpu", "--modes", mode,
                 "--threads", threads, "--steps", arguments.steps, "--on-request"]
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready()

    def ready(self):
        row = json.loads(self.process.stdout.readline() or '{"error": "it has ended"}')
        if "error" in row:
            sys.exit(f"PyTorch: {row['error']}")
        return row

    def step_time(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.ready()["step_time_s"]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("cases", nargs="*", metavar="MODEL@BATCH", help=f"or one of {', '.join(CASES)}; default: all of these")
    parser.add_argument("--peer-python", help="without it, ours alone are timed")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--methods", default="pipeshard", help="with + between; the fastest counts")
    parser.add_argument("--budget", type=int, default=40, help="seconds for each model's profile")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="before other programs, at a real-time priority (root)")
    arguments = parser.parse_intermixed_args()
    modes = arguments.modes.split(",") if arguments.peer_python else []

    if arguments.first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))

    def command(*words):
        done = subprocess.run([arguments.meshwright, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def our_step(plan):
        ran = json.loads(command("run", plan, "--steps", arguments.steps, "--json"))
        return statistics.median(ran["step_times_s"][1:])

    print(f"# {time.strftime('%Y-%m-%d')}; medians of {arguments.rounds} rounds of {arguments.steps} steps, profiles of {arguments.budget} s a model;"
          f" milliseconds{'; before other programs' if arguments.first else ''}")
    print(f"{'model':<10}{'threads':>8}{'ours':>10}" + "".join(f"{mode:>10}" for mode in modes)
          + f"{'share':>8}{'spread':>8}{'gain':>7}  method", flush=True)
    with tempfile.TemporaryDirectory(prefix="meshwright-cpu-steps-") as folder:
        for name in arguments.cases or CASES:
            case = CASES.get(name, name)
            model, batch = case.rsplit("@", 1)
            threads_of_all = list(map(int, arguments.threads.split(",")))
            database = pathlib.Path(folder, "profiles.db")
            database.unlink(missing_ok=True)
            command("profile", "--backend", "cpu", "--db", database, "--model", model, "--batch", batch, "--micro-batches", 1, "--cluster",
                    f"cpu:{max(threads_of_all)}", "--budget", arguments.budget)
            first = 0.0
            for threads in threads_of_all:
                plans = {method: pathlib.Path(folder, f"{method.replace(':', '-')}.json") for method in arguments.methods.split("+")}
                for method, plan in plans.items():
                    command("plan", "--model", model, "--batch", batch, "--dtype", "f32", "--cluster", f"cpu:{threads}", "--method", method,
                            "--micro-batches", 1, "--profile", database, "-o", plan)
                with contextlib.ExitStack() as stack:
                    timed = {mode: Peer(arguments, case, mode, threads).step_time for mode in modes}
                    for step_time in timed.values():
                        stack.callback(step_time.__self__.end)
                    timed |= {method: (lambda plan=plan: our_step(plan)) for method, plan in plans.items()}
                    rounds = [{one: step_time() for one, step_time in timed.items()} for _ in range(arguments.rounds)]
                middle = {one: statistics.median(times[one] for times in rounds) for one in timed}
                best = min(plans, key=middle.get)
                shares = [times[best] / min((times[mode] for mode in modes), default=times[best]) for times in rounds]
                first = first or middle[best]
                print(f"{model.split(':')[0]:<10}{threads:>8}{1e3 * middle[best]:>10.1f}"
                      + "".join(f"{1e3 * middle[mode]:>10.1f}" for mode in modes)
                      + f"{statistics.median(shares):>8.2f}{max(shares) - min(shares):>8.2f}{first / middle[best]:>7.2f}  {best}", flush=True)


if __name__ == "__main__":
    main()
