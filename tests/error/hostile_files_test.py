#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file may hold is refused by one sentence, soon and in little memory: hostile_files_test.py MESHWRIGHT"""
import contextlib
import gzip
import json
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from hostile import Commands, SMALL, main  # noqa: E402

DEEP = "[" * 60000 + "]" * 60000


def database(commands, *statements):
    """A profile of this machine, then changed as another program could."""
    for file in commands.work.glob("p.db*"):
        file.unlink()
    commands.ok("profile --backend cpu --db p.db --model mlp:layers=1,hidden=64 --batch 16 --cluster cpu:2 --quick --budget 1".split())
    with contextlib.closing(sqlite3.connect(commands.work / "p.db")) as made:
        for statement in statements:
            assert made.execute(statement).rowcount != 0, f"changes nothing: {statement}"
        made.commit()


def rows_of_profiles_are_finite_and_in_range(commands):
    """SQLite's checks let 9e999 and sizes below 0 pass."""
    database(commands)
    whole = (commands.work / "p.db").read_bytes()
    for table, column, value in (("op_time", "median_s", "9e999"), ("op_time", "mad_s", "1e308"), ("op_time", "flops", "9e999"), ("op_time", "bytes", "-5"),
                                 ("collective_time", "median_s", "9e999"), ("transfer_time", "median_s", "1e308"), ("overhead_time", "median_s", "9e999"),
                                 ("op_time", "samples", "-1")):
        (commands.work / "p.db").write_bytes(whole)
        with contextlib.closing(sqlite3.connect(commands.work / "p.db")) as changed:
            changed.execute(f"UPDATE {table} SET {column} = {value}")
            changed.commit()
        commands.refused(["replay", "p.db", *SMALL], "p.db", f"table {table}", f"{column} is")
    for table, size in (("collective_time", -1), ("transfer_time", -1), ("collective_time", 0), ("transfer_time", 0)):
        (commands.work / "p.db").write_bytes(whole)
        with contextlib.closing(sqlite3.connect(commands.work / "p.db")) as changed:
            changed.execute(f"UPDATE {table} SET size_bytes = {size} WHERE size_bytes = (SELECT min(size_bytes) FROM {table})"
                            + (" AND kind = 'all-gather'" if table == "collective_time" else ""))
            changed.commit()
        commands.refused(["replay", "p.db", *SMALL], f"table {table}", f"size_bytes is {size}")


def damaged_schemas_are_said_in_a_line(commands):
    database(commands)
    with contextlib.closing(sqlite3.connect(commands.work / "p.db")) as changed:
        changed.execute("PRAGMA writable_schema = ON")
        changed.execute("UPDATE sqlite_schema SET sql = 'CREATE TABLE op_time (' || hex(zeroblob(3000)) WHERE name = 'op_time'")
        changed.commit()
    error = commands.refused(["replay", "p.db", *SMALL], "p.db")
    assert len(error) < 500, f"an error of {len(error)} characters"


def deep_json_is_refused_and_no_value_is_quoted_whole(commands):
    write = commands.write
    for name, text, arguments in (
            ("plan.json", '{"format":%s}' % DEEP, ["simulate", "plan.json"]),
            ("cluster.json", '{"format":%s}' % DEEP, ["plan", *SMALL[:2], "--cluster", "cluster.json", "--batch", "16"]),
            ("config.json", '{"model_type":%s}' % DEEP, ["plan", "--model", "config.json", "--cluster", "cpu:2"]),
            ("starts.json", "[%s]" % DEEP, ["plan", *SMALL, "--layer-starts", "starts.json"]),
            ("specs.json", '{"a":%s}' % DEEP, ["plan", *SMALL, "--method", "specs:specs.json"]),
            ("manual.json", '{"stages":%s}' % DEEP, ["plan", *SMALL, "--method", "manual:manual.json"]),
            ("software.json", '{"name":%s}' % DEEP, ["plan", *SMALL, "--software", "software.json"]),
            ("timing.json", '{"step_time_s":%s,"stages":[]}' % DEEP, ["diff", "timing.json", "timing.json"]),
            ("problem.json", '{"problem":%s}' % DEEP, ["solve", "problem.json"])):
        write(name, text)
        error = commands.refused(arguments, name)
        assert len(error) < 500 and "[[[[" not in error, error
    write("long.json", json.dumps({"format": "x" * 100000}))
    assert len(commands.refused(["simulate", "long.json"], "long.json")) < 800


