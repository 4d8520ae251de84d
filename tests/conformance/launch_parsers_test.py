#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads exported launch files with the frameworks' own parsers: launch_parsers_test.py MESHWRIGHT

Layouts of stages, also with modules for further tokens, by megatron-core; accelerate.yaml by accelerate; plan.py by torchtitan. Each part
is skipped, with the reason, where its package is not importable (pip install megatron-core accelerate torchtitan, with PyTorch).
"""
import importlib
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


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    meshwright = pathlib.Path(sys.argv[1]).resolve()
    checked = []
    with tempfile.TemporaryDirectory(prefix="meshwright-parsers-") as root:
        for name, check in (("megatron-core", check_megatron), ("accelerate", check_accelerate), ("torchtitan", check_torchtitan)):
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
