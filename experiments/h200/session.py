# SPDX-License-Identifier: Apache-2.0
"""What the stages of run.py share: commands with a time limit and a log, the machine, plans and runs, and what is kept of them."""
import dataclasses
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

COMMAND_LIMIT = 1800.0  # seconds of one command where the whole has no limit
LOGGED = 20000          # characters of a command's output
NO_FEASIBLE_PLAN = 5


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: str  # spelled out, so that PyTorch's twin reads the same sizes
    batch: int  # halved until a plan fits
    tokens: bool = True


CASES = [
    Case("gpt-125m", "gpt:layers=12,hidden=768,heads=12,seq=1024,vocab=51200", 32),
    Case("gpt-350m", "gpt:layers=24,hidden=1024,heads=16,seq=1024,vocab=51200", 32),
    Case("gpt-1.3b", "gpt:layers=24,hidden=2048,heads=32,seq=1024,vocab=51200", 16),
    Case("llama-1.1b", "llama:layers=22,hidden=2048,heads=32,kv_heads=4,intermediate=5632,seq=1024,vocab=32000", 16),
    Case("moe-380m", "moe:layers=8,hidden=768,heads=16,experts=8,seq=1024,vocab=32000", 32),
    Case("wresnet-50-2", "wresnet:layers=50,channels=64,width=2,image=224,classes=1000", 256, tokens=False),
    Case("llama-8b, 8 layers", "llama:layers=8,hidden=4096,heads=32,kv_heads=8,intermediate=14336,seq=4096,vocab=128256", 4),
    Case("vit-l16", "vit:layers=24,hidden=1024,heads=16,image=224,patch=16,classes=1000", 128, tokens=False),
]
TINY_CASES = [
    Case("gpt-tiny", "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128", 8),
    Case("gpt-tiny-2", "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128", 16),
    Case("llama-tiny", "llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128", 8),
    Case("moe-tiny", "moe:layers=2,hidden=64,heads=4,experts=4,seq=32,vocab=128", 8),
    Case("wresnet-tiny", "wresnet:layers=50,channels=8,width=2,image=32,classes=10", 8, tokens=False),
]


@dataclasses.dataclass
class Done:
    code: int
    out: str
    failure: str  # "" or a sentence
    seconds: float
    was_stopped: bool = False  # by the limit

    def json(self):
        """The document it printed, None where there is none."""
        try:
            return json.loads(self.out) if self.code == 0 else None
        except ValueError:
            self.failure = "what it printed is no JSON"
            return None


def why(code, err, out):
    """The sentence in which a command says what stopped it."""
    lines = [line.strip() for line in (err + "\n" + out).splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"error|failure|abort|cuda", line, re.IGNORECASE)]
    return (told or lines or [""])[-1][:300] or f"exit code {code}, without a word"


