#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries to break the command, and counts: adversary.py MESHWRIGHT [--seed S] [--count N] [--jobs J] [--areas A,B]

Every area is tried N times (default 40): files of each kind, damaged at random; each option of each verb with odd values; sizes beyond
all limits; kills at random moments; a full disk, little memory, closed outputs; random plans. Whatever is asked, the command answers in
time with 0, 2 (the input), 4 (the system), 5 (no plan) or 6 (interrupted), by one sentence where it fails; it prints no control
character; and every file is the old or the new one, whole. The table says how often each was tried and how often the answer was wrong;
each wrong answer is printed with its command. Exit code 1 where there was one.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SMALL = "--model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 16 --layers 2 --micro-batches 2".split()
VERBS = "models clusters plan simulate sweep profile import calibrate validate replay run diff explain export read advise solve".split()
TIME_S, MEMORY = 120, 4 << 30
ENDS = (0, 2, 4, 5, 6)
ODD = ["", " ", "0", "-1", "1e308", "9e999", "nan", "inf", "1e-320", "18446744073709551616", "-9223372036854775809", "0x10", "1,2,", ",", "=", ":", "a=b=c", "../..",
       "/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", ".", "a\nb", "a\x1b[2Jb", b"\xff\xfe", "\u202e", "x" * 100_000, "9" * 4000, "--json", "@file", "[1,2]", "auto", "none",
       "1" * 20 + "x2", "2x2x2x2x2x2x2x2x2", "0:full", "manual:/dev/zero", "specs:/dev/null", "cpu:64", "gpt:layers=10000,hidden=1000000,heads=1,seq=10000000,vocab=10000000"]


