#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads exported launch files with the frameworks' own parsers: launch_parsers_test.py MESHWRIGHT

Layouts of stages, also with modules for further tokens, by megatron-core; accelerate.yaml by accelerate; plan.py by torchtitan; plan.yml by
MaxText; train.yaml, partition.yaml and what they name of job.py by nnScaler's trainer. Each part is skipped, with the reason, where its package is
not importable (pip install megatron-core accelerate torchtitan, with PyTorch; nnScaler and MaxText from their repositories).
"""
import importlib
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

DEEPSEEK = ("deepseek_v3:layers=7,hidden=64,heads=4,intermediate=128,seq=64,vocab=256,experts=4,top_k=2,dense_layers=1,"
            "q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16,mtp=1")
ON8 = ["--cluster", "dgx-h100:1", "--batch", "32", "--micro-batches", "8", "--software", "none"]


def exported(meshwright, root, name, target, plan):
    path, folder = root / f"{name}.json", root / name
    subprocess.run([meshwright, "plan", *plan, "-o", path], check=True, capture_output=True)
    subprocess.run([meshwright, "export", path, "--to", target, "-o", folder], check=True, capture_output=True)
    return folder


def check_megatron(meshwright, root):
    layouts = importlib.import_module("megatron.core.transformer.pipeline_parallel_layer_layout").PipelineParallelLayerLayout
    for at, layout in enumerate(["Et*2|t*2|t*2|tmL", "Et*3|t*2|t*2m|L"]):
        folder = exported(meshwright, root, f"megatron{at}", "megatron",
                          ["--model", DEEPSEEK, *ON8, "--method", f"megatron:tp=2,pp=4,layout={layout},sp=1,zero=1,exact=1", "--for", "megatron"])
        script = (folder / "run.sh").read_text()
        written = re.search(r"--pipeline-model-parallel-layout '([^']*)'", script).group(1)
        layouts.from_str(written, 4).validate_layer_layout(num_layers=7, mtp_num_layers=1)
        assert "--mtp-num-layers 1\n" in script and "--mtp-loss-scaling-factor 0.3\n" in script


def check_accelerate(meshwright, root):
    parser = importlib.import_module("accelerate.commands.config.config_args")
    folder = exported(meshwright, root, "accelerate", "accelerate", ["--model", "llama:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=160,seq=64,vocab=256", "--cluster", "dgx-h100:1", "--batch", "32", "--micro-batches", "4", "--method", "zero3"])
    config = parser.load_config_from_file(str(folder / "accelerate.yaml"))
    assert config.num_processes == 8, config


def check_torchtitan(meshwright, root):
    manager = importlib.import_module("torchtitan.config.manager")
    importlib.import_module("torchtitan.models.llama3.config_registry")
    folder = exported(meshwright, root, "torchtitan", "torchtitan",
                      ["--model", "llama-3.1-8b", *ON8, "--method", "megatron:tp=2,pp=2,sp=1,zero=2,exact=1", "--for", "torchtitan", "--recompute", "full"])
    sys.path.insert(0, str(folder))
    config = manager.ConfigManager().parse_args(["--module", "plan", "--config", "plan"])
    p, t = config.parallelism, config.training
    assert (p.tensor_parallel_degree, p.pipeline_parallel_degree, p.data_parallel_shard_degree) == (2, 2, 2), p
    assert (t.seq_len, t.global_batch_size, t.local_batch_size, p.pipeline_parallel_microbatch_size) == (t.seq_len, 32, 16, 2), t
    assert [len(part) for part in p.module_fqns_per_model_part] == [17, 18], p
    assert type(config.activation_checkpoint).__qualname__.startswith("FullAC"), config.activation_checkpoint


def check_maxtext(meshwright, root):
    """Its configuration holds what it is told against itself; devices are those that it would compile for."""
    pyconfig = importlib.import_module("maxtext.configs.pyconfig")
    llama = "llama:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=160,seq=64,vocab=256"
    mixtral = "mixtral:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=64,vocab=256,experts=4,top_k=2"
    plans = (("data", llama, ["--method", "data"]), ("bias", llama + ",qkv_bias=1", ["--method", "zero3"]),
             ("mixture", mixtral, ["--method", "megatron:tp=2,pp=1,ep=2,zero=3,exact=1", "--schedule", "gpipe"]))
    for name, model, method in plans:
        folder = exported(meshwright, root, f"maxtext-{name}", "maxtext",
                          ["--model", model, "--cluster", "dgx-h100:1", "--batch", "32", "--micro-batches", "2", "--software", "none", *method])
        read = pyconfig.initialize(["train", str(folder / "plan.yml"), "internal_compile=True", "internal_compile_num_devices=8"])
        assert (read.global_batch_size_to_train_on, read.gradient_accumulation_steps) == (32, 2), read
        assert (read.decoder_block.value == "qwen2") == (name == "bias"), read.decoder_block


def check_nnscaler(meshwright, root):
    arguments = importlib.import_module("nnscaler.cli.trainer_args")
    constraint = importlib.import_module("nnscaler.autodist.descs").PartitionConstraint
    load_type = importlib.import_module("nnscaler.utils").load_type
    yaml, torch = importlib.import_module("yaml"), importlib.import_module("torch")
    llama = "llama:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=160,seq=64,vocab=256"
    folder = exported(meshwright, root, "nnscaler", "nnscaler", ["--model", llama, *ON8, "--method", "megatron:tp=2,pp=2,zero=1,exact=1",
                                                                "--for", "nnscaler"])
    before = os.getcwd()
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    try:
        read = arguments.TrainerArgs.from_yaml("train.yaml")  # an unknown key, and batches that contradict, are errors
        assert (read.scaling_factor, read.update_freq, read.micro_batch_size, read.resolved_pas_policy) == (2, 8, 2, "autodist"), read
        arguments.ArgsTrainHook(read.hook)
        assert issubclass(load_type(read.optimizer.type), torch.optim.Optimizer)
        batch = next(iter(read.create_dataloader(dataset=read.create_dataset())))
        assert batch["tokens"].shape == (2, 64), batch["tokens"].shape
        model = read.create_model()
        assert model(batch).shape == ()
        # The class of each module whose operators are constrained, and the block with which the second stage begins.
        names = [type(module).__name__ for module in model.modules()]
        parents = [constraint.from_yaml(one).parent_module for one in yaml.safe_load((folder / "partition.yaml").read_text())]
        assert parents and set(parents) <= set(names), (parents, set(names))
        assert names.count(read.compute_config.pas_config["pipeline_pivots"]) == read.compute_config.pas_config["pipeline_nstages"] - 1
        check_policy_keys(read.compute_config.pas_config)
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))


def check_policy_keys(config):
    """The policy reads its settings from a dictionary, and takes no notice of others."""
    source = inspect.getsource(importlib.import_module("nnscaler.policies").pas_autodist)
    unread = [key for key in config if f"'{key}'" not in source]
    assert not unread, unread


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    meshwright = pathlib.Path(sys.argv[1]).resolve()
    checked = []
    with tempfile.TemporaryDirectory(prefix="meshwright-parsers-") as root:
        for name, check in (("megatron-core", check_megatron), ("accelerate", check_accelerate), ("torchtitan", check_torchtitan), ("maxtext", check_maxtext),
                            ("nnscaler", check_nnscaler)):
            try:
                check(meshwright, pathlib.Path(root))
                checked.append(name)
            except ImportError as missing:
                print(f"[SKIP] {name}: {missing}")
    if not checked:
        sys.exit(77)
    print(f"read by {', '.join(checked)}")


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    main()
