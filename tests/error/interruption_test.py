#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever ends the command early, files are whole: interruption_test.py MESHWRIGHT

Kills plan and sweep at random moments and looks at what they leave behind; then asks a search to stop (SIGINT, SIGTERM) and looks
at what it makes of that.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from sandbox import Sandbox  # noqa: E402

ROUNDS = 16
SMALL = "--model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 16".split()
PLAN = ["plan", *SMALL, "--layers", "2", "--micro-batches", "2", "-o", "plan.json"]
OTHER = ["plan", *SMALL, "--layers", "1", "--micro-batches", "4", "-o", "plan.json"]
RUN = ["run", "plan.json", "--steps", "3", "--html", "run.html"]
ENDLESS = ["run", "plan.json", "--steps", "1000000", "--html", "run.html", "--json"]
SWEEP = ["sweep", *SMALL, "--layers", "1,2,4", "--micro-batches", "2,4", "--db", "sweep.db"]
# Half a minute of search; the first plan is found in the first seconds of it.
LONG = ["plan", "--model", "gpt:layers=24,hidden=256,heads=8,seq=64,vocab=512", "--cluster", "p3.16xlarge:4", "--batch", "4096",
        "--micro-batches", "4", "--layers", "auto", "--schedule", "auto", "--threads", "1", "--json", "-o", "long.json",
        "--html", "long.html"]
# On so few devices the first plan takes a moment.
SLOW_START = [*LONG[:4], "p3.16xlarge:2", *LONG[5:]]
# A minute of search and more, in which the first complete plan takes long to come.
LARGE = ["plan", "--model", "llama-3.1-70b", "--cluster", "dgx-h100:32", "--threads", "1", "--json", "-o", "long.json"]
LAUNCHED = ["plan", "--model", "llama-3.1-70b", "--cluster", "dgx-h100:8", "--for", "megatron", "--threads", "1", "--json", "-o",
            "long.json"]
# Thousands of ops: every loop over them hears of the signal.
DEEP = ["plan", "--model", "mlp:layers=1000,hidden=64", "--cluster", "p3.16xlarge:1", "--batch", "256", "--threads", "1", "--json"]
BEGUN, FOUND, COUNTED = "computing", "best", "combinations"  # what progress lines say


def processor_time(process):
    """Seconds that it has computed; a busy machine changes nothing of it. None: it has ended."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        if fields[0] not in "ZX":
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None


class Commands:
    def __init__(self, box):
        self.box, self.random = box, random.Random(7)

    def start(self, arguments):
        def as_from_a_terminal():  # a shell's background jobs, and so their children, may ignore SIGINT
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        return subprocess.Popen([self.box.binary, *arguments], cwd=self.box.work, env=self.box.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=as_from_a_terminal)

    def finish(self, arguments):
        begin = time.monotonic()
        command = self.start(arguments)
        out, err = command.communicate()
        assert command.returncode == 0, f"exit code {command.returncode}: {arguments}\n{err}"
        return out, time.monotonic() - begin

    def end_early(self, arguments, number, within):
        """The command's exit code (negative: the signal that ended it) and its standard error."""
        command = self.start(arguments)
        time.sleep(self.random.uniform(0.0, within))
        command.send_signal(number)
        _, err = command.communicate()
        return command.returncode, err

    def end_long_search(self, said, *numbers, search=None):
        """The same when a progress line has `said` so, with all signals at once; and what was printed."""
        command = self.start(search or LONG)
        lines = []
        while not lines or (lines[-1] and said not in lines[-1]):
            lines.append(command.stderr.readline())
        command.send_signal(signal.SIGSTOP)
        for number in numbers:
            command.send_signal(number)
        command.send_signal(signal.SIGCONT)
        out, err = command.communicate()
        return command.returncode, out, "".join(lines) + err

    def contents(self, name):
        file = self.box.work / name
        return file.read_bytes() if file.exists() else None


