#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the files of `meshwright export` with what others wrote: launch_files_test.py MESHWRIGHT

Small plans are exported to every framework and launcher. Scripts must be bash, and run with a program in the place of torchrun that
prints its arguments; JSON, TOML and YAML must be that; Python modules must compile, and those of meshes run against a small stand-in of
jax and Alpa. What files say is held against the plan: the degrees make up the devices, the stages hold every block once, the layout of
Megatron-LM expands (by its own rules, written again here) to the plan's stages, the batch is the batch.
"""
import ast
import csv
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None
try:
    import yaml
except ImportError:
    yaml = None

LLAMA = "llama:layers=10,hidden=64,heads=4,kv_heads=2,intermediate=160,seq=64,vocab=256"
DEEPSEEK = ("deepseek_v3:layers=4,hidden=64,heads=4,intermediate=128,seq=64,vocab=256,experts=4,top_k=2,dense_layers=1,"
            "q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16")
FURTHER = DEEPSEEK + ",mtp=1"
GLM = ("decoder_moe:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=64,vocab=256,experts=4,top_k=2,dense_layers=1,"
       "rotary_dims=8,sigmoid=1,selection_bias=1,shared_intermediate=128,mtp=1,mtp_weight=0.3")
MIXTRAL = "mixtral:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=64,vocab=256,experts=4,top_k=2"
GPT = "gpt:layers=8,hidden=64,heads=4,seq=64,vocab=256"
ON8 = ["--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "8"]

# (name, options of plan, targets, launcher)
PLANS = [
    ("even", ["--model", GPT, *ON8, "--method", "megatron:tp=2,pp=2,sp=1,zero=1,exact=1"], ["megatron", "megatron-bridge", "flagscale", "jax"], "slurm"),
    ("uneven", ["--model", LLAMA, *ON8, "--method", "megatron:tp=2,pp=2,first=4,exact=1,zero=0"], ["megatron", "megatron-bridge"], "mpi"),
    ("ends", ["--model", LLAMA, *ON8, "--method", "megatron:tp=1,pp=4,exact=1,zero=1"], ["megatron", "deepspeed"], "torchrun"),
    ("layout", ["--model", LLAMA, *ON8, "--method", "megatron:tp=1,pp=4,layout=Et*2|t*3|t*3|t*2L,exact=1,zero=0"], ["megatron", "torchtitan"], "torchrun"),
    ("three", ["--model", LLAMA, "--cluster", "dgx-a100:3", "--batch", "32", "--micro-batches", "8", "--method",
               "megatron:tp=2,pp=3,sp=1,exact=1,zero=0"], ["megatron", "torchtitan"], "k8s"),
    ("virtual", ["--model", GPT, *ON8, "--method", "megatron:tp=2,pp=2,vpp=2,exact=1,zero=1"], ["megatron"], "k8s"),
    ("bubble", ["--model", LLAMA, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "8", "--schedule", "zb-h1", "--method",
                "megatron:tp=2,pp=2,sp=1,exact=1,zero=2"], ["torchtitan"], "slurm"),
    ("latent", ["--model", DEEPSEEK, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--method",
                "megatron:tp=1,pp=1,ep=4,exact=1,zero=2", "--recompute", "full"], ["torchtitan"], "k8s"),
    ("further", ["--model", FURTHER, *ON8, "--method", "megatron:tp=2,pp=2,layout=Et*3|tmL,sp=1,exact=1,zero=1"],
     ["megatron", "megatron-bridge"], "slurm"),
    ("glm", ["--model", GLM, *ON8, "--method", "megatron:tp=1,pp=4,layout=Et*2|t*2|m|L,exact=1,zero=1"], ["megatron"], "torchrun"),
    ("beside", ["--model", FURTHER, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--schedule", "gpipe", "--method",
                "megatron:tp=1,pp=1,ep=4,exact=1,zero=3"], ["maxtext"], "slurm"),
    ("vectors", ["--model", DEEPSEEK, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--method", "zero3"],
     ["fsdp2", "deepspeed"], "torchrun"),
    ("experts", ["--model", MIXTRAL, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--method",
                 "megatron:tp=2,pp=1,ep=4,sp=1,exact=1,zero=1"], ["megatron", "megatron-bridge"], "slurm"),
    ("gates", ["--model", MIXTRAL, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--method",
               "megatron:tp=2,pp=1,ep=4,exact=1,zero=1"], ["deepspeed"], "slurm"),
    ("known", ["--model", "llama-3.1-8b", "--cluster", "dgx-h100:1", "--batch", "32", "--micro-batches", "4", "--method",
               "megatron:tp=4,pp=1,sp=1,exact=1,zero=2", "--recompute", "full"], ["torchtitan"], "slurm"),
    ("zero3", ["--model", LLAMA, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--method", "zero3:shard=4", "--recompute", "full"],
     ["fsdp2", "accelerate", "torchtitan"], "k8s"),
    ("tensors", ["--model", LLAMA, "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "4", "--method",
                 "megatron:tp=2,pp=1,cp=2,zero=3,exact=1"], ["fsdp2", "accelerate", "maxtext"], "torchrun"),
    ("pipes", ["--model", GPT, *ON8, "--method", "megatron:tp=2,pp=2,zero=1,exact=1"], ["deepspeed"], "mpi"),
    ("waves", ["--model", LLAMA.replace("layers=10", "layers=8"), "--cluster", "dgx-a100:1", "--batch", "32", "--micro-batches", "8", "--schedule", "gpipe",
               "--method", "megatron:tp=2,pp=2,zero=3,exact=1"], ["maxtext"], "slurm"),
    ("scale", ["--model", LLAMA, *ON8, "--method", "megatron:tp=2,pp=2,exact=1,zero=1", "--recompute", "full"], ["nnscaler"], "slurm"),
    ("free", ["--model", GPT, *ON8, "--layers", "4"], ["jax", "alpa"], "torchrun"),
    ("pictures", ["--model", "vit:layers=2,hidden=64,heads=4,image=32,patch=8,classes=10", "--cluster", "p3.16xlarge:1", "--batch", "32",
                  "--micro-batches", "2", "--layers", "2"], ["jax", "alpa"], "torchrun"),
]

FRAMEWORKS = {"megatron": "megatron", "torchtitan": "torchtitan", "deepspeed": "deepspeed", "fsdp2": "fsdp", "maxtext": "maxtext", "nnscaler": "nnscaler"}

# What torchrun and its like are replaced by: it prints the words it is given, one a line.
ECHO = "#!/bin/bash\nprintf '%s\\n' \"$@\"\n"


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {result.stderr}{result.stdout}")
    return result.stdout


def words_of(folder, environment):
    """The words that run.sh hands to the program it starts."""
    return run(["bash", "run.sh"], cwd=folder, env=environment).splitlines()


def flags_of(words):
    """{flag: value} of the words behind the program's name."""
    found = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            value = words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("--") else ""
            found[word] = value
    return found


