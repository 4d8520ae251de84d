# SPDX-License-Identifier: Apache-2.0
"""The options of the functions, written by tests/python_options_test.py from what the command says of its own."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from ._call import StrPath


class PlanOptions(TypedDict, total=False):
    """Options of `meshwright plan`."""

    dim: Mapping[str, int]
    """NAME=SIZE: size of a dimension that the model's file leaves open; repeatable"""
    nodes: int
    """use only this many hosts of the cluster (default: all)"""
    devices_per_node: int
    """use only this many devices of each host (default: all)"""
    batch: int
    """samples per step (default: the model's)"""
    seq: int
    """sequence length in tokens (default: the model's)"""
    micro_batches: int | Literal["auto"]
    """number of micro-batches, which must divide the batch; auto: search for the best number"""
    layers: int | Literal["auto", "default"]
    """number of layers the model is cut into; auto: search for the best number; default: chosen from the model's size"""
    schedule: str
    """pipeline schedule: 1f1b, gpipe, eager-1f1b, zb-h1, zb-h2, zb-v, v-half, dualpipe-v, dualpipe (from both ends, weights twice), interleaved (searches 2 to 4 stages per device), interleaved:V (V stages per device) or inference; auto: search the schedules for training (default: 1f1b; with --for all that the framework has)"""
    objective: Literal["step-time", "latency", "throughput"]
    """what to optimise: step-time (minimise); with --schedule inference also latency (minimise the time of one micro-batch) or throughput (maximise samples per second)"""
    min_throughput: float
    """with --objective latency: the smallest throughput to accept, in samples per second"""
    max_latency: float
    """with --objective throughput: the largest latency of a micro-batch to accept, in seconds"""
    price_per_device_hour: float | str | Sequence[float]
    """price of one device for one hour, such as 2.5; one price per host group where the cluster has several, such as 2.5,1.1"""
    pareto: bool
    """also print the Pareto front: the plans that no other plan beats in step time, memory and number of devices at once"""
    pareto_dir: StrPath
    """write the plans of the Pareto front into this folder, which must be new or empty (implies --pareto)"""
    stage_profile: StrPath
    """take measured or stored stage costs from this .csv or .db, written by --write-stage-profile or `meshwright run --db`"""
    stage_profile_mode: Literal["partly", "wholly"]
    """stages missing from --stage-profile: partly: they are modelled (default); wholly: they are an error"""
    stage_costs: Literal["composition", "individual"]
    """cost of a stage: composition: its layers are sharded together, with the resharding between them; individual: the sum of its layers' separate costs"""
    write_stage_profile: StrPath
    """write the search's stage table to this .csv or .db"""
    layer_cut: str
    """what to balance between layers: flops, bytes, count (of ops) or uniform (of whole blocks); blocks: every block is a layer; follow:PLAN.json: the same cuts as that plan (default: flops; for methods with one stage: blocks)"""
    layer_starts: StrPath | Sequence[str]
    """first op of each layer, such as embed,blk4.ln1, or a JSON file with the list"""
    method: str
    """parallelisation method: pipeshard, shard, largest, data, zero1[:shard=8], zero2[:shard=8], zero3[:shard=8] (fsdp), megatron:tp=8,pp=4[,vpp=,first=,last=,layout=,ep=,cp=,cp-comm=p2p,sp=1,zero=,exact=1,etp=1,fold=1], megatron:auto, expert:ep=8, context:cp=4[,cp-comm=a2a], rules:batch=0,heads=1,..., specs:FILE or manual:FILE"""
    for_: Literal["megatron", "torchtitan", "deepspeed", "fsdp", "maxtext", "nnscaler", "alpa", "megatron-bridge", "fsdp2", "accelerate", "flagscale"]
    """only plans that this framework launches: megatron, torchtitan, deepspeed, fsdp, maxtext, nnscaler, alpa; their degrees, schedule, recomputation and micro-batches are searched whole (default: any plan)"""
    logical_mesh: str
    """for methods with one stage: shape of its logical mesh, such as 8x8 or 2x4x8"""
    batch_axis: int
    """split every batch dimension over this mesh axis (0, 1, ...) and over no other"""
    cross_mesh: Literal["auto", "send", "gather", "broadcast"]
    """how a tensor gets to several devices of the next stage that need the same tile: send (to each of them), gather (a part to each device of a host, which gather), broadcast (a part to each device of all hosts) or auto (as is fastest at each boundary; with --software and --for: send)"""
    force: Mapping[str, str]
    """TENSOR=SPEC: force the sharding of a tensor, such as blk0.mlp.up=S0RS1; repeatable"""
    keep_shardings: bool
    """force the shardings that the model's file (.mlir, .hlo) has for its parameters, on one mesh of all devices"""
    recompute: Literal["none", "full", "selective", "auto"]
    """what to recompute in the backward pass: none, full or selective; auto: search per layer (default: none; with --for all that the framework has)"""
    recompute_layers: str
    """exceptions to --recompute by layer, such as 0-3:full,5:selective"""
    recompute_modules: str | Sequence[str]
    """parts of every block that are recomputed by themselves: none, or some of core_attn, layernorm, moe_act, mla_up_proj, mlp, moe and shared_experts (docs/memory.md)"""
    dtype: Literal["f64", "f32", "bf16", "f16"]
    """type of weights and activations: f64, f32, bf16 or f16 (default: the model's)"""
    optimizer: Literal["adam", "adafactor", "momentum", "sgd"]
    """optimizer: adam, adafactor, momentum or sgd"""
    learning_rate: float
    """factor of the optimizer's step"""
    momentum: float
    """with --optimizer momentum: its factor, from 0 to below 1 (default: 0.9)"""
    weight_decay: float
    """weight decay per step: decoupled with adam (AdamW) and adafactor, otherwise added to the gradient"""
    max_norm: float
    """clip gradients to this global norm; 0: no clipping"""
    loss_scale: float
    """initial scale of dynamic loss scaling, such as 65536, halved when gradients overflow; 0: no scaling"""
    loss_scale_interval: int
    """with --loss-scale: steps without overflow after which the scale doubles"""
    offload: str | Sequence[str]
    """what is kept in the hosts' memory instead of the devices': none, or some of optimizer (its state), activations (from forward to backward) and weights (fetched by every pass), separated by commas; auto: what makes the fastest plan"""
    loss: Literal["mean", "sum", "token_weighted"]
    """how the samples' losses are reduced: mean, sum or token_weighted"""
    submesh_space: str
    """submeshes that stages may take: power_of_two, small_power_of_two, all, or a list of HOSTSxDEVICES such as manual:1x4,2x8 (1x4@1: hosts of group 1)"""
    logical_mesh_space: Literal["same_as_physical", "data_parallel_only", "model_parallel_only", "single_node_model_parallel", "all", "three_dimensional"]
    """logical mesh shapes to search: same_as_physical, data_parallel_only, model_parallel_only, single_node_model_parallel, all or three_dimensional"""
    network: Literal["static", "fluid", "fifo"]
    """how messages share the network: static (fixed costs that assume all of a host's devices send at once), fluid (max-min fair sharing of each link) or fifo (one message at a time on each link)"""
    broadcast: bool
    """with --network fluid or fifo: send a tile that several devices need along a chain of them, once over each link"""
    overlap: bool
    """overlap communication with computation that does not depend on it"""
    bucket_mib: float
    """with --overlap: size of a gradient bucket in MiB (default: 25 MB, about 23.8)"""
    prefetch: int
    """with --overlap: how many computations ahead a weight is gathered (default: 1)"""
    slowdown: float | str | Sequence[float]
    """with --overlap: factor by which overlapped computation slows down, and after a comma communication, such as 1.2,1.1 (default: 1,1)"""
    controller: Literal["none", "single", "multi"]
    """who issues the work: none (issuing takes no time), single (one process for all hosts, with Alpa's constants) or multi (one process per host) (default: none)"""
    call_ms: float
    """with --controller: milliseconds of one call to a host per step"""
    dispatch_us: float
    """with --controller: microseconds to issue one instruction"""
    launch_us: float
    """with --controller: microseconds to launch one kernel"""
    fetch_ms: float
    """with --controller: milliseconds to fetch the loss"""
    fetch_every: int
    """with --controller: fetch the loss every this many steps; 0: never"""
    expert_imbalance: float | StrPath | Sequence[float]
    """how unevenly experts get tokens: those of the busiest device of an expert-parallel group over their mean, such as 1.5; or the tokens of each expert, such as 40,20,20,20, or a .json file of such a list (default: 1)"""
    jitter: float
    """judge plans by the mean of 20 simulated steps whose durations vary: sigma of a lognormal factor on each, such as 0.05"""
    seed: int
    """recorded in the plan; the search draws no random numbers"""
    threads: int
    """threads of the search (default: all cores); the result does not depend on it"""
    profile: StrPath
    """profile database to take measured costs from; what it lacks is modelled (default: all modelled)"""
    profile_as: str
    """with --profile: the device of the cluster that its measurements stand for (default: they are refused unless they were taken on a device of that name)"""
    software: StrPath
    """software whose way to spend time and memory the costs are of: megatron, megatron-2021, megatron-deepspeed, megatron-deepspeed-plain, megatron-te, nemo, nemo-fp8, nemo-2026, nemo-mlperf, deepspeed, internevo, fsdp, fsdp2, nanotron, torchtitan, torchtitan-eager, alpa, meshwright, a profile's .json file, or none (default: none)"""
    matmul_dtype: Literal["fp8"]
    """with --software: type that the layers' products are priced in: fp8, whose operands are quantised first (default: the software's)"""
    states: str | Sequence[str]
    """with --software: how it keeps what it trains: 16-bit, weights, gradients and moments without copies of 32 bits, 16-bit-moments or 8-bit-moments, separated by commas (default: the software's)"""
    attention: Literal["fused", "unfused"]
    """with --software: fused, in one kernel that keeps no scores in memory, or unfused (default: the software's)"""
    token_dispatch: Literal["experts", "hosts", "all"]
    """with --software: how tokens get to experts of other devices: experts, a copy to each; hosts, a copy to each host that has some of them, as DeepEP and HybridEP do; or all, every device gathers the tokens of all (default: the software's)"""
    loss_chunks: float
    """with --software: chunks of tokens that the last product and the loss take one by one, so that the logits of one alone are in memory: a number, or auto for as many as fused kernels take (default: 1)"""
    tokens: float
    """also say what a training run of so many tokens takes, such as 1.5e12, 300B or 15T: days, and price and energy where the cluster file or --price-per-device-hour has them; with --pareto compare numbers of hosts by days and price"""
    deadline_days: float
    """with --tokens: plan for as few hosts of the cluster as finish the run in so many days; with --max-price for as many as do so at the least price"""
    max_price: float
    """with --tokens: plan for as many hosts of the cluster as finish the run fastest at this price; with --deadline-days the price is a limit"""
    no_free_plan: bool
    """with --for: do not also search for the plan that no framework restricts"""
    output: StrPath
    """write the plan to this file"""
    html: StrPath
    """write a report to this HTML file: one file that opens from disk, with timeline, memory and tables"""
    report: bool
    """also print where the time of a step goes, the critical path, the busiest links and the memory peak"""
    dump: StrPath
    """write what the search knew and what the plan consists of into this folder: candidates, layers, the stage table, the program of each kind of device, collectives, resharding and memory"""
    svg: StrPath
    """with --pareto: draw the front as an SVG picture in this file"""
    axes: str
    """of --svg: two of step, memory, devices and price"""