class Session:
    def __init__(self, arguments):
        self.arguments = arguments
        self.meshwright = str(pathlib.Path(arguments.meshwright).resolve())
        self.out = pathlib.Path(arguments.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.scratch = tempfile.TemporaryDirectory()  # plans: the log says how to make them again
        self.work = pathlib.Path(self.scratch.name)
        self.db = self.out / "profile.db"
        self.cases = TINY_CASES if arguments.tiny else CASES
        wanted = [name for name in arguments.cases.split(",") if name]
        self.chosen = [case for case in self.cases if not wanted or case.name in wanted]
        self.backend = "cpu" if arguments.tiny else "cuda"
        self.dtype = "f32" if arguments.tiny else arguments.dtype
        self.end = float("inf")  # of the stage
        self.found = None  # what preset() says
        self.records_path = self.out / "records.json"
        self.records = json.loads(self.records_path.read_text(encoding="utf-8")) if self.records_path.exists() else {}

    # --- commands ---

    def left(self):
        return self.end - time.monotonic()

    def command(self, words, limit=COMMAND_LIMIT):
        """Runs it for at most `limit` seconds and no longer than the stage has; what it leaves running ends with it."""
        limit = min(limit, self.left())
        words = [str(word) for word in words]
        if limit < 1:
            return Done(-1, "", "left out: the time of this stage was used up", 0.0)
        begin, at = time.monotonic(), time.time()
        try:
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        except OSError as error:
            return Done(-1, "", f"{words[0]}: {error.strerror}", 0.0)
        try:
            out, err = child.communicate(timeout=limit)
            failure = why(child.returncode, err, out) if child.returncode != 0 else ""
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            failure = f"stopped after {limit:.0f} s"
        seconds, was_stopped = time.monotonic() - begin, failure.startswith("stopped after")
        with open(self.out / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"# at {at:.3f}\n$ {' '.join(words)}\n{out[-LOGGED:]}{err[-LOGGED:]}# exit code {child.returncode}, {seconds:.1f} s\n\n")
        return Done(child.returncode, out, failure, seconds, was_stopped)

    def keep(self, stage, rows):
        """Replaces what was kept of this stage, if it was run before."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self.records[stage] = {"when": now, "quick": self.arguments.quick, "tiny": self.arguments.tiny, "rows": rows}
        written = self.out / "records.json.new"
        written.write_text(json.dumps(self.records, indent=1) + "\n", encoding="utf-8")
        written.replace(self.records_path)

    # --- the machine ---

    def preset(self):
        """The built-in cluster of this machine's GPU, or of --cluster: (name, description); raises LookupError with a sentence."""
        if self.found is not None:
            return self.found
        if self.arguments.tiny:
            wanted = "cpu:1"
        elif self.arguments.cluster:
            wanted = self.arguments.cluster
        else:
            asked = self.command(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], 60)
            if asked.failure or not asked.out.strip():
                raise LookupError(f"no GPU was found ({asked.failure or 'nvidia-smi names none'})")
            wanted = asked.out.strip().splitlines()[0]
        document = self.command([self.meshwright, "clusters", "--json"], 60).json()
        for entry in document["clusters"] if document else []:
            cluster = entry["for_n_1"]
            kind = re.escape(cluster["device"]["name"].split("-")[0])
            if cluster["name"] == wanted or re.search(rf"(?<![A-Za-z0-9]){kind}(?![A-Za-z0-9])", wanted):
                self.found = cluster["name"], cluster
                return self.found
        raise LookupError(f"no built-in cluster has the GPU '{wanted}'; name one with --cluster")

    def cluster_words(self, devices):
        if self.arguments.tiny:
            return ["--cluster", f"cpu:{devices}"]
        return ["--cluster", self.preset()[0], "--nodes", "1", "--devices-per-node", str(devices)]

    def peak(self):
        """The preset's dense peak in the plans' type, FLOP per second; 0 of threads, whose preset is a placeholder."""
        return 0.0 if self.arguments.tiny else self.preset()[1]["device"]["peak_flops_per_s"][self.dtype]

    def host_words(self, devices):
        """What `profile` measures: a host of that many devices such as this machine's, on one GPU."""
        if self.arguments.tiny:
            return ["--cluster", f"cpu:{devices}"]
        name, cluster = self.preset()
        path = self.work / f"host-of-{devices}.json"
        path.write_text(json.dumps({**cluster, "name": f"{name}[1x{devices}]", "devices_per_host": devices}), encoding="utf-8")
        return ["--cluster", path, "--gpus", "1"]

    # --- plans and runs ---

    def plan(self, case, batch, devices=1, microbatches=1, method=None):
        """(path, document, failure); costs are measured ones where there is a profile."""
        path = self.work / f"plan-{case.name}-{devices}-{re.sub('[^a-z0-9]+', '-', method or 'own')}.json"
        words = [self.meshwright, "plan", "--model", case.model, *self.cluster_words(devices), "--batch", batch, "--micro-batches", microbatches,
                 "--dtype", self.dtype, "--json", "-o", path]
        done = self.command(words + (["--method", method] if method else []) + self.profile_words(), 600)
        return path, done.json(), done

    def profile_words(self):
        return ["--profile", self.db] if self.db.exists() else []

    def fitted(self, case):
        """The largest batch, halved from the case's, whose plan fits on one device: (batch, path, document, failure)."""
        batch = case.batch
        while True:
            path, document, done = self.plan(case, batch)
            if done.code != NO_FEASIBLE_PLAN or batch < 2:
                return batch, path, document, done.failure
            batch //= 2

    def run(self, path, steps, warmup=3, more=()):
        """(document, failure)"""
        words = [self.meshwright, "run", path, "--backend", self.backend, "--json", "--steps", steps, "--warmup", warmup, *more]
        if self.backend == "cuda":
            words += ["--gpus", "1"]
        done = self.command(words + self.profile_words())
        return done.json(), done.failure