def expand(layout):
    """[stage] blocks, as Megatron-LM reads a layout: groups first, then single letters."""
    layout = layout.replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        layout = re.sub(pattern, lambda found: found.group(1) * int(found.group(2)), layout)
    assert layout.count("E") == 1 and layout.startswith("E") and layout.count("L") == 1 and layout.endswith("L"), layout
    stages = layout.split("|")
    assert sum("m" in stage for stage in stages) <= 1 and "t" not in layout[layout.find("m"):] or "m" not in layout, layout
    return [stage.count("t") for stage in stages]


def blocks_of_plan(plan):
    """[stage] blocks of a plan whose layers are blocks, with or without layers of their own for the ends."""
    layers = [stage["layers"][1] - stage["layers"][0] + 1 for stage in plan["stages"]]
    # Modules for further tokens are layers before the loss.
    further = plan["model"].get("mtp", 0)
    for stage in range(len(layers) - 1, -1, -1) if further else []:
        others = 1 if stage == len(layers) - 1 else 0
        if layers[stage] >= further + others:
            layers[stage] -= further
            break
    more = sum(layers) - plan["model"]["layers"]
    assert more in (0, 2), layers
    if more:
        layers[0] -= 1
        layers[-1] -= 1
    return layers


def check_megatron(folder, plan, environment):
    flags = flags_of(words_of(folder, environment))
    size = {key: int(flags.get(f"--{key}-size", "1")) for key in ("tensor-model-parallel", "pipeline-model-parallel", "context-parallel")}
    devices = plan["cluster"]["hosts"] * plan["cluster"]["devices_per_host"]
    dp = devices // (size["tensor-model-parallel"] * size["pipeline-model-parallel"] * size["context-parallel"])
    assert int(flags["--global-batch-size"]) == plan["training"]["batch"]
    assert int(flags["--micro-batch-size"]) * dp * plan["training"]["microbatches"] == plan["training"]["batch"], flags
    pp, chunks = size["pipeline-model-parallel"], int(flags.get("--num-virtual-stages-per-pipeline-rank", "1"))
    layers = plan["model"]["layers"]
    assert int(flags.get("--mtp-num-layers", "0")) == plan["model"].get("mtp", 0), flags
    if "--pipeline-model-parallel-layout" in flags:
        blocks = expand(flags["--pipeline-model-parallel-layout"])
    elif "--account-for-embedding-in-pipeline-split" in flags:
        blocks = [(layers + 2) // pp] * pp
        blocks[0] -= 1
        blocks[-1] -= 1
    else:
        first, last = (int(flags.get(f"--decoder-{end}-pipeline-num-layers", "0")) for end in ("first", "last"))
        ranks = pp - (first > 0) - (last > 0)
        assert ranks == 0 or (layers - first - last) % (ranks * chunks) == 0, flags
        middle = (layers - first - last) // (ranks * chunks) if ranks else 0
        blocks = [(first if rank == 0 and first else last if rank == pp - 1 and last else middle * chunks) // chunks
                  for _ in range(chunks) for rank in range(pp)]
    assert blocks == blocks_of_plan(plan), (blocks, blocks_of_plan(plan))


class Settings:
    """A configuration whose groups come to be when they are named."""

    def __getattr__(self, name):
        self.__dict__[name] = Settings()
        return self.__dict__[name]


def fake_torchtitan():
    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        sys.modules[name] = made

    for name in ("torchtitan", "torchtitan.distributed", "torchtitan.models", "torchtitan.models.llama3"):
        module(name)
    kinds = {name: types.SimpleNamespace(Config=lambda of=name: of) for name in ("FullAC", "SelectiveAC")}
    module("torchtitan.distributed.activation_checkpoint", **kinds)
    for name in ("torchtitan.components",):
        module(name)
    module("torchtitan.components.optimizer", default_adamw=lambda lr, weight_decay: (lr, weight_decay))
    module("torchtitan.models.llama3.config_registry", llama3_8b=Settings, llama3_70b=Settings, llama3_405b=Settings)
    module("plan_model", plan_model=Settings)


def check_torchtitan_python(folder, plan):
    """Both functions of plan.py say what the plan says, one of them in tokens."""
    if not (folder / "plan.py").exists():
        assert "no Python configuration" in (folder / "README.md").read_text()
        return
    fake_torchtitan()
    module = load(folder, "plan")
    for c in (module.plan_in_tokens(), module.plan()):
        check_torchtitan_config(c, plan, c.training.__dict__.get("max_context_length") is not None)


def check_torchtitan_config(c, plan, in_tokens):
    p, t, seq = c.parallelism, c.training, plan["model"]["seq"]
    dp = p.data_parallel_replicate_degree * p.data_parallel_shard_degree
    devices = plan["cluster"]["hosts"] * plan["cluster"]["devices_per_host"]
    assert dp * p.tensor_parallel_degree * p.context_parallel_degree * p.pipeline_parallel_degree == devices, vars(p)
    if in_tokens:
        assert t.max_context_length == seq and t.num_tokens_per_train_step == plan["training"]["batch"] * seq, vars(t)
        assert t.num_tokens_per_microbatch_per_dp_rank * dp * plan["training"]["microbatches"] == t.num_tokens_per_train_step
    else:
        parts = 1 if p.pipeline_parallel_degree > 1 else plan["training"]["microbatches"]
        assert t.seq_len == seq and t.local_batch_size * dp * parts == t.global_batch_size == plan["training"]["batch"], vars(t)
    if p.pipeline_parallel_degree > 1:
        parts = p.module_fqns_per_model_part
        blocks = [sum(name.startswith("layers.") for name in part) for part in parts]
        assert blocks == blocks_of_plan(plan) and parts[-1][-2:] == ["norm", "lm_head"], parts
        count = p.num_pp_microbatches if in_tokens else t.local_batch_size // p.pipeline_parallel_microbatch_size
        assert count == plan["training"]["microbatches"] and t.disable_cuda_graphs is True
    wanted = {"full": "FullAC", "selective": "SelectiveAC", "none": None}[plan["training"]["recompute"]]
    assert c.activation_checkpoint == wanted, c.activation_checkpoint


def check_torchtitan(folder, plan):
    check_torchtitan_python(folder, plan)
    if tomllib is None:
        return
    config = tomllib.loads((folder / "plan.toml").read_text())
    p, t = config["parallelism"], config["training"]
    devices = plan["cluster"]["hosts"] * plan["cluster"]["devices_per_host"]
    dp = p["data_parallel_replicate_degree"] * p["data_parallel_shard_degree"]
    assert dp * p["tensor_parallel_degree"] * p["context_parallel_degree"] * p["pipeline_parallel_degree"] == devices, p
    assert t["global_batch_size"] == plan["training"]["batch"]
    if p["pipeline_parallel_degree"] == 1:
        assert t["global_batch_size"] % (t["local_batch_size"] * dp) == 0, t
        return
    assert t["local_batch_size"] * dp == t["global_batch_size"], t
    parts = p["module_fqns_per_model_part"]
    blocks = [[name for name in part if name.startswith("layers.")] for part in parts]
    assert [len(part) for part in blocks] == blocks_of_plan(plan), blocks
    assert sum(blocks, []) == [f"layers.{layer}" for layer in range(plan["model"]["layers"])], blocks
    assert parts[0][0] == "tok_embeddings" and parts[-1][-2:] == ["norm", "output"], parts
    rows = list(csv.reader((folder / "schedule.csv").open()))
    assert len(rows) == p["pipeline_parallel_degree"], rows
    microbatches = t["local_batch_size"] // p["pipeline_parallel_microbatch_size"]
    for stage in range(len(parts)):
        forwards = [cell for row in rows for cell in row if re.fullmatch(rf"{stage}F\d+", cell)]
        assert len(forwards) == microbatches, forwards


def check_deepspeed(folder, plan):
    config = json.loads((folder / "ds_config.json").read_text())
    script = (folder / "train.py").read_text()
    dp = int(re.search(r"^DP = (\d+)", script, re.M).group(1))
    assert config["train_batch_size"] == plan["training"]["batch"] == \
        config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * dp, config
    stages = re.search(r"^STAGE_BLOCKS = (\[.*\])", script, re.M)
    if stages:
        assert json.loads(stages.group(1)) == blocks_of_plan(plan)
        assert config["zero_optimization"]["stage"] <= 1


def check_maxtext(folder, plan):
    config = yaml.safe_load((folder / "plan.yml").read_text())
    group = plan["cluster"]
    for prefix, wanted in (("ici", group["devices_per_host"]), ("dcn", group["hosts"])):
        product = 1
        for key, value in config.items():
            product *= value if key.startswith(prefix + "_") else 1
        assert product == wanted, (prefix, product, wanted)
    devices = group["hosts"] * group["devices_per_host"]
    batch = config["per_device_batch_size"] * devices * config.get("gradient_accumulation_steps", 1)
    assert batch == plan["training"]["batch"], batch
    assert isinstance(config["normalization_layer_epsilon"], float)
    if "num_pipeline_microbatches" in config:
        stages = config["ici_pipeline_parallelism"] * config["dcn_pipeline_parallelism"]
        assert config["num_layers_per_pipeline_stage"] * stages == config["base_num_decoder_layers"]
        assert config["num_pipeline_microbatches"] % stages == 0


def check_accelerate(folder, plan):
    config = yaml.safe_load((folder / "accelerate.yaml").read_text())
    product = 1
    for size in config["parallelism_config"].values():
        product *= size if isinstance(size, int) else 1
    assert product == config["num_processes"], config
    assert plan["training"]["batch"] % config["num_processes"] == 0


def check_flagscale(folder, plan):
    experiment = yaml.safe_load((folder / "plan.yaml").read_text())
    train = yaml.safe_load((folder / "train" / "plan.yaml").read_text())
    hetero = train["system"]["hetero"]
    meshes = [hetero["hetero_process_meshes"][at:at + 5] for at in range(0, len(hetero["hetero_process_meshes"]), 5)]
    assert sum(tp * cp * dp * pp for tp, cp, ep, dp, pp in meshes) == experiment["experiment"]["runner"]["nnodes"] * \
        experiment["experiment"]["runner"]["nproc_per_node"], meshes
    assert sum(mesh[4] for mesh in meshes) == train["system"]["pipeline_model_parallel_size"] == len(plan["stages"])
    assert hetero["hetero_pipeline_layer_split"] == blocks_of_plan(plan)
    assert train["model"]["global_batch_size"] == plan["training"]["batch"]


def check_nnscaler(folder, plan):
    config = yaml.safe_load((folder / "train.yaml").read_text())
    compute, stages = config["compute_config"], blocks_of_plan(plan)
    group = plan["cluster"]
    assert compute["runtime_ngpus"] == group["hosts"] * group["devices_per_host"], compute
    units = compute["runtime_ngpus"] // compute["plan_ngpus"]
    assert compute["plan_ngpus"] == compute["pas_config"]["max_partition_degree"] * len(stages), compute
    assert config["global_batch_size"] == plan["training"]["batch"] == \
        config["micro_batch_size"] * config["grad_accumulation_steps"] * units, config
    starts = [sum(stages[:stage]) for stage in range(1, len(stages))]
    assert config["model"]["args"]["stage_starts"] == starts, (config["model"], starts)
    # An operator may be split over the dimension of its weight that its class of modules is named for, and must be.
    split = {(one["name"].rsplit(".", 1)[-1], one["parent_module"]): one["allowed_partition_dims"]
             for one in yaml.safe_load((folder / "partition.yaml").read_text())}
    assert split == {("linear", "ColumnLinear"): ["1,0"], ("linear", "RowLinear"): ["1,1"], ("embedding", "Embedding"): ["1,0"],
                     ("linear", "Head"): ["1,0"]}, split
    assert compute["pas_config"]["recompute_modules"] == "Block,StageStart"


def fake_jax():
    """As much of jax and numpy as the module of shardings needs."""
    jax, sharding, numpy = types.ModuleType("jax"), types.ModuleType("jax.sharding"), types.ModuleType("numpy")

    class Array(list):
        def reshape(self, shape):
            product = 1
            for size in shape:
                product *= size
            assert product == len(self), (shape, len(self))
            self.shape = shape
            return self

    class Mesh:
        def __init__(self, devices, axes):
            self.shape = dict(zip(axes, devices.shape, strict=True))

    class NamedSharding:
        def __init__(self, mesh, spec):
            self.mesh, self.spec = mesh, spec

    sharding.Mesh, sharding.NamedSharding, sharding.PartitionSpec = Mesh, NamedSharding, lambda *axes: axes
    jax.sharding, jax.devices = sharding, lambda: list(range(64))
    numpy.asarray = numpy.array = lambda items, dtype: Array(items)
    sys.modules.update({"jax": jax, "jax.sharding": sharding, "numpy": numpy})


def check_jax(folder, plan):
    fake_jax()
    module = load(folder, "sharding_plan")
    assert len(module.STAGES) == len(plan["stages"])
    for stage in module.STAGES:
        for table in ("parameters", "states", "results"):
            for name, placed in module.shardings_of(stage, table).items():
                dims = module.DIMENSIONS[name]
                used = [axis for axes in placed.spec for axis in ([axes] if isinstance(axes, str) else axes or [])]
                assert len(used) == len(set(used)) and set(used) <= set(placed.mesh.shape), (name, placed.spec)
                assert len(placed.spec) <= len(dims), (name, placed.spec, dims)
                if table != "results":
                    continue  # parameters may be padded
                for axes, (_, size) in zip(placed.spec, dims):
                    parts = 1
                    for axis in [axes] if isinstance(axes, str) else axes or []:
                        parts *= placed.mesh.shape[axis]
                    assert size % parts == 0, (name, placed.spec, dims)


def fake_torch():
    """As much of torch as it takes to make a model's parameters and count them."""

    class Anything(types.ModuleType):
        def __getattr__(self, name):
            return lambda *_, **__: None

    class Parameter:
        def __init__(self, sizes):
            self.count = 1
            for size in sizes:
                self.count *= size
            self.shape = sizes

    class Module:
        def register_buffer(self, *_, **__):
            pass

        def parameters(self):
            found = {}
            for value in list(vars(self).values()):
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, Parameter):
                        found[id(one)] = one
                    elif isinstance(one, Module):
                        found.update(one.parameters())
            return found

    class Linear(Module):
        def __init__(self, inputs, outputs, bias=True):
            self.weight = Parameter((outputs, inputs))
            self.bias = Parameter((outputs,)) if bias else None

    class RMSNorm(Module):
        def __init__(self, width, eps):
            self.weight = Parameter((width,))

    class LayerNorm(RMSNorm):
        def __init__(self, width, eps):
            super().__init__(width, eps)
            self.bias = Parameter((width,))

    torch, nn, functional = types.ModuleType("torch"), types.ModuleType("torch.nn"), Anything("torch.nn.functional")
    nn.Module, nn.Linear, nn.RMSNorm, nn.LayerNorm, nn.Parameter, nn.ModuleList = Module, Linear, RMSNorm, LayerNorm, Parameter, list
    nn.init, nn.functional = Anything("torch.nn.init"), functional
    torch.nn, torch.empty, torch.distributed = nn, lambda *sizes: sizes, Anything("torch.distributed")
    torch.autograd = types.SimpleNamespace(Function=object)
    sys.modules.update({"torch": torch, "torch.nn": nn, "torch.nn.functional": functional, "torch.distributed": torch.distributed})


