#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training that stops and goes on is the training that never stopped: checkpoint_test.py MESHWRIGHT [MPIEXEC]"""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MODEL = "gpt2:layers=2,hidden=16,heads=2,seq=8,vocab=32"


class Trainings:
    def __init__(self, binary, mpiexec, here):
        self.binary, self.mpiexec, self.here = binary, mpiexec, pathlib.Path(here)
        self.plan("data.json", "cpu:2", "data")
        self.plan("tensor.json", "cpu:2", "megatron:tp=2,pp=1")

    def plan(self, name, cluster, method):
        self.call("plan", "--model", MODEL, "--cluster", cluster, "--method", method, "--batch", "4", "--micro-batches", "1", "--dtype",
                  "f32", "-o", name)

    def call(self, *arguments, code=0, before=()):
        result = subprocess.run([*before, self.binary, *map(str, arguments)], cwd=self.here, capture_output=True, text=True)
        assert result.returncode == code, f"{arguments}: exit code {result.returncode}, not {code}\n{result.stdout}{result.stderr}"
        return result.stdout if code == 0 else result.stderr

    def train(self, plan, steps, *more, **how):
        return self.call("run", plan, "--steps", steps, "--warmup", "0", *more, **how)

    def weights(self, folder):
        return (self.here / folder / "model.safetensors").read_bytes()


def numbers(data):
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


def going_on_gives_the_same_bits(t):
    t.train("data.json", 6, "--save-weights", "straight")
    t.train("data.json", 4, "--checkpoint", "kept", "--every", "2")
    assert sorted(os.listdir(t.here / "kept")) == ["step-00000002", "step-00000004"], os.listdir(t.here / "kept")
    out = t.train("data.json", 2, "--resume", "kept", "--save-weights", "resumed")
    assert "resumed from kept/step-00000004, after 4 steps" in out, out
    assert t.weights("resumed") == t.weights("straight"), "the resumed training has other weights"


