#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names in files and options neither steer a terminal nor forge a line, and need not be UTF-8: hostile_names_test.py MESHWRIGHT"""
import json
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from hostile import Commands, SMALL, main  # noqa: E402

EVIL = "a\x1b[31mb\n# forged line\nmeshwright: error: forged\u202e\u2028c\x07"
NOT_UTF8 = b"\xff\xfe"
VERBS = ("models clusters plan simulate sweep profile import calibrate validate replay run diff explain export read advise solve").split()


def expect_calm(arguments, out, err, code=None):
    shown = f"{arguments}"[:300]
    for name, text in (("stdout", out), ("stderr", err)):
        lines = text.decode("utf-8").split("\n")
        for line in lines:
            assert not line.startswith(("# forged", "meshwright: error: forged")), f"{name} has a forged line: {shown}\n{line}"
            bad = [c for c in line if ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 or c in "\u202e\u2028"]
            assert not bad, f"{name} holds {bad[0]!r}: {shown}\n{line!r}"
    assert code in (0, 2, 4, 5), f"exit code {code}: {shown}\n{err[-500:]!r}"


def run_calmly(commands, arguments):
    code, out, err = commands.run(arguments)
    expect_calm(arguments, out, err, code)
    return code, out, err


def value_options(commands, verb):
    text = commands.ok([verb, "--help"]).decode()
    return sorted({line.split()[0].split(",")[-1] for line in text.splitlines() if re.match(r"  -\S+ (?!Excludes:|Needs:)\S", line)})


def option_texts_are_shown_escaped(commands):
    """Every option of every verb that takes a text."""
    commands.ok(["plan", *SMALL, "-o", "plan.json"])
    tried = 0
    for verb in VERBS:
        for option in value_options(commands, verb):
            code, out, err = run_calmly(commands, [verb, *(["plan.json"] if verb in ("simulate", "run", "explain", "export") else []), option, EVIL])
            assert code == 2, f"exit code {code}: {verb} {option}\n{err!r}"
            tried += 1
    assert tried > 200, f"only {tried} options were found"
    for arguments in ([EVIL], ["plan", EVIL], ["plan", "--" + EVIL], ["simulate", EVIL], ["diff", EVIL, EVIL], ["solve", EVIL]):
        assert run_calmly(commands, arguments)[0] in (2, 4)


def texts_in_plans_and_clusters_are_shown_escaped(commands):
    """Each text of a plan file, one after the other, in what reads plans and clusters."""
    commands.ok(["plan", *SMALL, "-o", "plan.json"])
    whole = (commands.work / "plan.json").read_text(encoding="utf-8")

    def texts(value, path=()):
        if isinstance(value, str):
            yield path
        for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            yield from texts(part, (*path, key))

    def changed(path, renamed):
        plan = json.loads(whole)
        at = plan
        for key in path[:-1]:
            at = at[key]
        if renamed:
            at[EVIL] = at.pop(path[-1])
        else:
            at[path[-1]] = EVIL
        return plan

    seen = set()
    for path in texts(json.loads(whole)):
        kind = tuple(key if isinstance(key, str) and "." not in key else 0 for key in path)
        if kind in seen:
            continue
        seen.add(kind)
        for renamed in (False, True):
            if renamed and not isinstance(path[-1], str):
                continue
            plan = changed(path, renamed)
            commands.write("evil.json", json.dumps(plan))
            run_calmly(commands, ["simulate", "evil.json"])
            run_calmly(commands, ["explain", "evil.json"])
            if path[0] == "cluster":
                commands.write("cluster.json", json.dumps(plan["cluster"]))
                run_calmly(commands, ["plan", *SMALL[:2], "--cluster", "cluster.json", "--batch", "16"])
    assert len(seen) > 5


def texts_in_launch_files_are_shown_escaped(commands):
    evil = json.dumps(EVIL)
    commands.write("job.yaml", f"model:\n  name: {evil}\n  {evil}: 3\ntrainer:\n  devices: {evil}\n")
    commands.write("job.toml", f"[training]\nglobal_batch_size = {evil}\n[model]\nname = {evil}\n")
    commands.write("train.sh", "torchrun pretrain_gpt.py --num-layers $'a\\n# forged line' --hidden-size 'a\x1b[31m'\n")
    commands.write("ds.json", json.dumps({"train_batch_size": EVIL, EVIL: 1, "zero_optimization": {"stage": EVIL}}))
    for file in ("job.yaml", "job.toml", "train.sh", "ds.json"):
        for verb in ("read", "advise"):
            run_calmly(commands, [verb, file, "--cluster", "dgx-h100:1"])


def names_that_are_not_utf8_are_names(commands):
    """A file system knows bytes; JSON shows those that are no characters as \\xff."""
    folder = os.fsencode(commands.work)
    small = [os.fsencode(word) for word in SMALL]
    plan, db = b"p" + NOT_UTF8 + b".json", b"d" + NOT_UTF8 + b".db"
    json.loads(commands.ok([b"plan", *small, b"--json", b"-o", plan]))
    assert os.path.exists(os.path.join(folder, plan))
    for arguments in ([b"simulate", plan, b"--json"], [b"explain", plan, b"--json"], [b"run", plan, b"--json", b"--steps", b"1"],
                      [b"sweep", *small, b"--json", b"--db", b"s" + NOT_UTF8 + b".db"],
                      [b"profile", b"--backend", b"cpu", b"--db", db, b"--model", b"mlp:layers=1,hidden=64", b"--batch", b"16", b"--cluster", b"cpu:2", b"--quick",
                       b"--budget", b"1", b"--json"],
                      [b"replay", db, *small, b"--json"], [b"plan", *small, b"--profile", db, b"--json"], [b"run", plan, b"--db", db, b"--steps", b"1", b"--json"]):
        out = commands.ok(arguments)
        json.loads(out.decode("utf-8"))
        expect_calm(arguments, out, b"", 0)
    timing = commands.ok(["simulate", plan, "--json"])
    (commands.work / "t.json").write_bytes(timing)
    shutil.copy(commands.work / "t.json", os.path.join(folder, b"t" + NOT_UTF8))
    answer = json.loads(commands.ok([b"diff", b"t.json", b"t" + NOT_UTF8, b"--json"]))
    assert answer["second"] == "t\\xff\\xfe", answer["second"]


if __name__ == "__main__":
    main(__doc__, __file__, [option_texts_are_shown_escaped, texts_in_plans_and_clusters_are_shown_escaped, texts_in_launch_files_are_shown_escaped,
                             names_that_are_not_utf8_are_names])