class Adversary:
    def __init__(self, meshwright, seed):
        self.meshwright, self.seed = meshwright, seed
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="adversary-"))
        self.seeds = self.make_seeds()

    def start(self, arguments, place, limits=(), **more):
        def prepare():
            resource.setrlimit(resource.RLIMIT_CPU, (TIME_S, TIME_S))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            if any(kind == resource.RLIMIT_FSIZE for kind, _ in limits):
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        words = [os.fsencode(self.meshwright), *(word if isinstance(word, bytes) else word.encode() for word in arguments)]
        outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(words, cwd=place, stdin=subprocess.DEVNULL, preexec_fn=prepare, **outputs)

    def run(self, arguments, place, limits=(), **more):
        command = self.start(arguments, place, limits, **more)
        out, err = command.communicate()
        return command.returncode, out or b"", err or b""

    def complaint(self, arguments, answer):
        """What is wrong with an answer; "" where nothing is."""
        code, out, err = answer
        found = ""
        if code not in ENDS:
            found = f"exit code {code}"
        elif code and b"meshwright: error: " not in err:
            found = "it does not say what is wrong"
        for name, text in (("standard output", out), ("standard error", err)):
            if any(byte < 0x20 and byte != 0x0a or byte == 0x7f for byte in text):
                found = found or f"a control character on {name}"
            try:
                text.decode()
            except UnicodeDecodeError:
                found = found or f"{name} is not UTF-8"
        if not found:
            return ""
        words = " ".join(repr(word)[:200] for word in arguments)
        return f"{found}: meshwright {words}\n    {err[-300:].decode(errors='backslashreplace')}"

    # --- files ---

    def make_seeds(self):
        """(kind, bytes, the arguments that read them, with FILE for their name)"""
        place = self.folder / "seeds"
        place.mkdir()
        for arguments in (["plan", *SMALL, "-o", "plan.json"], ["sweep", *SMALL, "--db", "sweep.db"],
                          "profile --backend cpu --db profile.db --model mlp:layers=1,hidden=64 --batch 16 --cluster cpu:2 --quick --budget 1".split(),
                          ["plan", *SMALL, "--write-stage-profile", "stages.csv", "-o", "other.json"]):
            answer = self.run(arguments, place)
            if answer[0] != 0:
                sys.exit(f"the seeds are not made: {arguments}\n{answer[2].decode()}")
        plan = json.loads((place / "plan.json").read_bytes())
        timing = self.run(["simulate", "plan.json", "--json"], place)[1]
        stored = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "fuzz"

        def kept(name):
            return [path.read_bytes() for path in sorted((stored / name).iterdir())]

        config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
                  "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu"}
        on = ["--cluster", "cpu:2", "--batch", "16", "--dtype", "f32"]
        seeds = [("plan.json", (place / "plan.json").read_bytes(), ["simulate", "FILE"]), ("plan.json", (place / "plan.json").read_bytes(), ["explain", "FILE"]),
                 ("cluster.json", json.dumps(plan["cluster"]).encode(), ["plan", *SMALL[:2], "--cluster", "FILE", "--batch", "16"]),
                 ("config.json", json.dumps(config).encode(), ["plan", "--model", "FILE", *on]), ("timing.json", timing, ["diff", "FILE", "FILE"]),
                 ("profile.db", (place / "profile.db").read_bytes(), ["replay", "FILE", *SMALL]), ("sweep.db", (place / "sweep.db").read_bytes(), ["sweep", *SMALL, "--db", "FILE"]),
                 ("stages.csv", (place / "stages.csv").read_bytes(), ["plan", *SMALL, "--stage-profile", "FILE"])]
        seeds += [("model.onnx", data, ["plan", "--model", "FILE", *on]) for data in kept("onnx_file")]
        seeds += [("model.hlo", data, ["plan", "--model", "FILE", *on]) for data in kept("hlo_text")]
        seeds += [("model.mlir", data, ["plan", "--model", "FILE", *on]) for data in kept("mlir_text")]
        seeds += [("problem.json", data, ["solve", "FILE", "--time-limit", "2"]) for data in kept("problem_file")]
        seeds += [("trace", data, ["import", "FILE", "--db", "i.db", "--cluster", "dgx-h100:1"]) for data in kept("trace_file")]
        seeds += [("recording.sqlite", data, ["import", "FILE", "--db", "i.db", "--cluster", "dgx-h200:1"]) for data in kept("database")]
        seeds += [("train.sh", data[1:], ["read", "FILE", "--cluster", "dgx-h100:1"]) for data in kept("launch_file")]
        return seeds

    def damaged(self, data, draw):
        data = bytearray(data)
        for _ in range(draw.choice([1, 1, 2, 8])):
            how = draw.choice(["flip", "cut", "double", "number", "text", "deep", "swap"])
            at = draw.randrange(max(1, len(data)))
            if how == "flip" and data:
                data[at] ^= 1 << draw.randrange(8)
            elif how == "cut":
                del data[at:at + draw.choice([1, 2, 10, len(data)])]
            elif how == "double":
                data[at:at] = data[at:at + draw.choice([1, 10, 1000])] * draw.choice([1, 50])
            elif how == "number":
                digits = [i for i, byte in enumerate(data) if 0x30 <= byte <= 0x39]
                if digits:
                    i = draw.choice(digits)
                    data[i:i + 1] = draw.choice([b"-1", b"0", b"1e308", b"99999999999999999999", b"9e999", b"0.5"])
            elif how == "text":
                data[at:at] = draw.choice([b"\xff", b"\x00", b"\x1b[31m", b"\n# forged\n", "\u202e".encode(), b'"', b"\\u001b"])
            elif how == "deep":
                data[at:at] = draw.choice([b"[", b"{\"a\":", b"("]) * draw.choice([3, 300, 60_000])
            elif how == "swap" and len(data) > 20:
                other = draw.randrange(len(data) - 10)
                data[at:at + 10], data[other:other + 10] = data[other:other + 10], data[at:at + 10]
        return bytes(data)

    def bad_files(self, number):
        draw = random.Random(f"{self.seed} file {number}")
        name, data, arguments = self.seeds[number % len(self.seeds)]
        return self.of_file(name, self.damaged(data, draw), arguments)

    def of_file(self, name, data, arguments):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (place / name).write_bytes(data)
        arguments = [name if word == "FILE" else word for word in arguments]
        complaint = self.complaint(arguments, self.run(arguments, place))
        if complaint:
            keep = pathlib.Path(tempfile.mkdtemp(prefix="adversary-kept-")) / name
            keep.write_bytes(data)
            complaint += f"\n    the file is {keep}"
        shutil.rmtree(place)
        return complaint

    # --- options ---

    def options(self, number):
        draw = random.Random(f"{self.seed} option {number}")
        verb = draw.choice(VERBS)
        text = self.run([verb, "--help"], self.folder)[1].decode()
        names = [line.split()[0].split(",")[-1] for line in text.splitlines() if re.match(r"  -\S+ (?!Excludes:|Needs:)\S", line)]
        files = {"simulate": ["plan.json"], "run": ["plan.json"], "explain": ["plan.json"], "export": ["plan.json"], "diff": ["plan.json", "plan.json"], "replay": ["profile.db"],
                 "plan": SMALL, "sweep": SMALL, "solve": ["plan.json"], "read": ["plan.json"], "advise": ["plan.json"]}
        arguments = [verb, *files.get(verb, [])]
        for _ in range(draw.choice([1, 1, 2])):
            if names:
                arguments += [draw.choice(names), draw.choice(ODD)]
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for name in ("plan.json", "profile.db"):
            shutil.copy(self.folder / "seeds" / name, place)
        complaint = self.complaint(arguments, self.run(arguments, place))
        shutil.rmtree(place)
        return complaint

    # --- sizes ---

    def sizes(self, number):
        draw = random.Random(f"{self.seed} size {number}")
        layers, wide = draw.choice([1, 1000, 10_000]), draw.choice([1, 64, 1_000_000])
        arguments = ["plan", "--model", draw.choice([f"mlp:layers={layers},hidden={wide}", f"gpt:layers={layers},hidden={wide},heads=1,seq={draw.choice([1, 10_000_000])},vocab=1",
                                                      f"moe:layers=2,hidden=64,heads=4,experts={draw.choice([2, 100_000])},seq=32,vocab=128"]),
                     "--cluster", draw.choice(["cpu:1", "cpu:64", "dgx-h100:1", "dgx-h100:4096", "gb200-nvl72:1024"]), "--batch", draw.choice(["1", "1048576", "1099511627776"]),
                     "--micro-batches", draw.choice(["1", "auto", "65536", "1048576"]), "--method", draw.choice(["pipeshard", "data", "megatron:tp=1,pp=1"])]
        command = self.start(arguments, self.folder)
        try:
            out, err = command.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            command.send_signal(signal.SIGINT)  # long, but it is to be asked to end
            try:
                out, err = command.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                command.send_signal(signal.SIGINT)
                out, err = command.communicate()
            if command.returncode == -signal.SIGINT and b"interrupted" in err:
                return ""
        return self.complaint(arguments, (command.returncode, out, err))

    # --- kills and faults ---

    def kills(self, number):
        draw = random.Random(f"{self.seed} kill {number}")
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        old = (self.folder / "seeds" / "other.json").read_bytes()
        (place / "plan.json").write_bytes(old)
        arguments = draw.choice([["plan", *SMALL, "-o", "plan.json"], ["sweep", *SMALL[:6], "--layers", "1,2", "--micro-batches", "1,2,4", "--db", "s.db", "-o", "plan.json"]])
        command = self.start(arguments, place)
        time.sleep(draw.uniform(0.0, 0.3))
        number = draw.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        command.send_signal(number)
        _, err = command.communicate()
        complaint = ""
        if command.returncode not in (*ENDS, -number):
            complaint = f"exit code {command.returncode} after signal {number}: {arguments}\n    {err[-300:]!r}"
        try:
            json.loads((place / "plan.json").read_bytes())
        except ValueError:
            complaint = f"half a file after signal {number}: {arguments}"
        again = self.run(arguments, place)
        complaint = complaint or self.complaint(arguments, again)
        left = sorted(path.name for path in place.iterdir() if ".part" in path.name)
        if left and not complaint:
            complaint = f"{left} is left after signal {number} and another run: {arguments}"
        shutil.rmtree(place)
        return complaint

    def faults(self, number):
        draw = random.Random(f"{self.seed} fault {number}")
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for name in ("plan.json", "profile.db"):
            shutil.copy(self.folder / "seeds" / name, place)
        before = (place / "plan.json").read_bytes()
        arguments = draw.choice([["plan", *SMALL, "-o", "plan.json"], ["simulate", "plan.json", "--trace", "t.json"], ["sweep", *SMALL, "--db", "s.db"], ["run", "plan.json", "--steps", "1"],
                                 ["replay", "profile.db", *SMALL, "-o", "plan.json"], ["export", "plan.json", "--to", "torchtitan", "--out", "made"]])
        fault = draw.choice(["disk", "memory", "output", "threads", "folder", "files"])
        limits = {"disk": [(resource.RLIMIT_FSIZE, draw.choice([0, 1000, 20_000]))], "memory": [(resource.RLIMIT_AS, draw.choice([60, 120, 200, 400, 800]) << 20)],
                  "files": [(resource.RLIMIT_NOFILE, draw.choice([3, 4, 6, 10]))]}.get(fault, [])
        more = {}
        if fault == "output":
            more = {"stdout": open(draw.choice(["/dev/full", "/dev/null"]), "wb")}
        if fault == "folder":
            place.chmod(0o555)
        answer = self.run(arguments, place, limits, **more)
        place.chmod(0o755)
        complaint = self.complaint([fault, str(limits), *arguments], answer)
        if fault in ("memory", "files") and answer[0] == 127:
            complaint = ""  # the loader itself had too little
        after = (place / "plan.json").read_bytes()
        if answer[0] != 0 and after != before:
            try:
                json.loads(after)
            except ValueError:
                complaint = f"half a file ({fault}): {arguments}"
        shutil.rmtree(place)
        return complaint


