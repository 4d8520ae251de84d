# SPDX-License-Identifier: Apache-2.0
"""Plans and what is predicted of them."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ._call import Document, StrPath, call, call_text
from ._html import framed
from ._options import RunOptions, SimulateOptions
from ._timeline import Timeline, read_trace


@dataclasses.dataclass(frozen=True)
class ParameterSpecs:
    """How a parameter lies on its stage's logical mesh: `weight` while it is used, `state` while the optimizer updates it."""

    weight: str
    state: str


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a pipeline: which layers, on which devices, and how its tensors are split."""

    index: int
    first_layer: int
    last_layer: int
    submesh: tuple[int, ...]  # hosts, devices per host (and the group of hosts, where the cluster has several)
    logical_shape: tuple[int, ...]
    devices: npt.NDArray[np.int32] = dataclasses.field(compare=False)
    forward_s: float
    backward_s: float
    update_s: float
    peak_memory_bytes: float
    parameters: Mapping[str, ParameterSpecs] = dataclasses.field(repr=False)
    results: Mapping[str, str] = dataclasses.field(repr=False)  # of each op, the spec of what it makes


def _stage(index: int, stage: Document) -> Stage:
    return Stage(
        index=index,
        first_layer=stage["layers"][0],
        last_layer=stage["layers"][-1],
        submesh=tuple(stage["submesh"]),
        logical_shape=tuple(stage["logical_shape"]),
        devices=np.array(stage["devices"], dtype=np.int32),
        forward_s=stage["forward_s"],
        backward_s=stage["backward_s"],
        update_s=stage["update_s"],
        peak_memory_bytes=stage["peak_memory_bytes"],
        parameters=MappingProxyType({name: ParameterSpecs(specs["weight"], specs["state"]) for name, specs in stage["parameters"].items()}),
        results=MappingProxyType({name: op["result"] for name, op in stage["ops"].items() if "result" in op}),
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"


class Plan:
    """A plan: the text of a plan file, and of a search also what it reported (`document`)."""

    def __init__(self, text: str, document: Mapping[str, Any] | None = None, options: Mapping[str, object] | None = None) -> None:
        self._text = text
        self._contents: dict[str, Any] = json.loads(text)
        self.document: Mapping[str, Any] = MappingProxyType(dict(document or {}))
        self._costs = {key: value for key, value in (options or {}).items() if key in ("profile", "profile_as") and value is not None}
        self.stages: tuple[Stage, ...] = tuple(_stage(index, stage) for index, stage in enumerate(self._contents["stages"]))

    @classmethod
    def load(cls, path: StrPath) -> Plan:
        """Reads a plan file. Raises InputError where it holds no sound plan."""
        call("simulate", path)
        return cls(pathlib.Path(path).read_text(encoding="utf-8"))

    def save(self, path: StrPath) -> None:
        """Writes the plan file, which `meshwright simulate`, `run`, `explain` and `export` read."""
        pathlib.Path(path).write_text(self._text, encoding="utf-8")

    @contextlib.contextmanager
    def as_file(self) -> Iterator[str]:
        """The plan as a file for as long as the `with` lasts."""
        with tempfile.TemporaryDirectory(prefix="meshwright-") as folder:
            path = os.path.join(folder, "plan.json")
            self.save(path)
            yield path

    @property
    def contents(self) -> Mapping[str, Any]:
        """The members of the plan file (docs/files.md)."""
        return self._contents

    @property
    def step_time_s(self) -> float:
        """Predicted time of one training step."""
        return float(self._contents["predicted"]["step_time_s"])

    @property
    def lower_bound_s(self) -> float:
        """No plan takes less."""
        return float(self._contents["predicted"]["lower_bound_s"])

    @property
    def peak_memory_bytes(self) -> float:
        """Of the device that needs most."""
        return float(self._contents["predicted"]["peak_memory_bytes"])

    @property
    def model(self) -> str:
        return str(self._contents["model"]["name"])

    @property
    def cluster(self) -> str:
        return str(self._contents["cluster"]["name"])

    @property
    def schedule(self) -> str:
        return str(self._contents["schedule"])

    @property
    def micro_batches(self) -> int:
        return int(self._contents["training"]["microbatches"])

    @property
    def specs(self) -> Mapping[str, str]:
        """The sharding spec of every parameter, stage by stage."""
        return MappingProxyType({name: specs.weight for stage in self.stages for name, specs in stage.parameters.items()})

    def simulate(self, **options: Unpack[SimulateOptions]) -> Prediction:
        """Predicts the step, or what it would be under other conditions."""
        return simulate(self, **options)

    @functools.cached_property
    def prediction(self) -> Prediction:
        """The step as it is."""
        return simulate(self)

    @property
    def timeline(self) -> Timeline:
        """Of the predicted step."""
        return self.prediction.timeline

    @property
    def answer(self) -> str:
        return (
            f"{self.model} on {self.cluster}: {_milliseconds(self.step_time_s)} a step in {len(self.stages)} stage"
            f"{'' if len(self.stages) == 1 else 's'}, {self.peak_memory_bytes / 2**30:.4g} GiB on the fullest device"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._contents == other._contents

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = [["stage", "layers", "submesh", "logical", "forward", "backward", "update", "memory"]]
        for stage in self.stages:
            rows.append(
                [
                    str(stage.index),
                    f"{stage.first_layer}..{stage.last_layer}",
                    "x".join(map(str, stage.submesh[:2])),
                    "x".join(map(str, stage.logical_shape)),
                    _milliseconds(stage.forward_s),
                    _milliseconds(stage.backward_s),
                    _milliseconds(stage.update_s),
                    f"{stage.peak_memory_bytes / 2**30:.4g} GiB",
                ]
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return f"<Plan: {self.answer}>\n{table}"

    def _repr_html_(self) -> str:
        return self.prediction._repr_html_()


class Prediction:
    """What the simulator says of a plan's step."""

    def __init__(self, plan: Plan, document: Mapping[str, Any], options: Mapping[str, object]) -> None:
        self.plan = plan
        self.document = MappingProxyType(dict(document))
        self._options = dict(options)

    @property
    def step_time_s(self) -> float:
        return float(self.document["step_time_s"])

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Where the step lies in 90 of 100 cases; None where nothing says how far predictions are off."""
        ends = self.document.get("interval_s")
        return None if ends is None else (float(ends[0]), float(ends[1]))

    @property
    def peak_memory_bytes(self) -> float:
        return float(self.document["peak_memory_bytes"])

    @property
    def samples_per_s(self) -> float:
        return float(self.document["samples_per_s"])

    @functools.cached_property
    def timeline(self) -> Timeline:
        """The tasks of all devices as NumPy arrays."""
        with tempfile.TemporaryDirectory(prefix="meshwright-") as folder, self.plan.as_file() as path:
            trace = os.path.join(folder, "trace.json")
            call("simulate", path, **{**self._options, "trace": trace})
            return read_trace(trace)

    @functools.cached_property
    def html(self) -> str:
        """The report as one page, as `meshwright simulate --html` writes it."""
        with tempfile.TemporaryDirectory(prefix="meshwright-") as folder, self.plan.as_file() as path:
            page = os.path.join(folder, "report.html")
            call("simulate", path, **{**self._options, "html": page})
            return pathlib.Path(page).read_text(encoding="utf-8")

    @functools.cached_property
    def text(self) -> str:
        """What `meshwright simulate` prints."""
        with self.plan.as_file() as path:
            return call_text("simulate", path, **self._options)

    def __repr__(self) -> str:
        return f"<Prediction: {self.plan.model} on {self.plan.cluster}: {_milliseconds(self.step_time_s)} a step>"

    def _repr_html_(self) -> str:
        return framed(self.html, self.plan.answer)


class Measurement:
    """What was measured of a plan that ran on this machine."""

    def __init__(self, plan: Plan, document: Mapping[str, Any], timeline: Timeline) -> None:
        self.plan = plan
        self.document = MappingProxyType(dict(document))
        self.timeline = timeline

    @property
    def step_time_s(self) -> float:
        """The median of the measured steps."""
        return float(self.document["measured_step_time_s"])

    @property
    def predicted_step_time_s(self) -> float:
        return float(self.document["step_time_s"])

    @property
    def step_times_s(self) -> npt.NDArray[np.float64]:
        return np.array(self.document["step_times_s"], dtype=np.float64)

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        return np.array(self.document["losses"], dtype=np.float64)

    def __repr__(self) -> str:
        return (
            f"<Measurement: {self.plan.model} on {self.plan.cluster}: {_milliseconds(self.step_time_s)} a step, "
            f"predicted {_milliseconds(self.predicted_step_time_s)}>"
        )


def _as_plan(plan: Plan | StrPath) -> Plan:
    return plan if isinstance(plan, Plan) else Plan.load(plan)


def simulate(plan: Plan | StrPath, **options: Unpack[SimulateOptions]) -> Prediction:
    """Predicts the training step of a plan, or what it would be under other conditions. Raises the command's errors."""
    found = _as_plan(plan)
    given: dict[str, object] = {**found._costs, **options}
    with found.as_file() as path:
        return Prediction(found, call("simulate", path, **given), given)


def run(plan: Plan | StrPath, **options: Unpack[RunOptions]) -> Measurement:
    """Runs a plan on threads or GPUs of this machine. Raises the command's errors."""
    found = _as_plan(plan)
    given: dict[str, object] = {**found._costs, **options}
    with tempfile.TemporaryDirectory(prefix="meshwright-") as folder, found.as_file() as path:
        trace = str(given.setdefault("trace", os.path.join(folder, "trace.json")))
        return Measurement(found, call("run", path, **given), read_trace(trace))