class SimulateOptions(TypedDict, total=False):
    """Options of `meshwright simulate`."""

    software: StrPath
    """software whose way to spend time and memory the costs are of: megatron, megatron-2021, megatron-deepspeed, megatron-deepspeed-plain, megatron-te, nemo, nemo-fp8, nemo-2026, nemo-mlperf, deepspeed, internevo, fsdp, fsdp2, nanotron, torchtitan, torchtitan-eager, alpa, meshwright, a profile's .json file, or none (default: the plan's)"""
    matmul_dtype: Literal["fp8"]
    """with --software: type that the layers' products are priced in: fp8, whose operands are quantised first (default: the software's)"""
    states: str | Sequence[str]
    """with --software: how it keeps what it trains: 16-bit, weights, gradients and moments without copies of 32 bits, 16-bit-moments or 8-bit-moments, separated by commas (default: the software's)"""
    attention: Literal["fused", "unfused"]
    """with --software: fused, in one kernel that keeps no scores in memory, or unfused (default: the software's)"""
    token_dispatch: Literal["experts", "hosts", "all"]
    """with --software: how tokens get to experts of other devices: experts, a copy to each; hosts, a copy to each host that has some of them, as DeepEP and HybridEP do; or all, every device gathers the tokens of all (default: the software's)"""
    loss_chunks: float
    """with --software: chunks of tokens that the last product and the loss take one by one, so that the logits of one alone are in memory: a number, or auto for as many as fused kernels take (default: 1)"""
    profile: StrPath
    """profile database to take measured costs from; what it lacks is modelled (default: all modelled)"""
    profile_as: str
    """with --profile: the device of the cluster that its measurements stand for (default: they are refused unless they were taken on a device of that name)"""
    model: StrPath
    """check that the plan is for this model, otherwise refuse it"""
    batch: int
    """samples per step (default: the plan's)"""
    seq: int
    """sequence length in tokens (default: the plan's)"""
    micro_batches: int
    """number of micro-batches (default: the plan's)"""
    schedule: str
    """schedule (default: the plan's); a plan with one stage per rank takes 1f1b, gpipe, eager-1f1b, zb-h1 or zb-h2; one with two stages per rank in a V takes zb-v, v-half or dualpipe-v"""
    schedule_csv: StrPath
    """schedule from this CSV file: a row per rank, a cell per tick, in PyTorch's format"""
    cluster: StrPath
    """another cluster of the same shape, as a preset or a file (default: the plan's)"""
    write_schedule: StrPath
    """write the schedule to this CSV file: a row per rank, a cell per tick, in PyTorch's format"""
    trace: StrPath
    """write a Chrome/Perfetto trace to this file"""
    trace_limit_mb: int
    """with --trace: refuse a longer file, before it is written (default: 500)"""
    html: StrPath
    """write a report to this HTML file: one file that opens from disk, with timeline, memory and tables"""
    svg: StrPath
    """draw the step as an SVG picture in this file"""
    chart: Literal["timeline", "memory"]
    """what --svg draws: timeline or memory (default: timeline)"""
    report: bool
    """print where the time goes, the critical path, the busiest links and the memory peak"""
    network: Literal["static", "fluid", "fifo"]
    """how messages share the network: static (fixed costs that assume all of a host's devices send at once), fluid (max-min fair sharing of each link) or fifo (one message at a time on each link)"""
    broadcast: bool
    """with --network fluid or fifo: send a tile that several devices need along a chain of them, once over each link"""
    overlap: bool
    """overlap communication with computation that does not depend on it"""
    bucket_mib: float
    """with --overlap: size of a gradient bucket in MiB (default: 25 MB, about 23.8)"""
    prefetch: int
    """with --overlap: how many computations ahead a weight is gathered (default: 1)"""
    slowdown: float | str | Sequence[float]
    """with --overlap: factor by which overlapped computation slows down, and after a comma communication, such as 1.2,1.1 (default: 1,1)"""
    controller: Literal["none", "single", "multi"]
    """who issues the work: none (issuing takes no time), single (one process for all hosts, with Alpa's constants) or multi (one process per host) (default: none)"""
    call_ms: float
    """with --controller: milliseconds of one call to a host per step"""
    dispatch_us: float
    """with --controller: microseconds to issue one instruction"""
    launch_us: float
    """with --controller: microseconds to launch one kernel"""
    fetch_ms: float
    """with --controller: milliseconds to fetch the loss"""
    fetch_every: int
    """with --controller: fetch the loss every this many steps; 0: never"""
    expert_imbalance: float | StrPath | Sequence[float]
    """how unevenly experts get tokens: those of the busiest device of an expert-parallel group over their mean, such as 1.5; or the tokens of each expert, such as 40,20,20,20, or a .json file of such a list (default: 1)"""
    slow_device: Mapping[int, float]
    """what if a device is slower: DEVICE=SPEED, such as 3=0.5 for half speed; repeatable"""
    slow_links: Mapping[str, float]
    """what if links are slower: within-host=SPEED or between-hosts=SPEED, such as between-hosts=0.5; repeatable"""
    jitter: float
    """what if durations vary: sigma of a lognormal factor on each, such as 0.05"""
    samples: int
    """with --jitter: number of simulations (default: 200)"""
    seed: int
    """with --jitter: seed of the first simulation (default: 0)"""
    replicas: int
    """what if this many copies of the cluster each ran the plan and summed their gradients (default: 1)"""
    failures: float
    """what if devices fail: mean hours between two failures of one device"""
    checkpoint_s: float
    """with --failures: seconds to write a checkpoint (default: 60)"""
    restart_s: float
    """with --failures: seconds from a failure until training resumes (default: 300)"""
    checkpoint_every: int | Literal["auto"]
    """with --failures: steps between checkpoints (default: auto, the best number)"""
    threads: int
    """with --jitter: simulations at the same time (default: 1)"""