def load(folder, name):
    sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    module = importlib.import_module(name)
    sys.path.pop(0)
    return module


def check_model(folder, dimensions):
    """The module of plain PyTorch has the plan's parameters: as many numbers."""
    fake_torch()
    module = load(folder, "model")
    module.rope_table = lambda *_: (None, None)
    made = sum(parameter.count for parameter in module.Model().parameters().values())
    planned = 0
    for name, dims in dimensions.items():
        product = 1
        for _, size in dims:
            product *= size
        planned += product
    assert made == planned, (made, planned)


def check_alpa(folder, plan):
    alpa = types.ModuleType("alpa")
    for name in ("AutoLayerOption", "ManualLayerOption", "ManualStageOption", "PipeshardParallel"):
        setattr(alpa, name, lambda **options: types.SimpleNamespace(**options))
    sys.modules["alpa"] = alpa
    method = load(folder, "alpa_plan").method()
    option = method.stage_option
    assert sum(option.forward_stage_layer_ids, []) == list(range(method.layer_option.layer_num))
    for physical, logical in zip(option.submesh_physical_shapes, option.submesh_logical_shapes, strict=True):
        assert physical[0] * physical[1] == logical[0] * logical[1], (physical, logical)
    assert method.num_micro_batches == plan["training"]["microbatches"]


