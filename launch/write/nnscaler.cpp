// SPDX-License-Identifier: Apache-2.0
// nnScaler: the trainer's arguments, the constraints that leave its autodist policy one plan, and the model for its
// tracer.
//
// A plan is pinned by four of its settings: scale units of tp x pp devices, of which no operator is split over more
// than tp (so that every stage has tp of them), as many stages as there are modules of the class StageStart and one
// more, and for each kind of product the one dimension that may be split.
#include <algorithm>

#include "launch/write/python_text.h"
#include "launch/write/script.h"
#include "launch/write/torch_model.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

constexpr const char* kJob = R"PY(

def grouped(q, k, v) -> str:
    """Heads are split in whole groups that share keys and values."""
    group = q.shape[1] // k.shape[1]
    heads = "g" if group == 1 else f"(g {group})"
    return f"b {heads} l^ d^, b g s^ d^, b g s^ e^ -> b {heads} l^ e^"


@nnscaler.register_op(grouped)
def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


@nnscaler.register_op("* h^, h^ -> * h^")
def rms_norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, model.EPSILON)


class RmsNorm(torch.nn.RMSNorm):
    def forward(self, x):
        return rms_norm(x, self.weight)


class Attention(model.Attention):
    def forward(self, x, rope):
        batch, length, _ = x.shape
        q, k, v = (one(x).view(batch, length, -1, model.HEAD_DIM) for one in (self.q, self.k, self.v))
        if model.QK_NORM:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        if model.ROTARY_BASE:
            q, k = model.rotate(q, *rope), model.rotate(k, *rope)
        x = causal_attention(q, k, v)
        return self.o(x.transpose(1, 2).reshape(batch, length, -1))


# Classes by whose names the constraints and the pivots of the pipeline find operators.
class ColumnLinear(torch.nn.Linear):
    pass


class RowLinear(model.RowLinear):
    pass


class StageStart(model.Block):
    pass


CLASSES = {"q": ColumnLinear, "k": ColumnLinear, "v": ColumnLinear, "gate": ColumnLinear, "up": ColumnLinear}
CLASSES.update(o=RowLinear, down=RowLinear, attention=Attention)


class Model(model.Model):
    """Takes a micro-batch, gives its loss. `stage_starts`: the blocks with which the stages but the first begin."""

    def __init__(self, stage_starts=()):
        super().__init__()
        for name, module in self.named_modules():
            if isinstance(module, torch.nn.RMSNorm):
                module.__class__ = RmsNorm
            else:
                module.__class__ = CLASSES.get(name.rsplit(".", 1)[-1], type(module))
        for block in stage_starts:
            self.blocks[block].__class__ = StageStart

    def forward(self, batch):
        return model.loss_of(super().forward(batch["tokens"]), batch["labels"])


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        words = torch.randint(model.VOCAB, (model.SEQ + 1,), generator=torch.Generator().manual_seed(index))
        return {"tokens": words[:-1], "labels": words[1:]}


_clock = []


def start_clock(trainer):
    args = trainer.train_args
    _clock.append(model.StepClock(args.global_batch_size * model.SEQ, trainer.rank))


def stop_clock(trainer, *_):
    _clock[0].stop()


def report(trainer):
    _clock[0].report()
)PY";

std::vector<int> stage_starts(const LaunchSetup& setup) {
  std::vector<int> starts;
  int block = 0;
  for (std::size_t s = 0; s + 1 < setup.stage_blocks.size(); ++s) starts.push_back(block += setup.stage_blocks[s]);
  return starts;
}

std::string job_module(const LaunchJob& job) {
  std::string text = commented(heading(job));
  text += "\"\"\"What nnScaler's trainer takes: the model that it traces, random tokens, a clock of the steps.\"\"\"\n";
  text += "import nnscaler\nimport torch\nimport torch.nn.functional as F\n\nimport model\n";
  return text + kJob;
}

std::string train_module(const LaunchJob& job) {
  return commented(heading(job)) +
         "\"\"\"Starts nnScaler's trainer: train.py -f train.yaml; modules beside this file are found.\"\"\"\n"
         "from nnscaler.cli.train import main\n\nif __name__ == \"__main__\":\n    main()\n";
}

std::string constraint(const char* op, const char* module, const char* dimension, const char* about) {
  return fmt::format(
      "# {}\n- name: torch.nn.functional.{}\n  parent_module: {}\n  allowed_partition_dims: [\"{}\"]\n"
      "  replica_allowed: false\n",
      about, op, module, dimension);
}

std::string constraints(const LaunchJob& job) {
  const int tp = job.setup.degrees.tp;
  std::string text = commented(heading(job));
  text += "# Over which dimension (input,dimension) autodist may split an operator within the class of a module.\n";
  text += constraint("linear", "ColumnLinear", "1,0", "heads, and the width of the feed-forward layers");
  text += constraint("linear", "RowLinear", "1,1", "the same, summed behind the product");
  if (job.setup.model.vocab % tp == 0) {
    text += constraint("embedding", "Embedding", "1,0", "the words");
    text += constraint("linear", "Head", "1,0", "the words");
  }
  return text;
}