class SweepOptions(TypedDict, total=False):
    """Options of `meshwright sweep`."""

    dim: Mapping[str, int]
    """NAME=SIZE: size of a dimension that the model's file leaves open; repeatable"""
    nodes: int
    """use only this many hosts of the cluster (default: all)"""
    devices_per_node: int
    """use only this many devices of each host (default: all)"""
    batch: int
    """samples per step (default: the model's)"""
    seq: int
    """sequence length in tokens (default: the model's)"""
    layer_cut: str
    """what to balance between layers: flops, bytes, count (of ops) or uniform (of whole blocks); blocks: every block is a layer; follow:PLAN.json: the same cuts as that plan (default: flops; for methods with one stage: blocks)"""
    layer_starts: StrPath | Sequence[str]
    """first op of each layer, such as embed,blk4.ln1, or a JSON file with the list"""
    method: str
    """parallelisation method: pipeshard, shard, largest, data, zero1[:shard=8], zero2[:shard=8], zero3[:shard=8] (fsdp), megatron:tp=8,pp=4[,vpp=,first=,last=,layout=,ep=,cp=,cp-comm=p2p,sp=1,zero=,exact=1,etp=1,fold=1], megatron:auto, expert:ep=8, context:cp=4[,cp-comm=a2a], rules:batch=0,heads=1,..., specs:FILE or manual:FILE"""
    for_: Literal["megatron", "torchtitan", "deepspeed", "fsdp", "maxtext", "nnscaler", "alpa", "megatron-bridge", "fsdp2", "accelerate", "flagscale"]
    """only plans that this framework launches: megatron, torchtitan, deepspeed, fsdp, maxtext, nnscaler, alpa; their degrees, schedule, recomputation and micro-batches are searched whole (default: any plan)"""
    logical_mesh: str
    """for methods with one stage: shape of its logical mesh, such as 8x8 or 2x4x8"""
    batch_axis: int
    """split every batch dimension over this mesh axis (0, 1, ...) and over no other"""
    cross_mesh: Literal["auto", "send", "gather", "broadcast"]
    """how a tensor gets to several devices of the next stage that need the same tile: send (to each of them), gather (a part to each device of a host, which gather), broadcast (a part to each device of all hosts) or auto (as is fastest at each boundary; with --software and --for: send)"""
    force: Mapping[str, str]
    """TENSOR=SPEC: force the sharding of a tensor, such as blk0.mlp.up=S0RS1; repeatable"""
    keep_shardings: bool
    """force the shardings that the model's file (.mlir, .hlo) has for its parameters, on one mesh of all devices"""
    recompute: Literal["none", "full", "selective", "auto"]
    """what to recompute in the backward pass: none, full or selective; auto: search per layer (default: none; with --for all that the framework has)"""
    recompute_layers: str
    """exceptions to --recompute by layer, such as 0-3:full,5:selective"""
    recompute_modules: str | Sequence[str]
    """parts of every block that are recomputed by themselves: none, or some of core_attn, layernorm, moe_act, mla_up_proj, mlp, moe and shared_experts (docs/memory.md)"""
    dtype: Literal["f64", "f32", "bf16", "f16"]
    """type of weights and activations: f64, f32, bf16 or f16 (default: the model's)"""
    optimizer: Literal["adam", "adafactor", "momentum", "sgd"]
    """optimizer: adam, adafactor, momentum or sgd"""
    learning_rate: float
    """factor of the optimizer's step"""
    momentum: float
    """with --optimizer momentum: its factor, from 0 to below 1 (default: 0.9)"""
    weight_decay: float
    """weight decay per step: decoupled with adam (AdamW) and adafactor, otherwise added to the gradient"""
    max_norm: float
    """clip gradients to this global norm; 0: no clipping"""
    loss_scale: float
    """initial scale of dynamic loss scaling, such as 65536, halved when gradients overflow; 0: no scaling"""
    loss_scale_interval: int
    """with --loss-scale: steps without overflow after which the scale doubles"""
    offload: str | Sequence[str]
    """what is kept in the hosts' memory instead of the devices': none, or some of optimizer (its state), activations (from forward to backward) and weights (fetched by every pass), separated by commas; auto: what makes the fastest plan"""
    loss: Literal["mean", "sum", "token_weighted"]
    """how the samples' losses are reduced: mean, sum or token_weighted"""
    submesh_space: str
    """submeshes that stages may take: power_of_two, small_power_of_two, all, or a list of HOSTSxDEVICES such as manual:1x4,2x8 (1x4@1: hosts of group 1)"""
    logical_mesh_space: Literal["same_as_physical", "data_parallel_only", "model_parallel_only", "single_node_model_parallel", "all", "three_dimensional"]
    """logical mesh shapes to search: same_as_physical, data_parallel_only, model_parallel_only, single_node_model_parallel, all or three_dimensional"""
    network: Literal["static", "fluid", "fifo"]
    """how messages share the network: static (fixed costs that assume all of a host's devices send at once), fluid (max-min fair sharing of each link) or fifo (one message at a time on each link)"""
    broadcast: bool
    """with --network fluid or fifo: send a tile that several devices need along a chain of them, once over each link"""
    overlap: bool
    """overlap communication with computation that does not depend on it"""
    bucket_mib: float
    """with --overlap: size of a gradient bucket in MiB (default: 25 MB, about 23.8)"""
    prefetch: int
    """with --overlap: how many computations ahead a weight is gathered (default: 1)"""
    slowdown: float | str | Sequence[float]
    """with --overlap: factor by which overlapped computation slows down, and after a comma communication, such as 1.2,1.1 (default: 1,1)"""
    controller: Literal["none", "single", "multi"]
    """who issues the work: none (issuing takes no time), single (one process for all hosts, with Alpa's constants) or multi (one process per host) (default: none)"""
    call_ms: float
    """with --controller: milliseconds of one call to a host per step"""
    dispatch_us: float
    """with --controller: microseconds to issue one instruction"""
    launch_us: float
    """with --controller: microseconds to launch one kernel"""
    fetch_ms: float
    """with --controller: milliseconds to fetch the loss"""
    fetch_every: int
    """with --controller: fetch the loss every this many steps; 0: never"""
    expert_imbalance: float | StrPath | Sequence[float]
    """how unevenly experts get tokens: those of the busiest device of an expert-parallel group over their mean, such as 1.5; or the tokens of each expert, such as 40,20,20,20, or a .json file of such a list (default: 1)"""
    jitter: float
    """judge plans by the mean of 20 simulated steps whose durations vary: sigma of a lognormal factor on each, such as 0.05"""
    seed: int
    """recorded in the plan; the search draws no random numbers"""
    threads: int
    """threads of the search (default: all cores); the result does not depend on it"""
    layers: int | str | Sequence[int | str]
    """numbers of layers, such as 4,8,16, or auto"""
    micro_batches: int | str | Sequence[int | str]
    """numbers of micro-batches, such as 8,16,32, or auto"""
    schedule: str | Sequence[str]
    """schedules, such as 1f1b,zb-h1,interleaved:2, or auto (default: as for plan)"""
    software: StrPath
    """software whose way to spend time and memory the costs are of: megatron, megatron-2021, megatron-deepspeed, megatron-deepspeed-plain, megatron-te, nemo, nemo-fp8, nemo-2026, nemo-mlperf, deepspeed, internevo, fsdp, fsdp2, nanotron, torchtitan, torchtitan-eager, alpa, meshwright, a profile's .json file, or none (default: none)"""
    matmul_dtype: Literal["fp8"]
    """with --software: type that the layers' products are priced in: fp8, whose operands are quantised first (default: the software's)"""
    states: str | Sequence[str]
    """with --software: how it keeps what it trains: 16-bit, weights, gradients and moments without copies of 32 bits, 16-bit-moments or 8-bit-moments, separated by commas (default: the software's)"""
    attention: Literal["fused", "unfused"]
    """with --software: fused, in one kernel that keeps no scores in memory, or unfused (default: the software's)"""
    token_dispatch: Literal["experts", "hosts", "all"]
    """with --software: how tokens get to experts of other devices: experts, a copy to each; hosts, a copy to each host that has some of them, as DeepEP and HybridEP do; or all, every device gathers the tokens of all (default: the software's)"""
    loss_chunks: float
    """with --software: chunks of tokens that the last product and the loss take one by one, so that the logits of one alone are in memory: a number, or auto for as many as fused kernels take (default: 1)"""
    profile: StrPath
    """profile database to take measured costs from; what it lacks is modelled (default: all modelled)"""
    profile_as: str
    """with --profile: the device of the cluster that its measurements stand for (default: they are refused unless they were taken on a device of that name)"""
    output: StrPath
    """write the best plan of the whole grid to this file"""
    html: StrPath
    """write a report to this HTML file: one file that opens from disk, with heat maps, fronts and all points"""
    svg: StrPath
    """draw the points as an SVG picture in this file"""
    chart: Literal["heat-map", "front"]
    """what --svg draws: heat-map (a grid of layers and micro-batches per schedule) or front (points by two numbers, and those that no other beats)"""
    price_per_device_hour: float | str | Sequence[float]
    """price of one device for one hour, such as 2.5, one per host group where the cluster has several: plans then have a price per step"""
    axes: str
    """of --chart front: two of step, memory, devices and price"""


