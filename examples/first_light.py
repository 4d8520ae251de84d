# SPDX-License-Identifier: Apache-2.0
"""First light from Python: measure this machine, sweep in simulation, run the best plan, compare prediction and measurement.

Run it as a script (`python examples/first_light.py [FOLDER]`, two minutes on two cores), or cell by cell in an editor that knows `# %%`.
Needs the wheel (`./dev wheel`, docs/python.md).
"""
# %% Where the files lie.
import pathlib
import sys
import tempfile

import numpy as np

import meshwright

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="first-light-"))
folder.mkdir(parents=True, exist_ok=True)
profiles = folder / "profiles.db"

# %% A cluster nobody here has: the fastest plan for GPT-2.6B on eight V100s, from the cost model alone.
gpt = meshwright.plan(model="gpt-2.6b", cluster="p3.16xlarge:1", batch=1024, layers=8, micro_batches=128)
print(gpt)

# %% Measure this machine.
measured_on = meshwright.profile(backend="cpu", db=profiles, model="mlp", cluster="cpu:2", batch=2048, micro_batches="2,4,8", budget=30)
print(f"{measured_on['ops']} ops, {measured_on['collectives']} collectives and {measured_on['transfers']} transfers measured")

# %% Sweep layers and micro-batches in simulation.
best = folder / "best.json"
records = meshwright.sweep(model="mlp", cluster="cpu:2", batch=2048, layers=[2, 4], micro_batches=[2, 4, 8], profile=profiles, output=best)
for record in records:
    print(f"layers {record['layers']:>2}  micro-batches {record['micro_batches']:>2}  {record['step_time_s'] * 1e3:8.3f} ms  {'best' if record['best'] else ''}")

# %% Look at the winner.
plan = meshwright.Plan.load(best)
prediction = plan.simulate(profile=profiles)
timeline = prediction.timeline
for device in np.unique(timeline.device):
    of_device = timeline.device == device
    print(f"device {device}: busy {timeline.duration_s[of_device & (timeline.track == 'compute')].sum() / prediction.step_time_s:.1%} of the step")

# %% Run it, and compare losses and weights with one device that runs no plan.
measurement = meshwright.run(plan, profile=profiles, steps=3, check=True)
print(measurement)

# %% Is the prediction right for other plans, too?
for method in ("data", "megatron:tp=2", "megatron:pp=2"):
    other = meshwright.plan(model="mlp", cluster="cpu:2", batch=2048, layers=2, micro_batches=4, method=method, profile=profiles)
    ran = meshwright.run(other, steps=3)
    error = ran.predicted_step_time_s / ran.step_time_s - 1
    print(f"{method:14} predicted {ran.predicted_step_time_s * 1e3:8.3f} ms, measured {ran.step_time_s * 1e3:8.3f} ms ({error:+.1%})")

print(f"files: {folder}")
