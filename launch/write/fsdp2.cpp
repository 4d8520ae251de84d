// SPDX-License-Identifier: Apache-2.0
// PyTorch's FSDP2 by itself, and under accelerate: a training script around the module of torch_model.h.
#include "launch/write/script.h"
#include "launch/write/torch_model.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

// DTensor splits the module's own layers; its results are whole, as the blocks expect them.
constexpr const char* kSplit = R"PY(
def split_over_tp(net, mesh):
    for block in net.blocks:
        plan = {}
        for name, module in block.named_modules():
            if name.rsplit(".", 1)[-1] in ("q", "k", "v", "gate", "up"):
                plan[name] = ColwiseParallel()
            elif name.rsplit(".", 1)[-1] in ("o", "down"):
                plan[name] = RowwiseParallel()
        parallelize_module(block, mesh, plan)
    return net


)PY";

constexpr const char* kFsdp2 = R"PY(
def shard(net, mesh):
    names = ("dp_replicate", "dp_shard_cp") if DP_REPLICATE > 1 else "dp_shard_cp"
    options = {
        "mesh": mesh[names],
        # ZeRO 3 gathers weights anew in the backward; ZeRO 2 keeps them from the forward.
        "reshard_after_forward": ZERO == 3,
        "mp_policy": MixedPrecisionPolicy(param_dtype=DTYPE, reduce_dtype=torch.float32),
    }
    for block in net.blocks:
        if RECOMPUTE:
            checkpoint(block)
        fully_shard(block, **options)
    return fully_shard(net, **options)


def main():
    rank, device = int(os.environ["RANK"]), torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    mesh = init_device_mesh(
        "cuda", (DP_REPLICATE, DP_SHARD, CP, TP), mesh_dim_names=("dp_replicate", "dp_shard", "cp", "tp")
    )
    mesh[("dp_shard", "cp")]._flatten("dp_shard_cp")
    with device:
        net = model.Model()
    if TP > 1:
        split_over_tp(net, mesh["tp"])
    net = shard(net, mesh)
    optimizer = OPTIMIZER(net.parameters())
    torch.manual_seed(1 + rank // (CP * TP))
    clock = model.StepClock(MICRO_BATCH * MICRO_BATCHES * DP_REPLICATE * DP_SHARD * model.SEQ, rank)
    for _ in range(STEPS):
        for i in range(MICRO_BATCHES):
            # Gradients that are kept split are reduced in every micro-batch, whole ones once.
            net.set_requires_gradient_sync(ZERO >= 2 or i == MICRO_BATCHES - 1)
            tokens, labels = model.random_batch(MICRO_BATCH, device)
            with split_sequence(mesh, [tokens, labels, net.cos, net.sin]):
                loss = model.loss_of(net(tokens), labels)
                (loss / MICRO_BATCHES).backward()
        if MAX_NORM:
            clip([one.grad for one in net.parameters() if one.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
        clock.stop()
    clock.report()
    dist.destroy_process_group()


def clip(gradients):
    # Of gradients on different meshes, which one call cannot take together.
    norms = [norm.full_tensor() for norm in (gradient.norm() for gradient in gradients)]
    scale = min(1.0, MAX_NORM / (torch.stack(norms).norm().item() + 1e-6))
    for gradient in gradients:
        gradient.mul_(scale)


def split_sequence(mesh, buffers):
    if CP == 1:
        return contextlib.nullcontext()
    buffers = [one for one in buffers if one is not None]
    dims = [1, 1, 0, 0][: len(buffers)]
    return context_parallel(mesh["cp"], buffers=buffers, buffer_seq_dims=dims, no_restore_buffers=set(buffers[:2]))


if __name__ == "__main__":
    if CP > 1:
        set_rotate_method("allgather")
    main()
)PY";

constexpr const char* kAccelerate = R"PY(
def main():
    accelerator = Accelerator(gradient_accumulation_steps=MICRO_BATCHES)
    with accelerator.device:
        net = model.Model()
    if TP > 1:
        split_over_tp(net, accelerator.torch_device_mesh["tp"])
    if RECOMPUTE and ZERO == 0:  # where FSDP splits the states, accelerate's file says so
        for block in net.blocks:
            checkpoint(block)
    cos, sin = net.cos, net.sin
    net, optimizer = accelerator.prepare(net, OPTIMIZER(net.parameters()))
    torch.manual_seed(1 + accelerator.process_index // (CP * TP))
    clock = model.StepClock(MICRO_BATCH * MICRO_BATCHES * DP_REPLICATE * DP_SHARD * model.SEQ, accelerator.process_index)
    for _ in range(STEPS):
        for _ in range(MICRO_BATCHES):
            with accelerator.accumulate(net):
                tokens, labels = model.random_batch(MICRO_BATCH, accelerator.device)
                buffers = [one for one in (tokens, labels, cos, sin) if one is not None]
                dims = [1, 1, 0, 0][: len(buffers)]
                with accelerator.maybe_context_parallel(
                    buffers=buffers, buffer_seq_dims=dims, no_restore_buffers=set(buffers[:2])
                ):
                    accelerator.backward(model.loss_of(net(tokens), labels))
                if MAX_NORM and accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), MAX_NORM)
                optimizer.step()
                optimizer.zero_grad()
        clock.stop()
    clock.report()
    accelerator.end_training()


if __name__ == "__main__":
    main()
)PY";