RECIPE = """from .common import base
def llama3_8b_pretrain_8gpu_h100_config():
    cfg = base()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B")  # megatron.bridge
    return cfg
"""
COMMON = """def base():
    return ConfigContainer(model=None, train=TrainingConfig(global_batch_size=8, micro_batch_size=1))
"""


def recipes_import_files_of_their_tree_alone(commands):
    """A module is a text of a launch file's size within the tree; what it is not is refused, or named as missing."""
    read = ["read", "top/pack/recipe.py", "--cluster", "dgx-h100:1"]
    pack = commands.work / "top" / "pack"
    pack.mkdir(parents=True)
    (pack / "__init__.py").write_text("")
    (pack / "recipe.py").write_text(RECIPE)
    common = pack / "common.py"
    common.write_text(COMMON)
    said = commands.ok(read).decode()
    assert "batch 8 in 1 micro-batch of 1" in said and "1 of the modules" in said, said
    (commands.work / "outside.py").write_text(COMMON)
    common.unlink()
    common.symlink_to(commands.work / "outside.py")
    assert ".common (base)" in commands.ok(read).decode()
    common.unlink()
    common.mkdir()
    assert ".common (base)" in commands.ok(read).decode()
    common.rmdir()
    common.write_text(COMMON + "#" * 4_000_000)
    commands.refused(read, "common.py:1: is imported and larger than 4 MB")
    common.write_bytes(COMMON.encode() + b"# \xff\xfe")
    commands.refused(read, "common.py:1: is imported by recipe.py and is no UTF-8 text")
    common.write_text("from .other import base\n")
    (pack / "other.py").write_text("from .common import base\n")
    assert "imports 'base' in a circle" in commands.ok(read).decode()
    common.write_text("def base():\n    return deeper()\ndef deeper():\n    return base()\n")
    assert "base calls itself" in commands.ok(read).decode()
    common.write_text("def base():\n    cfg = C()\n    while cfg is not None:\n        cfg.x = [1, 2]\n")
    commands.refused(read, "common.py:", "no configuration")
    common.write_text("def base(:\n    return (\n")
    commands.refused(read, "common.py:1", "a bracket is open")


def members_are_given_once(commands):
    commands.ok(["plan", *SMALL, "-o", "plan.json"])
    text = (commands.work / "plan.json").read_text(encoding="utf-8")
    commands.write("twice.json", text.replace("{", '{"version": 1, ', 1))
    commands.refused(["simulate", "twice.json"], "twice.json", "'version' is given twice")
    plan = json.loads(text)
    op = next(op for stage in plan["stages"] for op in stage["ops"].values() if any(op["axes"].values()))
    name = next(axis for axis, of in op["axes"].items() if of)
    op["axes"][name] *= 2
    commands.write("axes.json", json.dumps(plan))
    commands.refused(["simulate", "axes.json"], "axes.json", "is given twice")


def many_members_take_no_longer_than_few(commands):
    """Looking each member up among all others takes minutes for so many."""
    commands.write("wide.json", json.dumps({f"a{i}": i for i in range(300_000)}))
    commands.refused(["simulate", "wide.json"], "wide.json")


