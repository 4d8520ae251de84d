#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A profile database as text, and text as a profile database.

    experiments/h200/keep.py profile.db > h200.sql        # what was measured, without the algorithms of products
    experiments/h200/keep.py --restore h200.sql h200.db   # for meshwright replay h200.db, or --profile h200.db
"""
import pathlib
import re
import sqlite3
import sys

KEPT = ("session", "op_time", "collective_time", "transfer_time", "overhead_time")


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"  # measured to fewer digits
    return str(value) if isinstance(value, int) else "'" + re.sub(r"\S*/(\S+)", r"\1", str(value)).replace("'", "''") + "'"


def keep(path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for name in ("user_version", "application_id"):
        print(f"PRAGMA {name} = {database.execute(f'PRAGMA {name}').fetchone()[0]};")
    for table, sql in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
        print(f"{sql};")
        if table in KEPT:
            for row in database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3"):  # noqa: S608
                print(f"INSERT INTO {table} VALUES ({', '.join(map(literal, row))});")


def restore(text, path):
    if pathlib.Path(path).exists():
        sys.exit(f"{path} is there already; give another name.")
    database = sqlite3.connect(path)
    database.executescript(pathlib.Path(text).read_text(encoding="utf-8"))
    database.commit()


if __name__ == "__main__":
    if len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        keep(sys.argv[1])
    elif len(sys.argv) == 4 and sys.argv[1] == "--restore":
        restore(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