def check_syntax(folder):
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".sh", ".sbatch"):
            run(["bash", "-n", path])
            assert os.access(path, os.X_OK), f"{path} is not executable"
        elif path.suffix == ".py":
            ast.parse(path.read_text(), str(path))
        elif path.suffix in (".yaml", ".yml") and yaml:
            documents = list(yaml.safe_load_all(path.read_text()))
            for document in documents:
                if isinstance(document, dict) and document.get("kind") == "ConfigMap":
                    for name, text in document["data"].items():
                        assert (folder / name).read_text().rstrip() == text.rstrip(), f"{path}: {name} differs from the file"
        if path.is_file() and path.suffix not in (".csv", ".json"):
            assert "predicted step" in path.read_text(), f"{path} does not say what is predicted"


def check(target, folder, plan, environment):
    check_syntax(folder)
    if target == "megatron":
        check_megatron(folder, plan, environment)
    elif target == "megatron-bridge":
        overrides = dict(word.split("=", 1) for word in words_of(folder, environment) if "=" in word)
        assert int(overrides["train.global_batch_size"]) == plan["training"]["batch"]
        layout = overrides["model.pipeline_model_parallel_layout"].strip('"')
        assert layout == "null" or expand(layout) == blocks_of_plan(plan), layout
    elif target == "jax":
        check_jax(folder, plan)
    elif target == "alpa":
        check_alpa(folder, plan)
    elif target in ("torchtitan", "deepspeed"):
        (check_torchtitan if target == "torchtitan" else check_deepspeed)(folder, plan)
    elif yaml:
        {"maxtext": check_maxtext, "accelerate": check_accelerate, "flagscale": check_flagscale,
         "fsdp2": lambda *_: None, "nnscaler": check_nnscaler}[target](folder, plan)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    meshwright = pathlib.Path(sys.argv[1]).resolve()
    if tomllib is None:
        print("[SKIP] what TOML files say: python3 has no tomllib")
    if yaml is None:
        print("[SKIP] what YAML files say: python3 has no yaml")
    checked = 0
    with tempfile.TemporaryDirectory(prefix="meshwright-launch-") as root:
        root = pathlib.Path(root)
        (root / "bin").mkdir()
        for name in ("torchrun", "accelerate"):
            (root / "bin" / name).write_text(ECHO)
            (root / "bin" / name).chmod(0o755)
        environment = dict(os.environ, PATH=f"{root}/bin:{os.environ['PATH']}")
        for name, options, targets, launcher in PLANS:
            path = root / f"{name}.json"
            # What a framework launches is cut along blocks.
            framework = FRAMEWORKS.get(targets[0]) if any(option.startswith("megatron:") for option in options) else None
            run([meshwright, "plan", *options, *(["--for", framework, "--software", "none"] if framework else []), "-o", path])
            plan = json.loads(path.read_text())
            for target in targets:
                alone = target in ("jax", "alpa", "flagscale")
                folder = root / f"{name}-{target}"
                run([meshwright, "export", path, "--to", target, "-o", folder, "--launcher", "torchrun" if alone else launcher])
                try:
                    check(target, folder, plan, environment)
                except Exception:
                    print(f"{name} exported to {target} ({launcher}):", file=sys.stderr)
                    raise
                checked += 1
                # The frameworks' gpt differs a little.
                if (folder / "train.py").exists() and plan["model"]["family"] != "gpt":
                    beside = root / f"{name}-{target}-sizes"
                    run([meshwright, "export", path, "--to", "jax", "-o", beside])
                    fake_jax()
                    module = load(beside, "sharding_plan")
                    parameters = {parameter for stage in module.STAGES for parameter in stage["parameters"]}
                    # The bias by which deepseek's router chooses is no parameter of the written model: nothing trains it.
                    check_model(folder, {one: module.DIMENSIONS[one] for one in parameters if "selection" not in one})
    print(f"{checked} exports are what others read")


if __name__ == "__main__":
    main()
