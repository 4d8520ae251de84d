# SPDX-License-Identifier: Apache-2.0
"""Writes what Nsight Systems would export of two steps that run every op of a profile: record.py PROFILES.db OUT.sqlite."""
import sqlite3
import sys

THREAD = (1 << 56) + (7 << 24) + 1
TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER, correlationId INTEGER,
                                         shortName INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
INSERT INTO StringIds VALUES (1, 'kernel');
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132);
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7'), ('CudaDriverVersion', '12040');
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
"""


def main(profiles, out):
    ops = sqlite3.connect(profiles).execute("SELECT signature, flops, bytes FROM op_time ORDER BY signature").fetchall()
    db = sqlite3.connect(out)
    db.executescript(TABLES)
    launches = [f"mw:op flops={flops:.0f} bytes={size:.0f} {signature}" for signature, flops, size in ops]
    launches = [(text, 10000) for text in launches] + [(text, 12000) for text in launches] + [("aten::mm", 30000)]
    for n, (text, ns) in enumerate(launches):
        at = 100000 * n
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, ?)", (at, at + 10, text, THREAD))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", (at + 5, at + 6, THREAD, n))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?, ?, 1)", (at + 20, at + 20 + ns, THREAD - 1, n))
    db.commit()


main(*sys.argv[1:])
