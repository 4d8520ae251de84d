// SPDX-License-Identifier: Apache-2.0
// DeepSpeed: its JSON file and a training script; with pipeline stages the script makes a PipelineModule of the plan's
// stages.
#include <algorithm>

#include "core/base/json.h"
#include "launch/write/script.h"
#include "launch/write/torch_model.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

std::string config(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  const Degrees& d = setup.degrees;
  // JSON has no comments; DeepSpeed does not read this key.
  Json json = {{"comment", heading(job)}};
  json["train_batch_size"] = setup.global_batch();
  json["train_micro_batch_size_per_gpu"] = d.micro_batch;
  json["gradient_accumulation_steps"] = d.micro_batches;
  // Offloading is ZeRO's, also of a single replica.
  const bool offload = has(setup.offload, Offload::Optimizer);
  Json zero = {{"stage", offload ? std::max(1, d.zero) : d.zero},
               {"overlap_comm", setup.overlap_gradients},
               {"contiguous_gradients", true}};
  if (d.zero == 2) zero["reduce_scatter"] = true;
  if (offload) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  json["zero_optimization"] = std::move(zero);
  if (setup.dtype == DType::BF16) json["bf16"] = {{"enabled", true}};
  if (setup.dtype == DType::F32) json["bf16"] = json["fp16"] = {{"enabled", false}};
  if (setup.dtype == DType::F16) json["fp16"] = {{"enabled", true}, {"initial_scale_power", 16}};
  const Optimizer& o = setup.optimizer;
  Json parameters = {{"lr", o.learning_rate}, {"weight_decay", o.weight_decay}};
  if (o.kind == Optimizer::Kind::Momentum) parameters["momentum"] = o.momentum;
  json["optimizer"] = {{"type", o.kind == Optimizer::Kind::Adam ? "AdamW" : "SGD"}, {"params", std::move(parameters)}};
  if (o.max_norm > 0) json["gradient_clipping"] = o.max_norm;
  // The script checkpoints the blocks; this tells whoever reads the settings alone.
  if (setup.degrees.recompute == Recompute::Full) json["activation_checkpointing"] = {{"partition_activations", false}};
  json["steps_per_print"] = 1;
  return json_text(json, 2) + "\n";
}

constexpr const char* kConfigFile = R"PY(
def config_file():
    """DeepSpeed's settings, which run.sh names, beside the degrees that they lack."""
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    for name, degree in (("model", TP), ("pipe", PP), ("expert", EP)):
        parser.add_argument(f"--{name}-parallel-size", type=int, default=degree, choices=[degree], help="as planned")
    return parser.parse_args().deepspeed_config

)PY";

constexpr const char* kExperts = R"PY(
def experts(tp):
    """DeepSpeed's own layer: its experts lie on EP ranks, with room for an even load."""
    return MoE(
        model.HIDDEN, model.FeedForward(model.EXPERT_FFN, tp), num_experts=model.EXPERTS, ep_size=EP, k=model.TOP_K,
        capacity_factor=1.0, use_rts=False, enable_expert_tensor_parallelism=tp is not None,
    )


)PY";

constexpr const char* kPlainExperts = R"PY(
experts = model.Experts


)PY";

constexpr const char* kWhole = R"PY(
def main():
    config = config_file()
    deepspeed.init_distributed("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    topology = PipeModelDataParallelTopology(num_pp=1, num_mp=TP, num_dp=DP)
    groups = PipelineParallelGrid(topology=topology) if TP > 1 else None
    tp = groups.get_slice_parallel_group() if TP > 1 else None
    with deepspeed.zero.Init(config_dict_or_path=config, enabled=ZERO == 3):
        net = model.Model(tp, experts)
    if RECOMPUTE:
        for block in net.blocks:
            checkpoint(block)
    parameters = [{"params": list(net.parameters()), "name": "all"}]
    if EP > 1:
        parameters = split_params_into_different_moe_groups_for_optimizer(parameters)
    engine, *_ = deepspeed.initialize(model=net, model_parameters=parameters, mpu=groups, config=config)
    torch.manual_seed(1 + dist.get_rank() // TP)
    clock = model.StepClock(MICRO_BATCH * MICRO_BATCHES * DP * model.SEQ, dist.get_rank())
    for _ in range(STEPS):
        for _ in range(MICRO_BATCHES):
            tokens, labels = model.random_batch(MICRO_BATCH, engine.device)
            engine.backward(model.loss_of(engine(tokens), labels, tp))
            engine.step()
        clock.stop()
    clock.report()


if __name__ == "__main__":
    main()
)PY";

constexpr const char* kPipeline = R"PY(
class Embedding(model.Embedding):
    """The first layer; tied, the last product reads its weight."""


class FinalNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = model.norm()

    def forward(self, x):
        return self.norm(x)


def logits(embedding, x):
    return F.linear(model.copy(x, embedding.tp), embedding.weight)


class Pipeline(PipelineModule):
    """Stages are the plan's, not those of a partition method."""

    def _partition_layers(self, method="uniform"):
        self.parts = [0]
        for stage, blocks in enumerate(STAGE_BLOCKS):
            ends = (stage == 0) + AFTER * (stage == len(STAGE_BLOCKS) - 1)
            self.parts.append(self.parts[-1] + blocks + ends)
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])