def random_plans(meshwright, seed, count, jobs):
    requests = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "fuzz" / "requests.py"
    for more in ([], ["--worse"]):
        done = subprocess.run([sys.executable, "-B", str(requests), meshwright, "--seed", str(seed), "--count", str(count), "--jobs", str(jobs), "--small", *more],
                              capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines() or [done.stderr]
        yield "random plans" + (" on worse clusters" if more else ""), count, int(lines[-1].split()[-2]) if lines[-1].endswith("failed") else count, lines[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--areas", default="bad_files,options,sizes,kills,faults,plans", help="some of these")
    given = parser.parse_args()
    adversary = Adversary(given.meshwright, given.seed)
    rows = []
    areas = given.areas.split(",")
    for name in [area for area in areas if area != "plans"]:
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            complaints = [text for text in pool.map(getattr(adversary, name), range(given.count)) if text]
        for text in complaints:
            print(f"{name.replace('_', ' ')}: {text}", flush=True)
        rows.append((name.replace("_", " "), given.count, len(complaints)))
    plans = random_plans(given.meshwright, given.seed, given.count, given.jobs) if "plans" in areas else ()
    for name, count, wrong, lines in plans:
        print("\n".join(lines))
        rows.append((name, count, wrong))
    print(f"# seed {given.seed}\n# {'area':<32} {'tried':>7} {'wrong':>7}")
    for name, tried, wrong in rows:
        print(f"  {name:<32} {tried:>7} {wrong:>7}")
    shutil.rmtree(adversary.folder, ignore_errors=True)
    return 1 if any(wrong for _, _, wrong in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
