# SPDX-License-Identifier: Apache-2.0
"""Searches: for one plan, or for each point of a grid."""
from __future__ import annotations

import os
import pathlib
import tempfile
from typing import TypedDict, Unpack

from ._call import StrPath, call
from ._options import PlanOptions, SweepOptions
from ._plan import Plan


def plan(*, model: StrPath, cluster: StrPath, **options: Unpack[PlanOptions]) -> Plan:
    """Finds the fastest plan for training a model on a cluster.

    `model` is built in ("gpt-2.6b"), a family with sizes ("mlp:layers=2,hidden=64") or a file; `cluster` a preset ("p3.16xlarge:8") or a
    file. The other arguments are the options of `meshwright plan` (docs/verbs.md). Raises InputError, NoFeasiblePlan, ...
    """
    with tempfile.TemporaryDirectory(prefix="meshwright-") as folder:
        given: dict[str, object] = {"model": model, "cluster": cluster, **options}
        path = given.setdefault("output", os.path.join(folder, "plan.json"))
        document = call("plan", **given)
        return Plan(pathlib.Path(str(path)).read_text(encoding="utf-8"), document, given)


class SweepRecord(TypedDict, total=False):
    """One point of a grid; a point without a plan has the first five members and `reason` only."""

    schedule: str
    layers: str
    micro_batches: str
    feasible: bool
    best: bool
    reason: str
    step_time_s: float
    lower_bound_s: float
    gap: float
    num_layers: int
    num_micro_batches: int
    num_stages: int
    idlest_stage_idle_share: float
    mean_stage_idle_share: float
    peak_memory_bytes: float
    samples_per_s: float
    tokens_per_s: float
    tflops_per_device: float
    mfu: float
    hfu: float


def sweep(*, model: StrPath, cluster: StrPath, db: StrPath | None = None, **options: Unpack[SweepOptions]) -> list[SweepRecord]:
    """Plans every point of a grid of layers, micro-batches and schedules: a list of records, which pandas.DataFrame takes.

    With `db` the finished points are kept in that database, and the same call goes on where it was interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="meshwright-") as folder:
        kept = os.path.join(folder, "sweep.db") if db is None else db
        document = call("sweep", model=model, cluster=cluster, db=kept, **options)
    best = document["best"]
    return [{**point, "best": index == best} for index, point in enumerate(document["points"])]  # type: ignore[typeddict-item]