class RunOptions(TypedDict, total=False):
    """Options of `meshwright run`."""

    batch: int
    """samples per step (default: the plan's)"""
    seq: int
    """sequence length in tokens (default: the plan's)"""
    micro_batches: int
    """number of micro-batches (default: the plan's)"""
    schedule: str
    """schedule (default: the plan's); a plan with one stage per rank takes 1f1b, gpipe, eager-1f1b, zb-h1 or zb-h2; one with two stages per rank in a V takes zb-v, v-half or dualpipe-v"""
    schedule_csv: StrPath
    """schedule from this CSV file: a row per rank, a cell per tick, in PyTorch's format"""
    steps: int
    """number of training steps to measure"""
    warmup: int
    """number of training steps before the measured ones"""
    check: bool
    """compare losses and weights with a reference: the same steps on one device without a plan"""
    exact: bool
    """compute over the integers modulo a prime instead of in numbers, and compare every tensor of every device with one device alone, to the bit"""
    precision: Literal["f32", "f64", "plan", "bf16", "f16"]
    """arithmetic: f32 (fast kernels) or f64 (reference kernels); with --backend cuda also plan (each tensor in the plan's type), bf16 or f16 (default: f32 on cpu, plan on cuda)"""
    seed: int
    """seed of the initial weights and the samples"""
    backend: Literal["cpu", "cuda"]
    """where devices of the plan run: cpu (threads) or cuda (GPUs)"""
    gpus: int
    """with --backend cuda: number of GPUs; devices of the plan share them when there are fewer (default: one per device of the plan, at most all)"""
    graphs: Literal["auto", "off"]
    """with --backend cuda: auto: capture the step as a CUDA graph and replay it where possible; off: issue every op by itself under its name, as a recording with nsys needs"""
    transport: Literal["inproc", "mpi", "nccl", "mpi+nccl"]
    """how devices communicate: inproc (one process), mpi (processes started together by mpirun or srun, on one host or several), nccl (one process, NCCL collectives between GPUs) or mpi+nccl"""
    patience: int
    """with --transport mpi: seconds for which nothing may be heard of another process before it counts as lost and the run ends"""
    weights: StrPath
    """start from the weights in this folder: model.safetensors, or the files of its index, with the names and layouts of Hugging Face's models"""
    save_weights: StrPath
    """write the weights after the last step to this folder, with the same names and layouts"""
    inputs: StrPath
    """train on samples from a file: tokens from a .npy, a .bin of 16-bit numbers or the bytes of any other file, each with the token after it as label; or INPUT=FILE.npy, once for each input"""
    dump: Mapping[str, StrPath]
    """two words, what and a file: logits (.npy) or gradients (.safetensors) of the last step, or the loss of each step (.npy); once for each"""
    checkpoint: StrPath
    """keep the state of the training in this folder: after every --every steps, after the last one, and when a signal ends the run"""
    every: int
    """with --checkpoint: steps from one checkpoint to the next"""
    keep: int
    """with --checkpoint: how many checkpoints stay, the newest; 0: all"""
    resume: StrPath
    """go on behind the newest whole checkpoint in this folder, also under another plan of the same training"""
    lr_schedule: Literal["constant", "linear", "cosine"]
    """how the learning rate falls: constant (not at all), linear or cosine"""
    lr_warmup: int
    """steps over which the learning rate grows at first"""
    lr_steps: int
    """step at which the learning rate has fallen, counted from the first of the training (default: the last of this run)"""
    lr_least: float
    """share of the learning rate that is left then"""
    log: StrPath
    """write a line of JSON for each step to this file: step, loss, time, rate"""
    profile: StrPath
    """profile database for the prediction (default: the plan's own figures); with --backend cuda also the product algorithms stored for this GPU"""
    profile_as: str
    """with --profile: the device of the cluster that its measurements stand for (default: they are refused unless they were taken on a device of that name)"""
    trace: StrPath
    """write a Chrome/Perfetto trace of the last step to this file"""
    html: StrPath
    """write a report to this HTML file: the measured timeline of the last step, and what was predicted"""
    db: StrPath
    """store the run and its stage times in this profile database, for `meshwright plan --stage-profile`; with --backend cuda also use the product algorithms stored there"""
    report: bool
    """print the measured time of each kind of op beside what was predicted and the roofline; steps are then issued op by op"""


