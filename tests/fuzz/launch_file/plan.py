p# torchtitan 0.3.0: llama on 1 x 8 A100-SXM4-80GB
# tp 2, pp 4, dp 1, ZeRO 0, sequences split over tp, schedule 1f1b
# global batch 32 in 8 micro-batches, bf16, recompute none
# predicted step: 12.547 ms, 163222 tokens/s, 0.07095 TFLOPS per device (MFU 0.0 %)
# predicted memory: 3.7 MiB of 80.0 GiB per device
# Written by meshwright export; flags drift, so run it with the release named above.
#
# In the place of plan.toml: torchrun ... -m torchtitan.train --module plan --config plan, with this folder on PYTHONPATH.
# Trees of August 2026 (b5bcd76c) count the batch in tokens: --config plan_in_tokens.

from torchtitan.components.optimizer import default_adamw
# --- the site: change this ---
# torchtitan's tables lack these sizes. plan_model is a function of yours that returns the Trainer.Config of a
# model of 11 layers, width 64, 4 heads and 2 of keys and values, feed-forward width 160, 256 words.
from plan_model import plan_model


def plan_in_tokens():
    c = plan_model()
    c.training.max_context_length = 64
    c.training.num_tokens_per_microbatch_per_dp_rank = 4 * 64  # samples times their tokens
    c.training.num_tokens_per_train_step = 32 * 64
    c.training.steps = 20
    c.training.max_norm = 1.0
    c.training.mixed_precision_param = "bfloat16"
    c.optimizer = default_adamw(lr=0.001, weight_decay=0.0)
    p = c.parallelism
    p.data_parallel_replicate_degree, p.data_parallel_shard_degree = 1, 1
    p.fsdp_reshard_after_forward = "default"
    p.tensor_parallel_degree, p.context_parallel_degree = 2, 1
    p.expert_parallel_degree = 1
    p.pipeline_parallel_degree = 4
    p.enable_sequence_parallel = True
    p.pipeline_parallel_schedule = "1F1B"
    p.num_pp_microbatches = 8
    p.module_fqns_per_model_part = [
        ["tok_embeddings", "layers.0", "layers.1"],
        ["layers.2", "layers.3", "layers.4"],
        ["layers.5", "layers.6", "layers.7"],
        ["layers.8", "layers.9", "layers.10", "norm", "lm_head"],
    ]
    c.training.disable_cuda_graphs = True  # graphs and stages exclude each other
    c.activation_checkpoint = None
    c.compile.enable = False
    return c


def plan():
    c = plan_model()
    c.training.seq_len = 64
    c.training.local_batch_size, c.training.global_batch_size = 32, 32
    c.training.steps = 20
    c.training.max_norm = 1.0
    c.training.mixed_precision_param = "bfloat16"
    c.optimizer = default_adamw(lr=0.001, weight_decay=0.0)
    p = c.parallelism
    p.data_parallel_replicate_degree, p.data_parallel_shard_degree = 1, 1
    p.fsdp_reshard_after_forward = "default"
    p.tensor_parallel_degree, p.context_parallel_degree = 2, 1
    p.expert_parallel_degree = 1
    p.pipeline_parallel_degree = 4
    p.enable_sequence_parallel = True
    p.pipeline_parallel_schedule = "1F1B"
    p.pipeline_parallel_microbatch_size = 4
    p.module_fqns_per_model_part = [
        ["tok_embeddings", "layers.0", "layers.1"],
        ["layers.2", "layers.3", "layers.4"],
        ["layers.5", "layers.6", "layers.7"],
        ["layers.8", "layers.9", "layers.10", "norm", "lm_head"],
    ]
    c.training.disable_cuda_graphs = True  # graphs and stages exclude each other
    c.activation_checkpoint = None
    c.compile.enable = False
    return c
