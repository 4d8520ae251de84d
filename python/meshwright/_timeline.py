# SPDX-License-Identifier: Apache-2.0
"""Who does what when, as columns."""
from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any

import numpy as np
import numpy.typing as npt

# Behind the pass and the micro-batch, a trace's name says what else there is to know; these are tracks of their own.
COLUMNS = ("device", "stage", "micro_batch", "kind", "track", "name", "start_s", "end_s")


@dataclasses.dataclass(frozen=True, eq=False)
class Timeline:
    """The tasks of one step, each once on every device that takes part, in the order of their start; all columns are as long.

    `kind` is "forward", "backward", "update", ...; `track` is "compute" or the stream that messages are on; `micro_batch` is -1 where
    there is none. `memory_device`, `memory_at_s` and `memory_bytes`: what a device holds from that time on.
    """

    device: npt.NDArray[np.int32]
    stage: npt.NDArray[np.int32]
    micro_batch: npt.NDArray[np.int32]
    kind: npt.NDArray[np.str_]
    track: npt.NDArray[np.str_]
    name: npt.NDArray[np.str_]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    memory_device: npt.NDArray[np.int32]
    memory_at_s: npt.NDArray[np.float64]
    memory_bytes: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.device)

    @property
    def duration_s(self) -> npt.NDArray[np.float64]:
        return self.end_s - self.start_s

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of the tasks, as pandas.DataFrame takes them."""
        return {name: getattr(self, name) for name in COLUMNS}


def _device_of(name: str, pid: int) -> int:
    match = re.search(r"device (\d+)", name)
    return int(match.group(1)) if match else pid


def read_trace(path: str | os.PathLike[str]) -> Timeline:
    """The timeline of a trace that `simulate --trace` or `run --trace` has written."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    devices = {pid: _device_of(name, pid) for pid, name in names.items()}
    tasks = sorted((event for event in events if event["ph"] == "X"), key=lambda event: (event["ts"], event["pid"], event["tid"]))
    memory = sorted((event for event in events if event["ph"] == "C" and event["name"] == "memory"), key=lambda event: (event["pid"], event["ts"]))

    def numbers(values: list[int]) -> npt.NDArray[np.int32]:
        return np.array(values, dtype=np.int32)

    start = np.array([event["ts"] for event in tasks], dtype=np.float64) * 1e-6
    return Timeline(
        device=numbers([devices.get(event["pid"], event["pid"]) for event in tasks]),
        stage=numbers([event.get("args", {}).get("stage", -1) for event in tasks]),
        micro_batch=numbers([event.get("args", {}).get("microbatch", -1) for event in tasks]),
        kind=np.array([event.get("cat", "") for event in tasks], dtype=np.str_),
        track=np.array([tracks.get((event["pid"], event["tid"]), "") for event in tasks], dtype=np.str_),
        name=np.array([event["name"] for event in tasks], dtype=np.str_),
        start_s=start,
        end_s=start + np.array([event["dur"] for event in tasks], dtype=np.float64) * 1e-6,
        memory_device=numbers([devices.get(event["pid"], event["pid"]) for event in memory]),
        memory_at_s=np.array([event["ts"] for event in memory], dtype=np.float64) * 1e-6,
        memory_bytes=np.array([event["args"]["bytes"] for event in memory], dtype=np.float64),
    )
