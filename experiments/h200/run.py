#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that is to be seen on a machine with an NVIDIA GPU; see README.md.

    experiments/h200/run.py MESHWRIGHT [--quick] [--only profile,runs] [--out build/h200] [--peer-python PYTHON]

Stages: device, newest, tests, sanitizer, kernels, profile, runs, ops, shared, determinism, losses, peers. What each finds is kept in the --out folder
(records.json; log.txt has every command and what it printed), so that stages can be run in separate calls; result.txt there, printed at the end too, is
made of all that is kept. A command that fails is a row with its sentence. --tiny tries the script on threads, with small models.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sys
import time

sys.dont_write_bytecode = True
from report import report  # noqa: E402
from session import Session  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU_FACTS = ["name", "driver_version", "memory.total", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu"]
SANITIZERS = ("memcheck", "racecheck")
SANITIZER_LIMIT, SANITIZED_AT_ONCE = 300.0, min(12, os.cpu_count() or 1)  # seconds of a test suite
TESTED_AT_ONCE, TEST_PARTS = min(16, os.cpu_count() or 1), 3
LOSS_STEPS = 200
SHARED_BATCH, SHARED_MICROBATCHES, SHARED_DEVICES = 16, 4, 4
# Name, devices, method.
SHARED = [("2 stages", 2, "megatron:tp=1,pp=2"), ("4 stages", 4, "megatron:tp=1,pp=4"), ("2-way data", 2, "data"),
          ("2-way tensor", 2, "megatron:tp=2,pp=1")]


def device(session):
    rows = []
    gpu = session.command(["nvidia-smi", f"--query-gpu={','.join(GPU_FACTS)}", "--format=csv,noheader"], 60)
    if gpu.failure:
        rows.append({"what": "GPU", "error": gpu.failure})
    for line in gpu.out.strip().splitlines():
        values = [value.strip() for value in line.split(",")]
        rows += [{"what": fact, "value": value} for fact, value in zip(GPU_FACTS, values)]
    version = session.command([session.meshwright, "--version"], 60)
    rows.append({"what": "meshwright", "value": version.out.strip()} if not version.failure else {"what": "meshwright", "error": version.failure})
    processor = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    rows.append({"what": "processor", "value": processor.group(1) if processor else "unknown"})
    yield rows


def gpu_programs(session):
    return sorted(path.resolve() for path in (pathlib.Path(session.arguments.build) / "tests").glob("gpu_*_test") if path.is_file())


def tests(session):
    """By ctest; one by one where ctest knows none, as in a copy of a build folder."""
    done = session.command(["ctest", "--test-dir", session.arguments.build, "-L", "^gpu$", f"-j{TESTED_AT_ONCE}", "--timeout", "300", "--no-tests=error"])
    summary = re.search(r"\d+% tests passed.*", done.out)
    if summary:
        yield [{"what": "ctest -L gpu", "summary": summary.group(0), "left_out": len(re.findall(r"\*\*\*Skipped", done.out)), "seconds": done.seconds,
                "failed": re.findall(r"\d+ - (\S+) \((?!Skipped)", done.out)}]
        return
    if done.was_stopped:
        yield [{"what": "ctest -L gpu", "error": done.failure}]
        return
    # In parts, side by side: most of a test is the start of CUDA and the processor's twin of a kernel.
    jobs = [(program, part) for program in gpu_programs(session) for part in range(TEST_PARTS)]

    def one(job):
        program, part = job
        return program, session.command(["env", f"GTEST_TOTAL_SHARDS={TEST_PARTS}", f"GTEST_SHARD_INDEX={part}", program, "--gtest_brief=1"], 300)

    rows = {}
    with concurrent.futures.ThreadPoolExecutor(TESTED_AT_ONCE) as pool:
        for program, done in pool.map(one, jobs):
            row = rows.setdefault(program, {"what": program.name, "passed": 0, "left_out": 0, "seconds": 0.0, "failed": [], "errors": []})
            row["passed"] += sum(int(number) for number in re.findall(r"\[  PASSED  \] (\d+) tests?", done.out))
            row["left_out"] += len(re.findall(r"(?m)^\[  SKIPPED \] .*\(\d+ ms\)", done.out))
            row["seconds"] += done.seconds
            failed = set(re.findall(r"(?m)^\[  FAILED  \] ([\w/]+\.[\w/]+)", done.out))
            row["failed"] = sorted(failed.union(row["failed"]))
            if done.failure and not failed:
                row["errors"].append(done.failure)
            yield [{**row, "summary": f"{row['passed']} passed", **({"error": "; ".join(row["errors"])} if row["errors"] else {})}
                   for row in rows.values()]
    if not rows:
        yield [{"what": "ctest -L gpu", "error": f"there is no GPU test in {session.arguments.build}; build all of it, with CUDA"}]


# Test programs and what of them no GPU has run yet.
NEWEST = [("gpu_norms_test", "ResidualNorm*"), ("gpu_tokens_test", "CudaLoss*"), ("gpu_plans_test", "Residuals.*:Losses.*:Nccl.*"), ("gpu_runtime_test", "CudaMeasurer.A*")]


def newest(session):
    """Residual sums and norms, and what a loss reads of its logits, in one pass: their tests, their kernels beside a copy, and steps of two models
    with them; what the driver counts beside what is predicted of its memory is a column of the runs. NCCL between processes needs two or four
    GPUs: its tests say so where there are fewer."""
    rows = []
    for name, chosen in NEWEST:
        program = (pathlib.Path(session.arguments.build) / "tests" / name).resolve()
        if not program.is_file():
            rows.append({"what": name, "error": f"there is no {program}; build all of it, with CUDA"})
        else:
            done = session.command([program, "--gtest_brief=1", f"--gtest_filter={chosen}"], 120)
            passed = re.findall(r"\[  PASSED  \] (\d+) tests?", done.out)
            rows.append({"what": f"{name} {chosen}", "passed": sum(map(int, passed)), "seconds": done.seconds,
                         **({"error": done.failure} if done.failure else {})})
        yield rows
    for case in session.cases[2:4]:
        batch, path, _, failure = session.fitted(case)
        row = {"what": case.name, "batch": batch}
        document, failure = session.run(path, 10) if not failure else (None, failure)
        rows.append({**row, "error": failure} if failure else {**row, **measured(document, session.peak())})
        yield rows


def find_sanitizer():
    """On the PATH, or in the toolkit, which often is not."""
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin")


def suites_of(session, program):
    """Names of a program's test suites, those of one typed or parametrized suite together; and why there are none."""
    done = session.command([program, "--gtest_list_tests"], 60)
    names = re.findall(r"(?m)^(\S+)\.(?:\s|$)", done.out)
    return sorted({re.sub(r"/\d+$", "", name) for name in names}), done.failure


def sanitizer(session):
    """Of accesses and races alone: tests ask for more memory than there is, and libraries try what a GPU may not have. By suite, each with
    a limit of its own, so that a slow one does not lose the others of its program."""
    program_of_sanitizer = find_sanitizer()
    if program_of_sanitizer is None:
        yield [{"what": "compute-sanitizer", "error": "it is not installed"}]
        return
    programs = gpu_programs(session)
    if not programs:
        yield [{"what": "compute-sanitizer", "error": f"there is no gpu_*_test in {session.arguments.build}/tests"}]
        return
    rows, jobs = [], []
    for program in programs:
        suites, failure = suites_of(session, program)
        if not suites:
            rows.append({"what": program.name, "error": failure or "it lists no test suite"})
        jobs += [(program, suite) for suite in suites]

    def one(job):
        tool, (program, suite) = job
        quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
        done = session.command([program_of_sanitizer, "--tool", tool, *quiet, "--error-exitcode", "99", program,
                                f"--gtest_filter={suite}.*:{suite}/*"], SANITIZER_LIMIT)
        said = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", done.out)
        row = {"what": f"{tool} {program.name} {suite}", "summary": said[-1] if said else "", "seconds": done.seconds}
        if not done.failure:
            return row
        return {**row, "error": f"exit code {done.code}" if said else done.failure}

    if rows:
        yield rows
    with concurrent.futures.ThreadPoolExecutor(SANITIZED_AT_ONCE) as pool:
        for row in pool.map(one, [(tool, job) for tool in SANITIZERS for job in jobs]):
            rows.append(row)
            yield rows


def kernels(session):
    """Each kernel beside a copy, a product or the best of its algorithms."""
    arguments = session.arguments
    program = pathlib.Path(arguments.build).resolve() / "bench" / ("gpu_kernels_on_cpu" if arguments.tiny else "gpu_kernels")
    if not program.is_file():
        yield [{"what": program.name, "error": f"there is no {program}; build all of it, with CUDA"}]
        return
    rows = []
    for part in ("memory", "products", "convolutions,attention"):
        flags = ["--tiny"] * arguments.tiny + ["--quick"] * arguments.quick
        # Convolutions and attention are set beside the best product: both are in the last call.
        done = session.command([program, "--only", "products," + part if part.startswith("conv") else part, "--json", *flags], 600)
        document = done.json()
        rows.append({"what": part, "error": done.failure} if document is None else {"what": part, "seconds": done.seconds, "document": document})
        yield rows


def profile_row(session, name, words, budget):
    quick = ["--quick"] if session.arguments.quick or session.arguments.tiny else []
    done = session.command([session.meshwright, "profile", "--backend", session.backend, "--db", session.db, "--dtype", session.dtype,
                            "--budget", budget, "--json", *quick, *words], 2 * budget + 300)
    document = done.json()
    row = {"what": name, "seconds": done.seconds}
    if document is None:
        return {**row, "error": done.failure}
    for key in ("ops", "collectives", "transfers", "left_out_for_time", "left_out_for_memory", "launch_s", "copy_gb_per_s"):
        row[key] = document.get(key)
    row["best_gflop_per_s"] = max((kind["best_gflop_per_s"] for kind in document["kinds"]), default=0.0)
    return row


def profile(session):
    budget = 2 if session.arguments.tiny else 12 if session.arguments.quick else 120
    rows = []
    for case in session.chosen:
        batch, _, _, failure = session.fitted(case)
        if failure:
            rows.append({"what": case.name, "error": failure})
        else:
            words = ["--model", case.model, "--batch", batch, "--micro-batches", "1", *session.host_words(1)]
            rows.append(profile_row(session, case.name, words, budget))
        yield rows
    case = session.cases[1]
    words = ["--model", case.model, "--batch", SHARED_BATCH, "--micro-batches", SHARED_MICROBATCHES, *session.host_words(SHARED_DEVICES)]
    rows.append(profile_row(session, f"{case.name}, shards for up to {SHARED_DEVICES} devices", words, 2 * budget))
    yield rows


def measured(document, peak, sharing=1):
    """What the tables say of a run, FLOPS being those of the GPU that devices share."""
    tflops = document["tflops_per_device"] * sharing
    return {"step_s": document["measured_step_time_s"], "fastest_s": document["fastest_step_time_s"], "predicted_s": document["step_time_s"],
            "predicted_by": document["predicted_by"], "error_share": document["error"], "comparable": document["comparable"],
            "samples_per_s": document["samples_per_s"], "tokens_per_s": document.get("tokens_per_s"), "tflops": tflops,
            "mfu": tflops * 1e12 / peak if peak else None, "counted_bytes": document["measured_peak_memory_bytes"],
            "predicted_bytes": document["peak_memory_bytes"],
            "workspace_bytes": sum(device.get("workspace_bytes", 0) for device in document["devices"]),
            "predicted_workspace_bytes": sum(device.get("predicted_workspace_bytes", 0) for device in document["devices"]),
            "predicted_in_use_bytes": max(device.get("predicted_in_use_bytes", 0) for device in document["devices"]),
            "in_use_bytes": max(device.get("gpu_memory_in_use_bytes", 0) for device in document["devices"]), "losses": [document["losses"][0], document["losses"][-1]],
            "stages": [{key: stage[key] for key in ("forward_s", "measured_forward_s", "backward_s", "measured_backward_s", "update_s",
                                                    "measured_update_s")} for stage in document["stages"]]}


def runs(session):
    steps = 10 if session.arguments.quick else 30
    rows = []
    for case in session.chosen:
        batch, path, document, failure = session.fitted(case)
        row = {"what": case.name, "model": case.model, "batch": batch}
        if not failure:
            row["flops"] = document["tflops_per_device"] * 1e12 * document["step_time_s"]
            document, failure = session.run(path, steps)
        rows.append({**row, "error": failure} if failure else {**row, **measured(document, session.peak())})
        yield rows


def ops(session):
    """Where the time goes: each kind of op, measured beside predicted, steps issued op by op."""
    rows = []
    for case in session.cases[:4] + session.cases[-1:]:
        _, path, _, failure = session.fitted(case)
        if not failure:
            done = session.command([session.meshwright, "run", path, "--backend", session.backend, "--report", "--steps", 2,
                                    *(["--gpus", 1] if session.backend == "cuda" else []), *session.profile_words()])
            failure = done.failure
        rows.append({"what": case.name, "error": failure} if failure else {"what": case.name, "table": done.out.splitlines()})
        yield rows


def shared(session):
    steps = 10 if session.arguments.quick else 30
    case = session.cases[1]
    rows = []
    for name, devices, method in SHARED:
        path, _, done = session.plan(case, SHARED_BATCH, devices, SHARED_MICROBATCHES, method)
        row = {"what": f"{case.name}, {name}", "devices": devices, "batch": SHARED_BATCH, "micro_batches": SHARED_MICROBATCHES}
        document, failure = (None, done.failure) if done.failure else session.run(path, steps)
        rows.append({**row, "error": failure} if failure else {**row, **measured(document, session.peak(), devices)})
        yield rows


def same_losses(session, name, path, steps):
    """Two runs of one plan must agree in every digit of every loss."""
    found = []
    for _ in range(2):
        document, failure = session.run(path, steps, warmup=0)
        if failure:
            return {"what": name, "steps": steps, "error": failure}
        found.append(document["losses"])
    differing = [step for step, pair in enumerate(zip(*found)) if pair[0] != pair[1]]
    finite = all(isinstance(loss, (int, float)) for losses in found for loss in losses)
    return {"what": name, "steps": steps, "identical": not differing and finite, "finite": finite,
            "first_difference": differing[0] if differing else None}


def determinism(session):
    rows, steps = [], 20
    for case in session.chosen:
        _, path, _, failure = session.fitted(case)
        rows.append({"what": case.name, "steps": steps, "error": failure} if failure else same_losses(session, case.name, path, steps))
        yield rows
    case = session.cases[1]
    for name, devices, method in SHARED:
        path, _, done = session.plan(case, SHARED_BATCH, devices, SHARED_MICROBATCHES, method)
        what = f"{case.name}, {name}"
        rows.append({"what": what, "steps": steps, "error": done.failure} if done.failure else same_losses(session, what, path, steps))
        yield rows


def losses(session):
    case = session.cases[0]
    path, _, done = session.plan(case, 8)
    rows = []
    precisions = ("f32", "f64") if session.arguments.tiny else ("plan", "f32")
    for precision in precisions:
        row = {"what": f"{case.name}, --precision {precision}", "precision": precision, "steps": LOSS_STEPS, "batch": 8}
        document, failure = (None, done.failure) if done.failure else session.run(path, LOSS_STEPS, 0, ["--precision", precision])
        rows.append({**row, "error": failure} if failure else {**row, "losses": document["losses"], "step_s": document["measured_step_time_s"]})
        yield rows


def python_with_torch(session):
    for python in [session.arguments.peer_python] if session.arguments.peer_python else [sys.executable, "python3"]:
        if not session.command([python, "-c", "import torch"], 120).failure:
            return python
    return None


def peers(session):
    python = python_with_torch(session)
    if python is None:
        yield [{"what": "PyTorch", "error": "no Python with PyTorch was found; name one with --peer-python"}]
        return
    cases, flops, rows = {}, [], []
    for case in session.chosen:
        batch, _, document, failure = session.fitted(case)
        if failure:
            rows.append({"what": case.name, "error": failure})
            continue
        cases[f"{case.model}@{batch}"] = case.name
        flops.append(document["tflops_per_device"] * 1e12 * document["step_time_s"])
    device_words = ["--device", "cpu"] if session.arguments.tiny else []
    steps = 3 if session.arguments.tiny else 10 if session.arguments.quick else 30
    done = session.command([python, "-B", ROOT / "bench/peers/pytorch_steps.py", *cases, "--flops", ",".join(map(str, flops)), "--peak",
                            session.peak() / 1e12, "--steps", steps, *device_words])
    for line in done.out.splitlines():
        try:
            row = json.loads(line)
            rows.append({"what": cases[f"{row['model']}@{row['batch']}"], **row})
        except (ValueError, KeyError):
            continue
    if done.failure:
        rows.append({"what": "PyTorch, the rest", "error": done.failure})
    yield rows


# In their order, with seconds of a --quick run; what one leaves over the next ones have.
STAGES = {device: 10, newest: 60, tests: 60, sanitizer: 50, kernels: 40, profile: 120, runs: 75, ops: 25, shared: 40, determinism: 45, losses: 30, peers: 65}


# A GPU that is there for half an hour, ten minutes at a time, and each time on a machine that has nothing: what to do in which call.
START = 40  # seconds until a machine is there
CALLS = [
    ("does it work, the newest first", {"device": 8, "newest": 60, "tests": 90, "kernels": 55}),
    ("is it fast, is it as predicted", {"device": 8, "profile": 70, "runs": 75, "shared": 35, "ops": 30}),
    ("beside PyTorch, whose compiler takes a minute for each model", {"runs": 75, "peers": 330}),
    ("does it stay right", {"determinism": 100, "losses": 60, "sanitizer": 300}),
]


def dry_run(build, archive):
    """What a session on such a machine does, without doing it."""
    print(f"carry: experiments/h200/carry.py {build} {archive}")
    if pathlib.Path(archive).is_file():
        print(f"  {archive} has {pathlib.Path(archive).stat().st_size / 2**20:.1f} MiB")
    print(f"there: tar xJf {archive} -C FOLDER; export LD_LIBRARY_PATH=FOLDER/lib, CUDA's lib64 and those of cuDNN and NCCL")
    for number, (what, stages) in enumerate(CALLS, 1):
        seconds = sum(stages.values())
        print(f"call {number}: {what}; {seconds} s, {START + seconds} s with the start of the machine")
        print(f"  experiments/h200/run.py FOLDER/meshwright --build FOLDER --quick --only {','.join(stages)} "
              f"--seconds {','.join(f'{stage}={limit}' for stage, limit in stages.items())} --out RESULTS")
    total = sum(START + sum(stages.values()) for _, stages in CALLS)
    print(f"in all {total / 60:.0f} minutes; every stage keeps what it found in RESULTS when it ends, also where a later one is cut off")


def run_stage(session, stage):
    rows = []
    try:
        for rows in stage(session):
            session.keep(stage.__name__, rows)
    except (LookupError, OSError) as error:
        session.keep(stage.__name__, [*rows, {"what": stage.__name__, "error": str(error)}])


def main():
    names = [stage.__name__ for stage in STAGES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright", nargs="?", default=str(ROOT / "build/release/meshwright"))
    parser.add_argument("--dry-run", action="store_true", help="print what is carried to a machine with a GPU, and the calls there")
    parser.add_argument("--carried", default="carried.tar.xz", help="with --dry-run: the archive")
    parser.add_argument("--quick", action="store_true", help="fewer steps, smaller budgets, all of it within 9 minutes")
    parser.add_argument("--only", default=",".join(names), help="stages, with commas between")
    parser.add_argument("--out", default=str(ROOT / "build/h200"))
    parser.add_argument("--cases", default="", help="models, with commas between, where not all are wanted")
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="where the tests are")
    parser.add_argument("--cluster", default="", help="the preset to plan for (default: that of the GPU)")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--peer-python", default="", help="a Python with PyTorch (default: this one or python3, if they have it)")
    parser.add_argument("--seconds", default="", help="of stages of a --quick run, where they differ: tests=150,profile=60")
    parser.add_argument("--tiny", action="store_true", help="small models on threads of this machine: does the script work?")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if not set(wanted) <= set(names):
        parser.error(f"--only: the stages are {','.join(names)}")
    if arguments.dry_run:
        return dry_run(arguments.build, arguments.carried)
    session = Session(arguments)
    known = [case.name for case in session.cases]
    if not set(filter(None, arguments.cases.split(","))) <= set(known):
        parser.error(f"--cases: the models are {','.join(known)}")
    begin, share = time.monotonic(), 0.0
    other = {name: float(seconds) for name, seconds in (pair.split("=") for pair in arguments.seconds.split(",") if pair)}
    for stage, seconds in STAGES.items():
        seconds = other.get(stage.__name__, seconds)
        if stage.__name__ not in wanted:
            continue
        share += seconds
        session.end = begin + share if arguments.quick else float("inf")
        print(f"{stage.__name__} ...", file=sys.stderr, flush=True)
        run_stage(session, stage)
    text = report(session.records)
    (session.out / "result.txt").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
