#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What writing leaves as it was, and what is kept when the process dies: faults_test.py MESHWRIGHT"""
import contextlib
import os
import pathlib
import signal
import sqlite3
import stat
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from hostile import Commands, SMALL, main  # noqa: E402

PLAN = ["plan", *SMALL, "-o"]
PROFILE = "profile --backend cpu --db p.db --model mlp:layers=1,hidden=64 --batch 16 --cluster cpu:2 --quick".split()


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def a_replaced_file_keeps_its_mode_and_a_link_stays_one(commands):
    folder = commands.work
    (folder / "there").mkdir()
    target, link = folder / "there" / "plan.json", folder / "link.json"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o600)
    link.symlink_to("there/plan.json")
    (folder / "second.json").symlink_to("link.json")
    commands.ok([*PLAN, "second.json"])
    assert link.is_symlink() and (folder / "second.json").is_symlink() and not target.is_symlink()
    assert mode(target) == 0o600 and target.read_text(encoding="utf-8").startswith("{")
    assert sorted(os.listdir(folder / "there")) == ["plan.json"]
    (folder / "new.json").symlink_to("there/other.json")  # leads to no file yet
    commands.ok([*PLAN, "new.json"])
    assert (folder / "new.json").is_symlink() and (folder / "there" / "other.json").is_file()
    (folder / "loop.json").symlink_to("loop.json")
    commands.refused([*PLAN, "loop.json"], "loop.json", codes=(2, 4))


def an_abandoned_part_is_removed_and_one_being_written_is_not(commands):
    import fcntl
    for name in ("plan.json.part", "plan.json.part3"):
        (commands.work / name).write_text("half", encoding="utf-8")
    with open(commands.work / "plan.json.part2", "w", encoding="utf-8") as held:
        held.write("being written")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        commands.ok([*PLAN, "plan.json"])
    assert sorted(p.name for p in commands.work.glob("plan.json*")) == ["plan.json", "plan.json.part2"]


def a_killed_writer_leaves_nothing_that_stays(commands):
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.04):
        command = commands.start([*PLAN, "plan.json"])
        time.sleep(delay)
        command.kill()
        command.communicate()
    commands.ok([*PLAN, "plan.json"])
    assert [p.name for p in commands.work.glob("plan.json*")] == ["plan.json"]


def ops_in(path):
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'op_time'").fetchone()[0]
        return db.execute("SELECT count(*) FROM op_time").fetchone()[0] if tables else 0


def end_profile(commands, number):
    """Ends a profile by a signal once some ops are measured."""
    command = commands.start([*PROFILE, "--budget", "20"])
    while b"run overhead" not in command.stderr.readline():  # from there on a signal is heard
        pass
    until = time.monotonic() + 30
    while ops_in(commands.work / "p.db") < 2 and time.monotonic() < until and command.poll() is None:
        time.sleep(0.02)
    command.send_signal(number)
    _, err = command.communicate()
    return command.returncode, err.decode()


def an_ended_profile_keeps_what_it_measured_and_goes_on(commands):
    code, err = end_profile(commands, signal.SIGKILL)
    assert code == -signal.SIGKILL, err
    kept = ops_in(commands.work / "p.db")
    assert kept >= 2, "nothing is kept"
    code, err = end_profile(commands, signal.SIGINT)
    assert code == 6 and "the same command goes on" in err and "interrupted" in err, f"exit code {code}\n{err}"
    code, _, err = commands.run([*PROFILE, "--budget", "2"])
    assert code == 0 and b"going on with" in err, err
    with contextlib.closing(sqlite3.connect(commands.work / "p.db")) as db:
        dates = db.execute("SELECT date_utc FROM session WHERE id IN (SELECT session_id FROM op_time)").fetchall()
    assert len(dates) == 1 and not dates[0][0].endswith("unfinished"), dates
    commands.ok(["replay", "p.db", *SMALL])


def a_signal_is_heard_at_once(commands):
    command = commands.start("plan --model gpt:layers=1000,hidden=64,heads=4,seq=32,vocab=128 --cluster dgx-h100:1 --batch 16 --threads 1".split())
    time.sleep(0.5)
    begin = time.monotonic()
    command.send_signal(signal.SIGINT)
    said = b""
    while b"interrupted" not in said:
        piece = os.read(command.stderr.fileno(), 4096)
        assert piece, said
        said += piece
    assert time.monotonic() - begin < 2.0
    command.send_signal(signal.SIGINT)
    command.communicate()
    assert command.returncode == -signal.SIGINT


def little_memory_is_a_system_error(commands):
    """Also where a library does not survive that it gets none."""
    import resource
    commands.ok([*PLAN, "plan.json"])
    for mebibytes in (80, 120, 160, 200, 300, 400):
        def limit(bytes_=mebibytes << 20):
            resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))

        done = subprocess.run([commands.box.binary, "run", "plan.json", "--steps", "1"], cwd=commands.work, capture_output=True, preexec_fn=limit, check=False)
        assert done.returncode in (0, 4, 127), f"exit code {done.returncode} with {mebibytes} MiB\n{done.stderr.decode()}"  # 127: the loader had too little
        assert done.returncode in (0, 127) or b"meshwright: error: " in done.stderr, done.stderr


def standard_output_that_nobody_takes_is_a_system_error(commands):
    with open("/dev/full", "wb") as full:
        command = subprocess.run([commands.box.binary, "clusters"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert command.returncode == 4 and b"standard output" in command.stderr


if __name__ == "__main__":
    main(__doc__, __file__, [a_replaced_file_keeps_its_mode_and_a_link_stays_one, an_abandoned_part_is_removed_and_one_being_written_is_not,
                             a_killed_writer_leaves_nothing_that_stays, an_ended_profile_keeps_what_it_measured_and_goes_on, a_signal_is_heard_at_once, little_memory_is_a_system_error,
                             standard_output_that_nobody_takes_is_a_system_error])
