# SPDX-License-Identifier: Apache-2.0
"""Meshwright: finds the fastest way to train a neural network on a cluster, explains it, predicts it and runs it.

    >>> import meshwright
    >>> plan = meshwright.plan(model="gpt-2.6b", cluster="p3.16xlarge:1", batch=32, layers=8, micro_batches=4)
    >>> plan.step_time_s, plan.stages[0].logical_shape, plan.specs["blk0.attn.qkv.weight"]
    >>> plan.timeline.start_s.max()
"""
from __future__ import annotations

import importlib.metadata
from typing import Any, Unpack

from ._call import Document, StrPath, call
from ._errors import InputError, InternalError, MeshwrightError, MeshwrightWarning, NoFeasiblePlan, SystemError
from ._options import PlanOptions, ProfileOptions, RunOptions, SimulateOptions, SweepOptions
from ._plan import Measurement, ParameterSpecs, Plan, Prediction, Stage, run, simulate
from ._search import SweepRecord, plan, sweep
from ._timeline import Timeline, read_trace

__version__ = importlib.metadata.version("meshwright")


def profile(*, db: StrPath, **options: Unpack[ProfileOptions]) -> Document:
    """Measures ops, collectives and transfers on this machine into a profile database; what was measured."""
    return call("profile", db=db, **options)


def models() -> list[dict[str, Any]]:
    """The built-in models, each with its sizes."""
    return list(call("models")["models"])


def clusters() -> list[dict[str, Any]]:
    """The built-in clusters: `pattern`, `what`, and the cluster file of one host (`for_n_1`)."""
    return list(call("clusters")["clusters"])


__all__ = [
    "Document",
    "InputError",
    "InternalError",
    "Measurement",
    "MeshwrightError",
    "MeshwrightWarning",
    "NoFeasiblePlan",
    "ParameterSpecs",
    "Plan",
    "PlanOptions",
    "Prediction",
    "ProfileOptions",
    "RunOptions",
    "SimulateOptions",
    "Stage",
    "SweepOptions",
    "SweepRecord",
    "SystemError",
    "Timeline",
    "call",
    "clusters",
    "models",
    "plan",
    "profile",
    "read_trace",
    "run",
    "simulate",
    "sweep",
]