std::string fsdp2_script(const LaunchJob& job) {
  std::string text = commented(heading(job)) + "\"\"\"Trains model.py with FSDP2 as planned.\"\"\"\n";
  text += "import contextlib\nimport functools\nimport os\n\nimport torch\nimport torch.distributed as dist\n";
  text += "from torch.distributed._composable import checkpoint\n";
  text += "from torch.distributed.device_mesh import init_device_mesh\n";
  text += "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n";
  text += "from torch.distributed.tensor.experimental import context_parallel\n";
  text += "from torch.distributed.tensor.experimental._attention import set_rotate_method\n";
  text += "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module\n\n";
  text += "import model\n\n" + training_constants(job.setup) + "\n";
  return text + kSplit + (kFsdp2 + 1);
}

std::string accelerate_script(const LaunchJob& job) {
  std::string text = commented(heading(job)) + "\"\"\"Trains model.py under accelerate as planned.\"\"\"\n";
  text += "import functools\n\nimport torch\nfrom accelerate import Accelerator\n";
  text += "from torch.distributed._composable import checkpoint\n";
  text += "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module\n\n";
  text += "import model\n\n" + training_constants(job.setup) + "\n";
  return text + kSplit + (kAccelerate + 1);
}

std::string accelerate_config(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  const Degrees& d = setup.degrees;
  const bool sharded = d.zero > 0;
  const int shard = sharded ? setup.shard.value_or(d.dp) : 1;
  const char* type = setup.dtype == DType::BF16 ? "bf16" : setup.dtype == DType::F16 ? "fp16" : "'no'";
  std::string text = commented(heading(job));
  text += "compute_environment: LOCAL_MACHINE\ndebug: false\n";
  text += fmt::format("distributed_type: {}\n", sharded ? "FSDP" : setup.devices() > 1 ? "MULTI_GPU" : "'NO'");
  if (sharded) {
    text += "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
    text += "  fsdp_transformer_layer_cls_to_wrap: Block\n";
    text += fmt::format("  fsdp_reshard_after_forward: {}  # ZeRO {}\n", d.zero == 3 ? "true" : "false", d.zero);
    text += fmt::format("  fsdp_activation_checkpointing: {}\n", d.recompute == Recompute::Full ? "true" : "false");
    text += "  fsdp_cpu_ram_efficient_loading: false\n  fsdp_offload_params: false\n";
    text += "  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
    text += "parallelism_config:\n";
    text += fmt::format("  parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n",
                        d.dp / shard, shard);
    text += fmt::format("  parallelism_config_cp_size: {}\n  parallelism_config_tp_size: {}\n", d.cp, d.tp);
    if (d.cp > 1) text += "  parallelism_config_cp_comm_strategy: allgather\n";
  }
  text += fmt::format("mixed_precision: {}\n", type);
  text += fmt::format("num_machines: {}\nnum_processes: {}  # of all machines\n", setup.hosts, setup.devices());
  text += "# --- the site: run.sh gives these on its command line ---\nmachine_rank: 0\n";
  if (setup.hosts > 1) text += "main_process_ip: localhost\nmain_process_port: 29500\n";
  return text + "rdzv_backend: static\nsame_network: true\nuse_cpu: false\n";
}

std::vector<std::string> measures() {
  return {"step: the script prints every step, and at the end the median after the first five",
          "tokens/s: printed with every step; TFLOPS per device and MFU follow from the step, as the work is the same",
          "memory: the reserved peak of rank 0, printed with every step"};
}

}  // namespace

WrittenJob write_fsdp2(const LaunchJob& job) {
  WrittenJob made;
  made.files = {torch_model(job), {"train.py", fsdp2_script(job), false, "the training step"}};
  made.script.environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};
  made.script.command = torchrun_command("train.py");
  made.measure = measures();
  made.differences = decoder_of(job.setup.model).differences;
  return made;
}

WrittenJob write_accelerate(const LaunchJob& job) {
  WrittenJob made;
  made.files = {{"accelerate.yaml", accelerate_config(job), false, "accelerate's settings"},
                torch_model(job),
                {"train.py", accelerate_script(job), false, "the training step"}};
  made.script.environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};
  made.script.command =
      "accelerate launch --config_file accelerate.yaml --num_machines \"$NNODES\" \\\n"
      "  --num_processes \"$((NNODES * GPUS_PER_NODE))\" --machine_rank \"$NODE_RANK\" \\\n"
      "  --main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\" train.py\n";
  made.measure = measures();
  made.differences = decoder_of(job.setup.model).differences;
  if (job.setup.degrees.tp > 1)
    made.differences.emplace_back("tensor parallelism under accelerate needs the package transformers");
  return made;
}

}  // namespace meshwright