def times_lie_in_the_range_of_times(commands):
    commands.ok(["plan", *SMALL, "-o", "plan.json"])
    timing = json.loads(commands.ok(["simulate", "plan.json", "--json"]))
    for change in ({"step_time_s": -1}, {"interval_s": [-5, 9]}, {"interval_s": [0, 1e300]}, {"step_time_s": 1e300}):
        commands.write("timing.json", json.dumps({**timing, **change}))
        commands.refused(["diff", "timing.json", "timing.json"], "timing.json", next(iter(change)))


def files_without_an_end_are_refused(commands):
    for arguments in (["simulate", "/dev/zero"], ["plan", *SMALL[:2], "--cluster", "/dev/zero", "--batch", "16"], ["solve", "/dev/zero"],
                      ["import", "/dev/zero", "--db", "i.db", "--cluster", "dgx-h200:1"], ["replay", "/dev/zero", *SMALL], ["diff", "/dev/zero", "/dev/zero"],
                      ["read", "/dev/zero", "--cluster", "dgx-h100:1"]):
        commands.refused(arguments, "/dev/zero")


def small_archives_of_much_are_refused(commands):
    with gzip.open(commands.work / "p.json.gz", "wb", 1) as file:
        file.write(b'{"problem":{"name":"x","nodes":{"costs":[[')
        for _ in range(300):
            file.write(b"0," * (1 << 19))
    commands.refused(["solve", "p.json.gz"], "p.json.gz", "numbers")
    with gzip.open(commands.work / "rows.csv.gz", "wb", 1) as file:
        for _ in range(300):
            file.write(b"a" * (1 << 20))
    commands.refused("import rows.csv.gz --db i.db --source x --licence y".split(), "rows.csv.gz", "unpacked")


def models_and_programs_have_a_size_that_ends(commands):
    commands.refused("plan --model gpt:layers=10000,hidden=64,heads=4,seq=32,vocab=128 --cluster dgx-h100:1 --batch 16".split(), "forward ops")
    commands.refused("plan --model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 1048576 --micro-batches 1048576".split(), "--micro-batches")


RECORDING = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start, "end", eventType INTEGER NOT NULL, text TEXT, textId INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER);
INSERT INTO StringIds VALUES (1, 'gemm');
INSERT INTO NVTX_EVENTS VALUES (100, 900, 59, 'mw:op flops=1000 bytes=10 contract f32 [a=5,b][b]->[a]', NULL, 117440513);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (200, 210, 117440513, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (300, 400, 0, 1, 117440512, 1);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132);
"""


def recordings_are_imported_whole_or_not_at_all(commands):
    arguments = "import r.sqlite --db r.db --cluster dgx-h200:1".split()
    for change, said in ((None, None), ("UPDATE NVTX_EVENTS SET start = 'soon'", "start"),
                         ("UPDATE TARGET_INFO_GPU SET name = CAST(x'4eff41' AS TEXT)", "TARGET_INFO_GPU"),
                         ("UPDATE TARGET_INFO_GPU SET name = 'a' || char(10) || 'b'", "TARGET_INFO_GPU"),
                         ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -1", "-1")):
        for file in commands.work.glob("r.*"):
            file.unlink()
        with contextlib.closing(sqlite3.connect(commands.work / "r.sqlite")) as made:
            made.executescript(RECORDING)
            if change:
                made.execute(change)
            made.commit()
        if not change:
            commands.ok(arguments)
            continue
        commands.refused(arguments, "r.sqlite", said)
        assert not (commands.work / "r.db").exists(), f"{change}: a database was made"


if __name__ == "__main__":
    main(__doc__, __file__, [rows_of_profiles_are_finite_and_in_range, damaged_schemas_are_said_in_a_line, deep_json_is_refused_and_no_value_is_quoted_whole,
                             members_are_given_once, recipes_import_files_of_their_tree_alone, many_members_take_no_longer_than_few,
                             times_lie_in_the_range_of_times, files_without_an_end_are_refused,
                             small_archives_of_much_are_refused, models_and_programs_have_a_size_that_ends, recordings_are_imported_whole_or_not_at_all])