class ProfileOptions(TypedDict, total=False):
    """Options of `meshwright profile`."""

    backend: Literal["cpu", "cuda"]
    """what to measure: cpu, or cuda in a build with CUDA"""
    plan: StrPath
    """with --backend cuda: record ops and collectives during training steps of this plan, instead of measuring each alone"""
    model: StrPath
    """measure the ops of this model (default: ops of several small and large models)"""
    dim: Mapping[str, int]
    """NAME=SIZE: size of a dimension that the model's file leaves open; repeatable"""
    batch: int
    """samples per step (default: the model's)"""
    seq: int
    """sequence length in tokens (default: the model's)"""
    micro_batches: int | str | Sequence[int]
    """numbers of micro-batches to measure for"""
    dtype: Literal["f64", "f32", "bf16", "f16"]
    """type of weights and activations; CPU threads compute in f32 regardless, GPUs in this type (default: f32; with --backend cuda: bf16 where the GPU has it, otherwise f16)"""
    optimizer: Literal["adam", "adafactor", "momentum", "sgd"]
    """optimizer: adam, adafactor, momentum or sgd"""
    cluster: StrPath
    """cluster whose shards are measured: cpu:N for N threads of this machine measuring at once (default: all threads); with --backend cuda: a cluster of this GPU (default: the preset with it)"""
    gpus: int
    """with --backend cuda: number of GPUs (default: all); if a host of --cluster has more devices, they share GPUs, and transfers between devices on one GPU are measured"""
    budget: int
    """seconds to spend (default: 120; with --quick: 20)"""
    quick: bool
    """measure fewer sizes and take fewer samples of each"""
    steps: int
    """with --plan: number of steps to record, after as many steps without recording"""
    warmup: int
    """with --plan: number of steps before those"""
    transport: Literal["inproc", "mpi", "nccl", "mpi+nccl"]
    """between what to measure: inproc (devices of this process), mpi (the processes that were started together, one device each, on one host or several), or, with --plan, nccl"""
    patience: int
    """with --transport mpi: seconds for which nothing may be heard of another process before it counts as lost and the run ends"""