std::string compute_config(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  const Degrees& d = setup.degrees;
  const int unit = d.tp * d.pp;
  std::string text = "compute_config:\n";
  text += fmt::format("  plan_ngpus: {}  # of a scale unit: tp {} x pp {}\n", unit, d.tp, d.pp);
  text += fmt::format("  runtime_ngpus: {}  # of all {} units, the replicas\n", setup.devices(), d.dp);
  text += fmt::format("  use_zero: {}\n", d.zero > 0 ? "true" : "false");
  if (d.zero > 0)
    text += fmt::format("  zero_ngroups: {}  # groups of replicas that split optimizer state among them\n",
                        d.dp / setup.shard.value_or(d.dp));
  text += "  use_end2end: true\n  constant_folding: true\n";
  text += "  pas_config:\n";
  text += fmt::format("    max_partition_degree: {}  # tp\n    pipeline_nstages: {}\n", d.tp, d.pp);
  if (d.pp > 1) {
    text += "    pipeline_pivots: StageStart\n    pipeline_scheduler: 1f1b\n";
    text += "    # The stages are given: no cut is left out because it looks uneven.\n";
    text += "    max_pipeline_bubble_ratio: 0.99\n    max_pipeline_unbalance_ratio: 0.01\n";
  }
  if (d.tp > 1) text += "    partition_constraints_path: partition.yaml\n";
  if (d.recompute == Recompute::Full) text += "    recompute_modules: Block,StageStart\n";
  if (setup.dtype == DType::BF16) text += "    use_bf16: true\n";
  if (setup.dtype == DType::F16) text += "    use_fp16: true\n";
  return text;
}

std::string optimizer(const LaunchSetup& setup) {
  const Optimizer& o = setup.optimizer;
  const bool adam = o.kind == Optimizer::Kind::Adam;
  std::string text = fmt::format("optimizer:\n  type: {}\n  args:\n    lr: {}\n    weight_decay: {}\n",
                                 !adam                       ? "torch.optim.SGD"
                                 : setup.dtype != DType::F32 ? "nnscaler.runtime.f16_optimizer.MixedPrecisionAdamW"
                                                             : "torch.optim.AdamW",
                                 decimal(o.learning_rate), decimal(o.weight_decay));
  if (o.kind == Optimizer::Kind::Momentum) text += fmt::format("    momentum: {}\n", decimal(o.momentum));
  return text + fmt::format("  clip_gnorm: {}\n", decimal(o.max_norm));
}

std::string trainer_arguments(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  const Degrees& d = setup.degrees;
  std::string text = commented(heading(job)) + compute_config(job);
  text += "pas_policy: autodist\ngen_savedir: ./.nnscaler\nrun_mode: run\nseed: 1\n";
  text += fmt::format("precision: {}\n", setup.dtype == DType::BF16  ? "bf16"
                                         : setup.dtype == DType::F16 ? "fp16"
                                                                     : "fp32");
  text += fmt::format("micro_batch_size: {}\ngrad_accumulation_steps: {}\nglobal_batch_size: {}\n", d.micro_batch,
                      d.micro_batches, setup.global_batch());
  text += fmt::format("max_train_steps: {}\n", setup.steps);
  text += "model:\n  type: job.Model\n  args:\n";
  text += fmt::format("    stage_starts: [{}]  # blocks\n", fmt::join(stage_starts(setup), ", "));
  text += optimizer(setup);
  text += "dataset:\n  type: job.RandomTokens\n  train_args:\n";
  text += fmt::format("    samples: {}\n", setup.global_batch() * setup.steps);
  text += "dataloader:\n  train_args:\n    drop_last: true\n";
  text += "checkpoint:\n  no_save: true\n";
  text += "hook:\n  on_train_start: job.start_clock\n  on_step_end: job.stop_clock\n  on_train_end: job.report\n";
  return text;
}

}  // namespace

WrittenJob write_nnscaler(const LaunchJob& job) {
  WrittenJob made;
  made.files = {{"train.yaml", trainer_arguments(job), false, "the trainer's arguments: devices, batch, policy"},
                torch_model(job),
                {"job.py", job_module(job), false, "the model for nnScaler's tracer, random tokens, the clock"},
                {"train.py", train_module(job), false, "starts nnScaler's trainer"}};
  if (job.setup.degrees.tp > 1)
    made.files.insert(made.files.begin() + 1,
                      {"partition.yaml", constraints(job), false, "how autodist may split the products"});
  made.script.environment = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  made.script.command = torchrun_command("train.py -f train.yaml");
  made.measure = {
      "step: the script prints every step, and at the end the median after the first five; the first run "
      "also profiles the operators, traces the model and writes its code",
      "tokens/s: printed with every step; TFLOPS per device and MFU follow from the step, as the work is the "
      "same",
      "memory: the reserved peak of rank 0, printed with every step"};
  made.differences = decoder_of(job.setup.model).differences;
  if (job.setup.dtype == DType::F16)
    made.differences.emplace_back(
        "nnScaler's trainer scales no losses, as training in f16 needs it; the work is the same");
  made.differences.emplace_back(
      "autodist chooses how operators between the products are split (norms, sums, the loss); the plan's are not told "
      "to it");
  return made;
}

}  // namespace meshwright