def going_on_under_another_plan_is_the_same_training(t):
    t.train("tensor.json", 2, "--resume", "kept", "--save-weights", "elsewhere")
    pairs = list(zip(numbers(t.weights("elsewhere")), numbers(t.weights("straight"))))
    # Adam makes whole steps of gradients that are rounding alone, in any direction: those of the keys' biases, 32 of 3,000.
    differences = sorted(abs(a - b) for a, b in pairs)
    assert differences[-1] <= 2 * 2 * 1e-3, f"under another plan weights differ by {differences[-1]}"
    assert differences[len(differences) * 95 // 100] < 1e-6, f"under another plan weights differ by {differences[-200:]}"


def only_the_newest_are_kept(t):
    t.train("data.json", 5, "--checkpoint", "few", "--every", "1", "--keep", "2")
    assert sorted(os.listdir(t.here / "few")) == ["step-00000004", "step-00000005"], os.listdir(t.here / "few")


def a_damaged_one_is_passed_over(t):
    newest = t.here / "few" / "step-00000005" / "device-00000.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(bytes(data))
    (t.here / "few" / "step-00000009.part").mkdir()
    out = t.train("data.json", 1, "--resume", "few")
    assert "resumed from few/step-00000004, after 4 steps" in out, out
    assert "step-00000005/device-00000.safetensors: the file is damaged" in out and "older checkpoint is used" in out, out
    assert "step-00000009.part: the checkpoint was not finished" in out, out
    shutil.rmtree(t.here / "few" / "step-00000004")
    said = t.train("data.json", 1, "--resume", "few", code=2)
    assert "has no whole checkpoint" in said, said


def what_does_not_fit_is_refused(t):
    t.call("plan", "--model", MODEL, "--cluster", "cpu:1", "--method", "data", "--batch", "8", "--dtype", "f32", "-o", "wider.json")
    assert "of another training than the plan's" in t.train("wider.json", 1, "--resume", "kept", code=2)
    t.call("plan", "--model", MODEL.replace("16", "32"), "--cluster", "cpu:1", "--method", "data", "--batch", "4", "--dtype", "f32", "-o",
           "other.json")
    assert "of another model than the plan's" in t.train("other.json", 1, "--resume", "kept", code=2)
    assert "give --precision f32" in t.train("data.json", 1, "--resume", "kept", "--precision", "f64", code=2)
    assert "there is no such folder" in t.train("data.json", 1, "--resume", "nowhere", code=2)


def a_signal_leaves_a_last_checkpoint(t):
    command = subprocess.Popen([t.binary, "run", "data.json", "--steps", "1000000", "--warmup", "0", "--checkpoint", "ended", "--every",
                                "1000000", "--log", "log.jsonl"], cwd=t.here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log, deadline = t.here / "log.jsonl", time.monotonic() + 60
    while (not log.exists() or log.read_bytes().count(b"\n") < 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    command.send_signal(signal.SIGTERM)
    _, err = command.communicate(timeout=60)
    assert command.returncode == 6, f"exit code {command.returncode}\n{err}"
    steps = int(err.split("after step ")[1].split(";")[0])
    assert os.listdir(t.here / "ended") == [f"step-{steps:08}"], os.listdir(t.here / "ended")
    assert f"after {steps} steps" in t.train("data.json", 1, "--resume", "ended")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1)) and len(lines) == steps
    assert all(line["loss"] > 0 and line["time_s"] > 0 and line["tokens_per_s"] > 0 for line in lines)


def the_learning_rate_follows_its_schedule(t):
    t.train("data.json", 6, "--lr-schedule", "linear", "--lr-warmup", "2", "--lr-least", "0.2", "--log", "rates.jsonl")
    rates = [json.loads(line)["learning_rate_factor"] for line in (t.here / "rates.jsonl").read_text().splitlines()]
    wanted = [0.5, 1.0, 0.8, 0.6, 0.4, 0.2]
    assert max(abs(a - b) for a, b in zip(rates, wanted)) < 1e-12, rates
    t.train("data.json", 6, "--check", "--lr-schedule", "cosine", "--lr-warmup", "1", "--save-weights", "cosine")
    assert t.weights("cosine") != t.weights("straight")


def a_full_disk_ends_the_run(t):
    """What was whole before stays so."""
    size = sum(path.stat().st_size for path in (t.here / "kept" / "step-00000004").iterdir())
    disk = t.here / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={5 * size // 2 // 4096 * 4096}", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode != 0:
        print(f"checkpoint_test: no disk to fill: {mounted.stderr.strip()}")
        return
    try:
        said = t.train("data.json", 6, "--checkpoint", "disk", "--every", "1", "--keep", "0", code=4)
        assert "No space left on device" in said and "disk/step-" in said, said
        whole = sorted(name for name in os.listdir(disk) if not name.endswith(".part"))
        assert whole == [f"step-{number + 1:08}" for number in range(len(whole))] and 1 <= len(whole) <= 2, os.listdir(disk)
        out = t.train("data.json", 1, "--resume", "disk")
        assert f"resumed from disk/{whole[-1]}, after {len(whole)} step" in out and "the checkpoint was not finished" in out, out
    finally:
        subprocess.run(["umount", disk], check=True)


def several_processes_keep_and_resume(t):
    if t.mpiexec is None:
        return
    together = [t.mpiexec, "--oversubscribe", "--bind-to", "none", "-n", "2"]
    t.train("data.json", 4, "--transport", "mpi", "--checkpoint", "mpi", "--every", "2", before=together)
    assert sorted(os.listdir(t.here / "mpi")) == ["step-00000002", "step-00000004"], os.listdir(t.here / "mpi")
    t.train("data.json", 2, "--transport", "mpi", "--resume", "mpi", "--save-weights", "together", before=together)
    assert t.weights("together") == t.weights("straight"), "two processes train to other weights"
    t.train("data.json", 2, "--resume", "mpi", "--save-weights", "alone")
    assert t.weights("alone") == t.weights("straight"), "one process goes on to other weights than two"


def main():
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR="/tmp")
    binary, mpiexec = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as here:
        t = Trainings(binary, mpiexec, here)
        for claim in (going_on_gives_the_same_bits, going_on_under_another_plan_is_the_same_training, only_the_newest_are_kept,
                      a_damaged_one_is_passed_over, what_does_not_fit_is_refused, a_signal_leaves_a_last_checkpoint,
                      the_learning_rate_follows_its_schedule, a_full_disk_ends_the_run, several_processes_keep_and_resume):
            claim(t)
            print(f"checkpoint_test: {claim.__name__}", flush=True)


if __name__ == "__main__":
    main()