def layers(tp):
    blocks = [LayerSpec(model.Block, layer, tp, experts) for layer in range(model.LAYERS)]
    if not model.TIED:
        return [LayerSpec(Embedding, tp), *blocks, LayerSpec(model.Head, tp)]
    first = TiedLayerSpec("words", Embedding, tp, tied_weight_attr=["weight"])
    last = TiedLayerSpec("words", Embedding, tp, forward_fn=logits, tied_weight_attr=["weight"])
    return [first, *blocks, LayerSpec(FinalNorm), last]


AFTER = 2 if model.TIED else 1  # layers after the last block


def batches(device):
    while True:
        yield model.random_batch(MICRO_BATCH, device)


def main():
    config = config_file()
    deepspeed.init_distributed("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    topology = PipeModelDataParallelTopology(num_pp=PP, num_mp=TP, num_dp=DP)
    tp = None
    for peers in topology.get_axis_comm_lists("model") if TP > 1 else []:
        group = dist.new_group(peers)
        tp = group if dist.get_rank() in peers else tp
    net = Pipeline(
        layers(tp), topology=topology, loss_fn=lambda x, labels: model.loss_of(x, labels, tp),
        activation_checkpoint_interval=1 if RECOMPUTE else 0, checkpointable_layers=["Block"],
    )
    engine, *_ = deepspeed.initialize(model=net, model_parameters=list(net.parameters()), config=config)
    # Ranks of one tensor-parallel group read the same tokens.
    torch.manual_seed(1 + dist.get_rank() // TP)
    clock = model.StepClock(MICRO_BATCH * MICRO_BATCHES * DP * model.SEQ, dist.get_rank())
    data = batches(device)
    for _ in range(STEPS):
        engine.train_batch(data_iter=data)
        clock.stop()
    clock.report()


if __name__ == "__main__":
    main()
)PY";

std::string script(const LaunchJob& job, const Decoder& decoder) {
  const LaunchSetup& setup = job.setup;
  const Degrees& d = setup.degrees;
  const bool own_experts = decoder.experts && d.ep > 1;
  std::string text = commented(heading(job)) + "\"\"\"Trains model.py with DeepSpeed as planned.\"\"\"\n";
  text +=
      "import argparse\nimport functools\nimport os\n\nimport deepspeed\nimport torch\nimport torch.distributed as "
      "dist\n";
  if (d.pp > 1) text += "import torch.nn.functional as F\nfrom torch import nn\n";
  if (own_experts) text += "from deepspeed.moe.layer import MoE\n";
  if (d.pp == 1) text += "from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer\n";
  if (d.pp > 1)
    text +=
        "from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec\n"
        "from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology\n";
  else
    text +=
        "from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology\n"
        "from torch.distributed._composable import checkpoint\n";
  text += "\nimport model\n\n" + training_constants(setup);
  text += fmt::format("DP = {}\n", d.dp);
  if (d.pp > 1) text += fmt::format("STAGE_BLOCKS = [{}]\n", fmt::join(blocks_of_stages(setup), ", "));
  std::string settings = kConfigFile;
  if (d.pp > 1)
    settings.insert(
        settings.find("    return parser"),
        "    blocks = \",\".join(map(str, STAGE_BLOCKS))\n"
        "    parser.add_argument(\"--stage-blocks\", default=blocks, choices=[blocks], help=\"as planned\")\n");
  return text + "\n" + settings + (own_experts ? kExperts : kPlainExperts) + ((d.pp > 1 ? kPipeline : kWhole) + 1);
}

}  // namespace

WrittenJob write_deepspeed(const LaunchJob& job) {
  const Decoder decoder = decoder_of(job.setup.model);
  WrittenJob made;
  made.files = {{"ds_config.json", config(job), false,
                 fmt::format("DeepSpeed's settings: micro-batches and ZeRO {}", job.setup.degrees.zero)},
                torch_model(job),
                {"train.py", script(job, decoder), false,
                 job.setup.degrees.pp > 1 ? "the training step, with a PipelineModule of the plan's stages"
                                          : "the training step"}};
  made.script.environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};
  const Degrees& d = job.setup.degrees;
  std::string program = "train.py --deepspeed --deepspeed_config ds_config.json";
  for (const auto& [name, degree] : {std::pair{"model", d.tp}, std::pair{"pipe", d.pp}, std::pair{"expert", d.ep}})
    if (degree > 1) program += fmt::format(" --{}-parallel-size {}", name, degree);
  // The readers of run.sh do not read train.py.
  if (d.pp > 1) program += fmt::format(" --stage-blocks {}", fmt::join(blocks_of_stages(job.setup), ","));
  made.script.command = torchrun_command(program);
  made.measure = {"step: the script prints every step, and at the end the median after the first five",
                  "tokens/s: printed with every step; TFLOPS per device and MFU follow from the step",
                  "memory: the reserved peak of rank 0, printed with every step"};
  made.differences = decoder.differences;
  return made;
}

}  // namespace meshwright
