#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a process of a training at a random instant, again and again: kills_test.py MESHWRIGHT MPIRUN [--count N] [--seed S]

Whichever process dies, and whenever: the others end soon, each names the one that was lost and what it was doing itself, and the training
goes on from the last whole checkpoint with the losses, bit for bit, of one that nobody disturbed. One that is stopped, not killed, is lost
when nothing was heard of it for --patience seconds. Prints a table.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MODEL = "gpt2:layers=4,hidden=32,heads=4,seq=16,vocab=64"
STEPS, EVERY = 60, 4
METHODS = {"data": "data", "zero3": "zero3", "tensor": "megatron:tp=4,pp=1", "pipeline": "megatron:tp=1,pp=4", "both": "megatron:tp=2,pp=2"}
LONGEST = 900.0  # seconds, of a run: other programs may have the processors


class Trainings:
    def __init__(self, meshwright, mpirun, here):
        self.meshwright, self.here = meshwright, pathlib.Path(here)
        self.together = [mpirun, "--oversubscribe", "--bind-to", "none"]
        self.losses = {}  # of whole runs, by plan and processes

    def plan(self, name):
        path = self.here / f"{name}.json"
        if not path.exists():
            made = subprocess.run([self.meshwright, "plan", "--model", MODEL, "--dtype", "f32", "--batch", "8", "--cluster", "cpu:4", "--method",
                                   METHODS[name], "--micro-batches", "1" if name in ("data", "zero3", "tensor") else "4", "-o", path],
                                  capture_output=True, text=True)
            assert made.returncode == 0, made.stderr
        return path

    def command(self, name, processes, steps, *more):
        return [*self.together, "-n", str(processes), self.meshwright, "run", str(self.plan(name)), "--transport", "mpi", "--warmup", "0", "--steps",
                str(steps), *map(str, more)]

    def run(self, name, processes, steps, *more):
        dump = self.here / "losses.npy"
        result = subprocess.run(self.command(name, processes, steps, "--dump", "loss", dump, *more), cwd=self.here, capture_output=True, text=True,
                                timeout=LONGEST)
        assert result.returncode == 0, result.stdout + result.stderr
        data = dump.read_bytes()  # .npy: a header, then the numbers
        return data[10 + int.from_bytes(data[8:10], "little"):]

    def undisturbed(self, name, processes):
        if (name, processes) not in self.losses:
            self.losses[name, processes] = self.run(name, processes, STEPS)
        return self.losses[name, processes]

    def ours(self):
        """The processes that run plans in this folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                if words[0] == self.meshwright.encode() and os.readlink(f"/proc/{pid}/cwd") == str(self.here) and state != "Z":
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def rank_of(self, pid):
        for variable in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                return int(variable.split(b"=")[1])
        raise AssertionError(f"process {pid} has no rank")

    def begin(self, name, processes, *more):
        """A run that has done a step, and its processes by rank."""
        for left in ("kept", "log.jsonl"):
            path = self.here / left
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        err = open(self.here / "err.txt", "w+")
        run = subprocess.Popen(self.command(name, processes, STEPS, "--checkpoint", "kept", "--every", EVERY, "--keep", 2, "--log", "log.jsonl",
                                            *more), cwd=self.here, stdout=subprocess.DEVNULL, stderr=err)
        log, deadline = self.here / "log.jsonl", time.monotonic() + LONGEST
        while not (log.exists() and log.stat().st_size > 0) and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return run, err, time.monotonic()

    def wait_for_all(self, run, longest):
        """Seconds until the run and all its processes have ended; None: longer. Seconds in which all were stopped, this one too, do not count."""
        waited, seen = 0.0, time.monotonic()
        while waited < longest:
            if run.poll() is not None and not self.ours():
                return waited
            time.sleep(0.01)
            now = time.monotonic()
            waited, seen = waited + min(now - seen, 1.0), now
        return None

    def end(self, run):
        for pid in self.ours():
            os.kill(pid, signal.SIGKILL)
        run.kill()
        run.wait()

    def said(self, err):
        err.seek(0)
        text = err.read()
        err.close()
        return text


def lost_by(said, rank, processes):
    """The ranks that say that they lost this one, and what they were doing; those whose devices had ended say nothing of them."""
    pattern = rf"process (\d+) of {processes}: process {rank} was lost: [^\n;]*(?:; here (device [^\n]*))?"
    return {int(number): doing or "device 0 was ending" for number, doing in re.findall(pattern, said)}


def go_on(trainings, name, processes):
    """Whether the training goes on with the losses of the one that was not disturbed, and from where."""
    kept = trainings.here / "kept"
    whole = sorted(path for path in (os.listdir(kept) if kept.exists() else []) if re.fullmatch(r"step-\d+", path))
    expected = trainings.undisturbed(name, processes)
    if not whole:
        return trainings.run(name, processes, STEPS) == expected, 0
    done = int(whole[-1].split("-")[1])
    if done == STEPS:
        return True, done
    return trainings.run(name, processes, STEPS - done, "--resume", "kept") == expected[8 * done:], done


def kill_once(trainings, draw, rows, within):
    name, processes = draw.choice(sorted(METHODS)), draw.choice((2, 4))
    trainings.undisturbed(name, processes)
    row = rows[name, processes]
    for _ in range(20):
        run, err, begun = trainings.begin(name, processes)
        time.sleep(draw.random() * row.setdefault("length", 1.0))
        alive = trainings.ours()
        if len(alive) == processes and run.poll() is None:
            victim = draw.choice(alive)
            try:
                rank = trainings.rank_of(victim)
                os.kill(victim, signal.SIGKILL)
                break
            except (OSError, AssertionError):
                pass
        run.wait()
        row["length"] = 0.8 * (time.monotonic() - begun)  # it had ended before
        err.close()
    else:
        raise AssertionError("every run ended before it was killed")
    took = trainings.wait_for_all(run, LONGEST)
    trainings.end(run)
    said = trainings.said(err)
    told = lost_by(said, rank, processes)
    problems = []
    if took is None or took > within:
        problems.append(f"the others ended after {took} s")
    elif not told and (trainings.here / "kept" / f"step-{STEPS:08}").exists():
        # All were leaving MPI, with nothing left to lose: as good as ended before.
        row["length"] *= 0.8
        return kill_once(trainings, draw, rows, within)
    if sorted(told) != [other for other in range(processes) if other != rank]:
        problems.append(f"only processes {sorted(told)} of {processes} named the lost one, {rank}")
    good, done = go_on(trainings, name, processes)
    if not good:
        problems.append(f"resumed after {done} steps, the losses are others")
    row["kills"] = row.get("kills", 0) + 1
    row["slowest"] = max(row.get("slowest", 0.0), took or LONGEST)
    row["named"] = row.get("named", 0) + (len(told) == processes - 1)
    row["same"] = row.get("same", 0) + good
    for doing in told.values():
        row.setdefault("doing", collections.Counter())[re.sub(r"^device \d+ was (\w+).*", r"\1", doing)] += 1
    if problems:
        print(f"kills_test: {name}, {processes} processes, rank {rank} killed: {'; '.join(problems)}\n{said}", flush=True)
    return not problems


def table(rows):
    print(f"{'plan':<10}{'processes':>10}{'kills':>7}{'named by all':>14}{'same losses':>13}{'slowest end (s)':>17}  what the others were doing")
    for (name, processes), row in sorted(rows.items()):
        if "kills" in row:
            doing = ", ".join(f"{what} {count}" for what, count in row.get("doing", collections.Counter()).most_common())
            print(f"{name:<10}{processes:>10}{row['kills']:>7}{row['named']:>14}{row['same']:>13}{row['slowest']:>17.2f}  {doing}")


def stop_once(trainings, draw, patience, within):
    """A process that hangs."""
    name, processes = "pipeline", 2
    run, err, _ = trainings.begin(name, processes, "--patience", patience)
    victim = draw.choice(trainings.ours())
    rank = trainings.rank_of(victim)
    os.kill(victim, signal.SIGSTOP)
    took = trainings.wait_for_all(run, LONGEST)
    trainings.end(run)
    said = trainings.said(err)
    assert took is not None and took < patience + within, f"a stopped process ended the others after {took} s\n{said}"
    told = lost_by(said, rank, processes)
    assert set(told) == {1 - rank} and "nothing was heard of it" in said, said
    print(f"kills_test: process {rank} was stopped; after {took:.1f} s the other one ended: {told[1 - rank]}", flush=True)
    assert go_on(trainings, name, processes)[0], "after a stop the losses are others"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshwright")
    parser.add_argument("mpirun")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=5.0, help="seconds in which the others have to end")
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR="/tmp", LC_ALL="C.UTF-8")
    if "Open" not in subprocess.run([arguments.mpirun, "--version"], capture_output=True, text=True).stdout:
        print("skipped: the options of another mpirun than Open MPI's are not known")
        sys.exit(77)
    draw, rows, good = random.Random(arguments.seed), collections.defaultdict(dict), 0
    with tempfile.TemporaryDirectory(prefix="meshwright-kills-") as here:
        trainings = Trainings(os.path.realpath(arguments.meshwright), arguments.mpirun, os.path.realpath(here))
        try:
            stop_once(trainings, draw, 3, arguments.within)
            for number in range(arguments.count):
                good += kill_once(trainings, draw, rows, arguments.within)
                if number % 20 == 19:
                    print(f"kills_test: {number + 1} kills, {number + 1 - good} with problems", flush=True)
        finally:
            for pid in trainings.ours():
                os.kill(pid, signal.SIGKILL)
    table(rows)
    print(f"kills_test: seed {arguments.seed}: {good} of {arguments.count} kills as they should be")
    sys.exit(0 if good == arguments.count else 1)


if __name__ == "__main__":
    main()
