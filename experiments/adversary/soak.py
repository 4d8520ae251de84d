#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disturbs sweeps and looks for what is lost: soak.py MESHWRIGHT [--seed S] [--points N] [--minutes M]

Random grids of small models, N points in all (default 1000), then more until M minutes (default 20) are over. Each grid is swept once in
peace; then again into a database of its own while something goes wrong, again and again, until it is whole:
  kill        SIGKILL at a random moment
  end         SIGINT or SIGTERM, which lets the command finish what it is at
  disk        the file system (a small tmpfs) has a few kilobytes left
  read-only   the file system, or where it cannot be mounted the files, may not be written
  writers     two or three sweeps write the same database at once, one of which may be killed
  clock       the wall clock stands in another year, and jumps while the sweep runs (left out, with a word, where no C compiler is)
After each, every point that was stored is still there and equal to that of the sweep in peace, the database is sound, and the best
plan's file is a whole one. At the end of each grid every point is there. Prints a table; exit code 1 where anything was lost or wrong.
With root's rights the disturbances happen on a tmpfs, else by limits and modes.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ENDS = (0, 2, 4, 5, 6)  # of a command that ends by itself
TMPFS_KIB = 4096
# The wall clock, so many seconds off as the file SOAK_CLOCK says at this moment.
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long long off(void) {
  char text[32] = {0};
  const int file = open(getenv("SOAK_CLOCK"), O_RDONLY);
  if (file < 0) return 0;
  const long length = read(file, text, sizeof text - 1);
  close(file);
  return length > 0 ? atoll(text) : 0;
}
int clock_gettime(clockid_t id, struct timespec* at) {
  const long failed = syscall(SYS_clock_gettime, id, at);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += off();
  return (int)failed;
}
int gettimeofday(struct timeval* restrict at, void* restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""
YEAR_S = 365 * 86400


class Wrong(Exception):
    pass


def draw_grid(draw):
    """Options of a sweep, and how many points it has."""
    layers = draw.sample([1, 2, 3, 4], draw.choice([2, 3]))
    micro = draw.sample([1, 2, 4, 8], draw.choice([2, 3]))
    schedules = draw.sample(["1f1b", "gpipe", "eager-1f1b", "zb-h1", "interleaved:2"], draw.choice([1, 2, 3]))
    model = draw.choice(["mlp:layers=4,hidden={hidden}", "gpt:layers=4,hidden={hidden},heads=4,seq=16,vocab=64",
                         "moe:layers=4,hidden={hidden},heads=4,experts=4,seq=16,vocab=64"]).format(hidden=draw.choice([32, 64, 96, 128]))
    options = ["--model", model, "--cluster", draw.choice(["cpu:2", "cpu:3", "cpu:4", "p3.16xlarge:1"]), "--dtype", "f32", "--batch", str(draw.choice([8, 16, 32])), "--layers", ",".join(map(str, layers)),
               "--micro-batches", ",".join(map(str, micro)), "--schedule", ",".join(schedules)]
    return options, len(layers) * len(micro) * len(schedules)


class Place:
    """A folder that can run full and become read-only."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_KIB}k", "soak", folder], capture_output=True, check=False).returncode == 0

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.folder], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def read_only(self):
        if self.mounted:
            subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True, capture_output=True)
        files = [path for path in self.folder.iterdir()]
        for path in [] if self.mounted else [*files, self.folder]:
            path.chmod(0o555)
        try:
            yield
        finally:
            if self.mounted:
                subprocess.run(["mount", "-o", "remount,rw", self.folder], check=True, capture_output=True)
            for path in [] if self.mounted else [self.folder, *files]:
                path.chmod(0o755)

    @contextlib.contextmanager
    def full_but_for(self, kibibytes):
        filler = self.folder / "filler"
        if self.mounted:
            with contextlib.suppress(OSError):
                left = os.statvfs(self.folder)
                filler.write_bytes(bytes(max(0, left.f_bavail * left.f_frsize - 1024 * kibibytes)))
        try:
            yield [] if self.mounted else [(resource.RLIMIT_FSIZE, 1024 * kibibytes)]
        finally:
            filler.unlink(missing_ok=True)


class Soak:
    def __init__(self, meshwright, seed):
        self.meshwright, self.draw = meshwright, random.Random(seed)
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
        self.tried, self.ends = collections.Counter(), collections.Counter()
        self.points = self.looked_at = 0
        self.clock = self.made_clock()
        self.kinds = ["kill", "kill", "end", "disk", "read-only", "writers"] + (["clock"] if self.clock else [])

    def made_clock(self):
        source, library = self.root / "clock.c", self.root / "clock.so"
        source.write_text(CLOCK, encoding="utf-8")
        with contextlib.suppress(OSError):
            if subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], capture_output=True, check=False).returncode == 0:
                return library
        return None

    def start(self, options, folder, limits=(), environment=None):
        def prepare():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
            if limits:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)

        return subprocess.Popen([self.meshwright, "sweep", *options, "--threads", "1", "--db", "sweep.db", "-o", "best.json"], cwd=folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=prepare, env={**os.environ, **(environment or {})})

    def end_of(self, command, killed_by=()):
        """Its exit code, which is one that a command may end with."""
        _, error = command.communicate(timeout=600)
        said = error.decode(errors="replace").strip().splitlines()[-1:] or [""]
        self.ends[command.returncode] += 1
        if command.returncode not in (*ENDS, *(-number for number in killed_by)):
            raise Wrong(f"exit code {command.returncode}: {said[0]}")
        if command.returncode in (2, 4) and "meshwright: error: " not in said[0]:
            raise Wrong(f"exit code {command.returncode} without a sentence: {said[0]}")
        return command.returncode

    @staticmethod
    def stored(folder):
        """[key] -> result of the points in the database; empty where there is none yet."""
        path = folder / "sweep.db"
        if not path.exists() or path.stat().st_size == 0:
            return {}
        with contextlib.closing(sqlite3.connect(path)) as db:
            state = db.execute("PRAGMA integrity_check").fetchone()[0]
            if state != "ok":
                raise Wrong(f"the database is damaged: {state}")
            if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sweep_point'").fetchone()[0]:
                return {}
            return dict(db.execute("SELECT key, result_json FROM sweep_point"))

    def disturb(self, kind, options, place, seconds):
        draw, folder = self.draw, place.folder
        moment = draw.uniform(0.0, 1.1 * seconds)
        if kind in ("kill", "end"):
            number = signal.SIGKILL if kind == "kill" else draw.choice([signal.SIGINT, signal.SIGTERM])
            command = self.start(options, folder)
            time.sleep(moment)
            command.send_signal(number)
            self.end_of(command, [number])
        elif kind == "disk":
            with place.full_but_for(draw.choice([0, 4, 16, 40, 80, 160])) as limits:
                self.end_of(self.start(options, folder, limits))
        elif kind == "read-only":
            if draw.random() < 0.5:
                with place.read_only():
                    if self.end_of(self.start(options, folder)) == 0 and os.geteuid() == 0 and place.mounted:
                        raise Wrong("a sweep wrote nothing and did not say so")
            else:  # in the middle of it
                command = self.start(options, folder)
                time.sleep(moment)
                with contextlib.suppress(subprocess.CalledProcessError), place.read_only():  # a file open for writing keeps a mount as it is
                    self.end_of(command)
                if command.poll() is None:
                    self.end_of(command)
        elif kind == "writers":
            commands = [self.start(options, folder) for _ in range(draw.choice([2, 3]))]
            killed = draw.random() < 0.5
            if killed:
                time.sleep(moment)
                commands[0].kill()
            for number, command in enumerate(commands):
                self.end_of(command, [signal.SIGKILL] if killed and number == 0 else [])
        else:
            off = self.root / "off"
            off.write_text(str(YEAR_S * self.draw.choice([-50, -20, 12, 80])), encoding="utf-8")  # before 1980, beyond 2038 and 2100
            command = self.start(options, folder, environment={"LD_PRELOAD": str(self.clock), "SOAK_CLOCK": str(off)})
            time.sleep(moment)
            off.write_text(str(YEAR_S * self.draw.choice([-56, -1, 0, 200])), encoding="utf-8")
            self.end_of(command)

    def check(self, folder, before, truth):
        now = self.stored(folder)
        for key, result in before.items():
            if key not in now:
                raise Wrong(f"a stored point is lost: {key[-120:]}")
            if now[key] != result:
                raise Wrong(f"a stored point has changed: {key[-120:]}")
        for key, result in now.items():
            self.looked_at += 1
            if truth.get(key) != result:
                raise Wrong(f"a point differs from that of the sweep in peace: {key[-120:]}")
        best = folder / "best.json"
        if best.exists():
            json.loads(best.read_bytes())
        return now

    def grid(self):
        options, points = draw_grid(self.draw)
        peace = self.root / "peace"
        peace.mkdir()
        begin = time.monotonic()
        code = self.end_of(self.start(options, peace))
        seconds = time.monotonic() - begin
        truth = self.stored(peace)
        kind, place = "in peace", Place(self.root / "place")
        try:
            if code not in (0, 2, 5) or len(truth) != points:  # 2: no point has a plan
                raise Wrong(f"{len(truth)} points of {points}, exit code {code}")
            known = {}
            rounds = self.draw.randint(2, 6)
            for number in range(100):
                # At last without a disturbance, so that it becomes whole.
                kind = self.draw.choice(self.kinds) if number < rounds else "in peace"
                if kind == "in peace":
                    code = self.end_of(self.start(options, place.folder))
                else:
                    self.disturb(kind, options, place, seconds)
                self.tried[kind] += 1
                known = self.check(place.folder, known, truth)
                if kind == "in peace":
                    break
            if known != truth:
                raise Wrong(f"{len(known)} points of {len(truth)} in the end, exit code {code}")
            if (peace / "best.json").exists() and (peace / "best.json").read_bytes() != (place.folder / "best.json").read_bytes():
                raise Wrong("the best plan differs from that of the sweep in peace")
            left = [path.name for path in place.folder.iterdir() if path.name not in ("sweep.db", "best.json")]
            if left:
                raise Wrong(f"{left} is left behind")
        except (Wrong, ValueError, sqlite3.Error, subprocess.TimeoutExpired) as wrong:
            kept = pathlib.Path(tempfile.mkdtemp(prefix="soak-kept-"))
            shutil.copytree(place.folder, kept / "place")
            print(f"{kind}: {wrong}\n  meshwright sweep {' '.join(options)}\n  what it left is in {kept}", flush=True)
            return False
        finally:
            self.points += points
            place.close()
            shutil.rmtree(peace)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=20)
    given = parser.parse_args()
    soak = Soak(given.meshwright, given.seed)
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # either leaves no mount behind
    begin, grids, wrong = time.monotonic(), 0, 0
    try:
        while soak.points < given.points or time.monotonic() - begin < 60 * given.minutes:
            grids += 1
            wrong += 0 if soak.grid() else 1
            if grids % 50 == 0:
                print(f"{(time.monotonic() - begin) / 60:.1f} min: {grids} sweeps, {soak.points} points, {wrong} wrong", flush=True)
    except KeyboardInterrupt:
        print("ended before its time")
    shutil.rmtree(soak.root, ignore_errors=True)
    print(f"seed {given.seed}, {(time.monotonic() - begin) / 60:.1f} min" + ("" if soak.clock else "; clocks were left alone: there is no C compiler (cc)"))
    print("sweeps | points | points looked at again | wrong")
    print(f"{grids} | {soak.points} | {soak.looked_at} | {wrong}")
    print("disturbance | times")
    for kind, times in sorted(soak.tried.items()):
        print(f"{kind} | {times}")
    print("exit code | times")
    for code, times in sorted(soak.ends.items()):
        print(f"{code} | {times}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