def killed_plans_leave_the_old_file_or_the_new(commands):
    commands.finish(OTHER)
    other = commands.contents("plan.json")
    _, took = commands.finish(PLAN)
    whole = commands.contents("plan.json")
    assert whole and other and whole != other
    for number in (signal.SIGKILL, signal.SIGINT):
        for before in (None, other) * (ROUNDS // 2):
            (commands.box.work / "plan.json").unlink(missing_ok=True)
            if before:
                (commands.box.work / "plan.json").write_bytes(before)
            code, err = commands.end_early(PLAN, number, 1.2 * took)
            after = commands.contents("plan.json")
            assert code in (-number, 0) or (code == 5 and "interrupted" in err), f"exit code {code}\n{err}"
            assert after in (before, whole) or "interrupted" in err, f"a file of {len(after)} bytes is neither old nor new"
            if after:
                commands.finish(["simulate", "plan.json"])
            assert code != 0 or after, "exit code 0 without a plan"
    commands.finish(PLAN)
    assert commands.contents("plan.json") == whole


def interrupted_runs_leave_the_old_page_or_a_whole_one(commands):
    """Also before a micro-batch is done."""
    commands.finish(PLAN)
    for number in (signal.SIGKILL, signal.SIGINT):
        for before in (None, b"old"):
            page = commands.box.work / "run.html"
            page.unlink(missing_ok=True)
            _, took = commands.finish(RUN)
            assert commands.contents("run.html").endswith(b"</html>\n")
            page.unlink()
            if before:
                page.write_bytes(before)
            for within in (0.0, 0.3 * took, 1.2 * took):
                code, err = commands.end_early(RUN, number, within)
                after = commands.contents("run.html")
                assert code in (-number, 0) or (code == 6 and number == signal.SIGINT), f"exit code {code}\n{err}"
                assert after == before or after.endswith(b"</html>\n"), f"a page of {len(after or b'')} bytes is cut off"
                assert code not in (0, 6) or after != before, f"exit code {code} without a page"
                before = after


def a_run_that_is_asked_to_stop_tells_of_the_steps_it_did(commands):
    commands.finish(PLAN)
    for more, number in (([], signal.SIGINT), (["--check"], signal.SIGTERM), (["--checkpoint", "kept"], signal.SIGINT)):
        (commands.box.work / "run.html").unlink(missing_ok=True)
        code, out, err = commands.end_long_search("steps,", number, search=[*ENDLESS, *more])
        assert code == 6, f"exit code {code}\n{err}"
        document = json.loads(out)
        done = len(document["step_times_s"])
        assert document["interrupted"] is True and 1 < done < 1000000 and document["steps"] + document["warmup"] == done
        assert len(document["losses"]) == done and document["time"]["devices"]
        assert ("check" in document) == ("--check" in more)
        said = f"the training after step {done};" if "--checkpoint" in more else f"the run after {done} of 1000001 steps;"
        assert f"a signal stopped {said}" in err, err
        page = commands.contents("run.html").decode()
        assert f"A signal ended the run after {done} steps" in page and page.endswith("</html>\n"), "the page does not say so"
    assert json.loads(commands.finish(["run", "plan.json", "--steps", "1", "--json"])[0])["interrupted"] is False


def a_run_that_is_asked_at_once_tells_of_its_first_step(commands):
    """The signal comes before a micro-batch is done: there is still a whole page, of the step that was begun."""
    commands.finish(PLAN)
    (commands.box.work / "run.html").unlink(missing_ok=True)
    code, out, err = commands.end_long_search("running", signal.SIGINT, search=ENDLESS)
    if code == -signal.SIGINT:  # it was still about to begin
        assert commands.contents("run.html") is None
        return
    document = json.loads(out)
    assert code == 6 and 1 <= len(document["step_times_s"]) <= 3 and document["steps"] >= 1, f"exit code {code}\n{out}\n{err}"
    assert commands.contents("run.html").endswith(b"</html>\n")


def stored_points(folder, name):
    """What the database holds, read from a copy: to look is to repair."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for file in folder.glob(name + "*"):
        shutil.copy(file, copy)
    if not (copy / name).exists():
        return []
    with contextlib.closing(sqlite3.connect(copy / name)) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        if not database.execute("select count(*) from sqlite_schema").fetchone()[0]:
            return []
        return database.execute("select key, result_json from sweep_point").fetchall()


def interrupted_sweeps_keep_whole_points(commands):
    table, took = commands.finish(SWEEP)
    reference = set(stored_points(commands.box.work, "sweep.db"))
    assert len(reference) == 6
    for number in (signal.SIGKILL, signal.SIGTERM):
        for _ in range(ROUNDS // 2):
            for file in commands.box.work.glob("sweep.db*"):
                file.unlink()
            for _ in range(2):  # the second goes on where the first ended
                code, err = commands.end_early(SWEEP, number, 0.8 * took)
                points = stored_points(commands.box.work, "sweep.db")
                assert set(points) <= reference, "a stored point is not one of a sweep that ran to its end"
                assert code in (-number, 0, 6), f"exit code {code}\n{err}"
                if code == 6:
                    assert f"with {len(points)} of 6 points finished" in err, err
            assert commands.finish(SWEEP)[0] == table
            assert set(stored_points(commands.box.work, "sweep.db")) == reference


def a_search_that_is_asked_to_stop_answers_with_what_it_has(commands):
    for number in (signal.SIGINT, signal.SIGTERM):
        code, out, err = commands.end_long_search(FOUND, number)
        assert code == 0 and "interrupted: this is the best plan found so far" in err, f"exit code {code}\n{err}"
        assert json.loads(out)["interrupted"] is True
        page = commands.contents("long.html").decode()
        assert "The search was interrupted" in page and page.endswith("</html>\n"), "the page does not say so"
        commands.finish(["simulate", "long.json"])
        (commands.box.work / "long.json").unlink()


def a_search_that_has_nothing_yet_says_so(commands):
    code, out, err = commands.end_long_search(BEGUN, signal.SIGINT, search=SLOW_START)
    assert code == 5 and not out and "no plan: the search was interrupted" in err, f"exit code {code}\n{err}"
    assert commands.contents("long.json") is None and commands.contents("long.html") is None


def a_search_on_many_devices_always_has_a_plan(commands):
    for search, said, within in ((LARGE, BEGUN, 60), (LAUNCHED, COUNTED, 30)):
        begin = time.monotonic()
        code, out, err = commands.end_long_search(said, signal.SIGINT, search=search)
        assert code == 0 and "interrupted: this is the best plan found so far" in err, f"exit code {code}\n{err}"
        assert time.monotonic() - begin < within, f"its first plan took {within} s"
        plan = json.loads(out)
        assert plan["interrupted"] is True and plan["peak_memory_bytes"] <= plan["usable_memory_bytes"]
        commands.finish(["simulate", "long.json"])


def a_deep_model_ends_in_little_more_computing(commands):
    for after in (0.2, 0.6, 1.2):
        command = commands.start(DEEP)
        while (processor_time(command) or after) < after:
            time.sleep(0.005)
        at = processor_time(command)
        command.send_signal(signal.SIGINT)
        last = at
        while (now := processor_time(command)) is not None:
            last = now
            time.sleep(0.005)
        _, err = command.communicate()
        # Before the search has begun there is nothing to answer with.
        assert command.returncode == -signal.SIGINT or command.returncode in (0, 5) and "interrupted" in err, f"exit code {command.returncode}\n{err}"
        assert at is not None and last - at < 1.0, f"asked after {at} s, it went on computing for {last - at} s\n{err}"


def a_second_signal_ends_the_command(commands):
    code, out, _ = commands.end_long_search(FOUND, signal.SIGINT, signal.SIGTERM)
    assert code in (-signal.SIGINT, -signal.SIGTERM) and not out, f"exit code {code}"
    assert commands.contents("long.json") is None and commands.contents("long.html") is None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    failures = 0
    for claim in (killed_plans_leave_the_old_file_or_the_new, interrupted_runs_leave_the_old_page_or_a_whole_one,
                  a_run_that_is_asked_to_stop_tells_of_the_steps_it_did, a_run_that_is_asked_at_once_tells_of_its_first_step,
                  interrupted_sweeps_keep_whole_points,
                  a_search_that_is_asked_to_stop_answers_with_what_it_has, a_search_that_has_nothing_yet_says_so,
                  a_search_on_many_devices_always_has_a_plan, a_deep_model_ends_in_little_more_computing,
                  a_second_signal_ends_the_command):
        with Sandbox(sys.argv[1], __file__) as box:
            try:
                claim(Commands(box))
            except AssertionError as error:
                failures += 1
                print(f"{claim.__name__}: {error}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
