// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/device_runner.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/base/element_type.h"
#include "executor/base/tile_offset.h"
#include "executor/base/work_names.h"

namespace meshwright {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

Span::Kind span_kind(const StageExecutable& executable) {
  if (executable.phase == Phase::Forward) return Span::Kind::Forward;
  if (executable.phase == Phase::Update) return Span::Kind::Update;
  switch (executable.backward_part) {
    case Pass::BackwardInput:
      return Span::Kind::BackwardInput;
    case Pass::BackwardWeight:
      return Span::Kind::BackwardWeight;
    default:
      return Span::Kind::Backward;
  }
}

std::int64_t product(const std::vector<std::int64_t>& shape, std::size_t begin, std::size_t end) {
  std::int64_t total = 1;
  for (std::size_t d = begin; d < end; ++d) total *= shape[d];
  return total;
}

}  // namespace

RunContext::RunContext(const Graph& g, const Program& p, const RunOptions& o, Backend& b)
    : graph(g), program(p), options(o), backend(b), initial_values(g, o.seed, o.precision), channels(find_channels(p)) {
  for (const StageExecutable& executable : program.executables) executables.push_back(prepare(graph, executable));
  if (backend.names_work())
    for (const StageExecutable& executable : program.executables) {
      auto& names = work_names.emplace_back();
      for (const LocalOp& op : executable.ops)
        names.push_back(work_name(program.stages[executable.stage.index()], executable, op));
    }
  messages.resize(index(channels.count));
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    if (auto& channel = messages[index(channels.of_transfer[t])]; channel == nullptr)
      channel = backend.make_messages(program.transfers[t].source, program.transfers[t].destination, abort);
  for (const ProgramStage& stage : program.stages) {
    auto& axes = groups.emplace_back(index(stage.mesh.rank()));
    for (int axis = 0; axis < stage.mesh.rank(); ++axis) {
      auto& of_rank = axes[index(axis)];
      of_rank.resize(index(stage.mesh.devices()));
      for (int rank = 0; rank < stage.mesh.devices(); ++rank) {
        const std::vector<int> members = stage.mesh.group(rank, axis);
        if (rank != members.front()) continue;
        std::vector<DeviceId> devices;
        for (const int member : members) devices.push_back(stage.devices[index(member)]);
        const std::shared_ptr<Group> group = backend.make_group(devices, abort);
        for (const int member : members) of_rank[index(member)] = group;
      }
    }
  }
}

DeviceRunner::DeviceRunner(RunContext& context, DeviceId device)
    : context_(context),
      program_(context.program),
      device_(device),
      backend_(context.backend.make_device(device)),
      pool_(*backend_),
      values_(program_.buffers.size()),
      begins_(program_.executables.size()) {
  if (program_.devices.size() > 1) backend_->heed(context.abort);
  backend_->when_short([this] { pool_.give_back(); });
  for (std::size_t s = 0; s < program_.stages.size(); ++s) {
    const StageId stage(static_cast<int>(s));
    if (!program_.lies_on(stage, device)) continue;
    const int rank = rank_in(program_.stages[s], device);
    places_.push_back({stage, rank, program_.stages[s].mesh.coordinates(rank)});
  }
  for (const Buffer& buffer : program_.buffers)
    if (program_.lies_on(buffer.stage, device))
      values_[buffer.id.index()].resize(buffer.persistent ? 1 : index(program_.microbatches));
  for (std::size_t e = 0; e < program_.executables.size(); ++e) {
    const StageId stage = program_.executables[e].stage;
    if (!program_.lies_on(stage, device)) continue;
    const Place& place = place_in(stage);
    const std::vector<LocalOp>& ops = program_.executables[e].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto& call = context.executables[e].ops[i].call;
      std::vector<std::int64_t> begin;
      if (call)
        for (std::size_t a = 0; a < call->sizes.size(); ++a)
          begin.push_back(tile_index(ops[i].axis_masks[a], program_.stages[stage.index()].mesh, place.coordinates) *
                          call->sizes[a]);
      begins_[e].push_back(std::move(begin));
    }
    if (place.rank == 0 && context.executables[e].loss_op) losses_.assign(index(program_.microbatches), 0.0);
  }
}

void DeviceRunner::initialise() {
  for (const Buffer& buffer : program_.buffers) {
    if (!buffer.persistent || !program_.lies_on(buffer.stage, device_)) continue;
    Value& kept = values_[buffer.id.index()][0];
    kept.block = allocate(buffer.local);
    write(buffer.local, kept.block->data, [&](void* host) {
      context_.initial_values.fill(context_.graph.tensor(buffer.local.tensor),
                                   tile_offset(program_, buffer.stage, device_, buffer.local), buffer.local.shape,
                                   host);
    });
  }
  backend_->finish();
}

// Numbers are made in the precision of the run, and rounded where they lie in another.
template <class Fill>
void DeviceRunner::make(const LocalTensor& local, Fill fill, std::vector<std::byte>& bytes) const {
  const DType made = computed_type(local.dtype, context_.options.precision),
              stored = context_.backend.stored(local.dtype);
  bytes.resize(static_cast<std::size_t>(local.elements() * size_of(made)));
  fill(bytes.data());
  if (made != stored) bytes = converted(bytes.data(), made, local.elements(), stored);
}

template <class Fill>
void DeviceRunner::write(const LocalTensor& local, void* to, Fill fill) {
  const bool as_made = computed_type(local.dtype, context_.options.precision) == context_.backend.stored(local.dtype);
  if (as_made && backend_->is_host()) return fill(to);
  make(local, fill, staging_);
  backend_->write(to, staging_.data(), staging_.size());
}

void DeviceRunner::make_input(const Input& input, int step, void* numbers) const {
  context_.initial_values.fill_input(context_.graph.tensor(input.local->tensor), step, input.microbatch.value,
                                     tile_offset(program_, input.stage, device_, *input.local), input.local->shape,
                                     numbers);
}
void DeviceRunner::make_input(const Input& input, int step, std::vector<std::byte>& bytes) const {
  make(
      *input.local, [&](void* numbers) { make_input(input, step, numbers); }, bytes);
}

void DeviceRunner::run_step(int step, bool record) {
  step_ = step;
  record_ = record;
  issue();
  complete();
}

void DeviceRunner::issue() {
  for (const Instruction& instruction : program_.devices[device_.index()]) {
    switch (instruction.kind) {
      case Instruction::Kind::Run:
        run(instruction);
        break;
      case Instruction::Kind::Exchange:
        exchange(instruction);
        break;
      case Instruction::Kind::Await:
        await(instruction.receives);
        break;
      case Instruction::Kind::Free:
        for (const BufferId buffer : instruction.buffers) {
          Value& freed = value(buffer, instruction.microbatch);
          MW_CHECK(freed.block, "device {} frees '{}' twice", device_.value, program_.buffers[buffer.index()].name);
          pool_.release(*freed.block);
          freed.block.reset();
        }
        break;
    }
  }
  for (const Buffer& buffer : program_.buffers)
    if (buffer.persistent && program_.lies_on(buffer.stage, device_) &&
        context_.graph.tensor(buffer.local.tensor).kind == TensorKind::Accumulator)
      values_[buffer.id.index()][0].clear = true;
}

void DeviceRunner::complete() {
  backend_->finish();
  date_spans();
}

int DeviceRunner::begin_span() { return record_ ? backend_->mark() : 0; }
void DeviceRunner::end_span(Span::Kind kind, StageId stage, MicrobatchId microbatch, int begin) {
  if (record_) marked_.push_back({kind, stage, microbatch, begin, backend_->mark()});
}
void DeviceRunner::date_spans() {
  for (const MarkedSpan& span : marked_)
    spans_.push_back(
        {step_, span.kind, span.stage, span.microbatch, backend_->time_of(span.begin), backend_->time_of(span.end)});
  marked_.clear();
}

std::vector<double> DeviceRunner::persistent(BufferId buffer) const {
  const Block& block = *values_[buffer.index()][0].block;
  std::vector<std::byte> raw(block.size);
  backend_->read(raw.data(), block.data, raw.size());
  const LocalTensor& local = program_.buffers[buffer.index()].local;
  return numbers(raw.data(), context_.backend.stored(local.dtype), local.elements());
}

const DeviceRunner::Place& DeviceRunner::place_in(StageId stage) const {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.stage == stage; });
  MW_CHECK(found != places_.end(), "stage {} does not lie on device {}", stage.value, device_.value);
  return *found;
}

// --- values ---

// A pool keeps what it has in the sizes it was asked for: where the device has nothing left, that is given back first.
Block DeviceRunner::allocate(const LocalTensor& local) {
  const auto size = static_cast<std::size_t>(local.elements() * size_of(context_.backend.stored(local.dtype)));
  try {
    return pool_.allocate(size, local.bytes());
  } catch (const SystemError&) {
    pool_.give_back();
  }
  try {
    return pool_.allocate(size, local.bytes());
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("no memory for '{}' ({}), with {} held: {}", context_.graph.tensor(local.tensor).name,
                                  human_bytes(Bytes(static_cast<double>(size))), human_bytes(pool_.live()),
                                  error.what()));
  }
}

DeviceRunner::Value& DeviceRunner::value(BufferId buffer, MicrobatchId microbatch) {
  return values_[buffer.index()][program_.buffers[buffer.index()].persistent ? 0 : microbatch.index()];
}

void* DeviceRunner::defined(BufferId buffer, MicrobatchId microbatch) {
  Value& known = value(buffer, microbatch);
  MW_CHECK(known.block, "device {} has no '{}' of microbatch {}", device_.value, program_.buffers[buffer.index()].name,
           microbatch.value);
  if (known.clear) backend_->clear(known.block->data, known.block->size);
  known.clear = false;
  return known.block->data;
}

// --- Run ---

void DeviceRunner::run(const Instruction& instruction) {
  const int begin = begin_span();
  const StageExecutable& executable = program_.executables[index(instruction.executable)];
  const PreparedExecutable& prepared = context_.executables[index(instruction.executable)];
  const bool speaks = prepared.loss_op && place_in(executable.stage).rank == 0;
  roots_ = prepared.root;
  bind(executable, prepared, instruction.microbatch);
  for (std::size_t i = 0; i < executable.ops.size(); ++i) {
    const LocalOp& op = executable.ops[i];
    for (const int s : prepared.ops[i].allocate) storage_[index(s)] = allocate(executable.slots[index(s)].local);
    const std::string* name =
        context_.work_names.empty() ? nullptr : &context_.work_names[index(instruction.executable)][i];
    if (name != nullptr && !name->empty()) backend_->begin_work(*name);
    if (op.kind == LocalOp::Kind::Compute)
      compute(op, prepared.ops[i], begins_[index(instruction.executable)][i], instruction.microbatch.value);
    else
      reshard(executable, op);
    if (name != nullptr && !name->empty()) backend_->end_work();
    if (speaks && prepared.loss_op == static_cast<int>(i))
      backend_->read_later(&losses_[instruction.microbatch.index()],
                           context_.backend.stored(executable.slots[index(prepared.loss_slot)].local.dtype),
                           data(prepared.loss_slot));
    for (const int s : prepared.ops[i].release) pool_.release(storage_[index(s)]);
  }
  for (const int s : prepared.defines)
    value(*executable.slots[index(s)].buffer, instruction.microbatch).block = storage_[root(s)];
  end_span(span_kind(executable), executable.stage, instruction.microbatch, begin);
}

// Storage of everything that exists before the first op.
void DeviceRunner::bind(const StageExecutable& executable, const PreparedExecutable& prepared,
                        MicrobatchId microbatch) {
  storage_.assign(executable.slots.size(), Block{});
  bound_.assign(executable.slots.size(), nullptr);
  for (const int s : prepared.bound) {
    const BufferId buffer = *executable.slots[index(s)].buffer;
    if (!prepared.accumulated[index(s)]) static_cast<void>(defined(buffer, microbatch));
    Value& known = value(buffer, microbatch);
    bound_[index(s)] = &known;
    storage_[index(s)] = known.block.value();
  }
  for (const int s : prepared.inputs) {
    const Input input{&executable.slots[index(s)].local, executable.stage, microbatch};
    storage_[index(s)] = allocate(*input.local);
    if (replayer_ != nullptr)
      capture_input(input, data(s));
    else
      write(*input.local, data(s), [&](void* numbers) { make_input(input, step_, numbers); });
  }
}

void DeviceRunner::compute(const LocalOp& op, const PreparedOp& prepared, std::span<const std::int64_t> begin,
                           std::int64_t microbatch) {
  if (prepared.first_touch) {
    Value* accumulator = bound_[root(op.inputs[0])];
    if (accumulator != nullptr && accumulator->clear) {
      accumulator->clear = false;
      const auto stored = [&](std::size_t i) { return context_.backend.stored(prepared.call->input_dtypes[i]); };
      if (stored(0) == stored(1))  // 0 + g = g: copied, instead of cleared and added
        return backend_->copy(data(op.inputs[0]), data(op.inputs[1]), accumulator->block->size);
      backend_->clear(data(op.inputs[0]), accumulator->block->size);
    }
  }
  inputs_.clear();
  outputs_.clear();
  for (const int s : op.inputs) inputs_.push_back(data(s));
  for (const int s : op.outputs) outputs_.push_back(data(s));
  const OpMoment moment{begin, step_ + 1, microbatch};
  backend_->run_op(*prepared.call, inputs_, outputs_, moment);
}

void DeviceRunner::reshard(const StageExecutable& executable, const LocalOp& op) {
  const LocalTensor& in = executable.slots[index(op.inputs[0])].local;
  const LocalTensor& out = executable.slots[index(op.outputs[0])].local;
  const DType stored = context_.backend.stored(in.dtype);
  const ReshardStep& step = op.step.value();
  const Place& place = place_in(executable.stage);
  Group& group = *context_.groups[executable.stage.index()][index(step.axis)][index(place.rank)];
  const int member = place.coordinates[index(step.axis)];
  const void* from = data(op.inputs[0]);
  void* to = data(op.outputs[0]);
  const auto reduction = op.reduce == IterationSpace::Reduce::Max ? kernels::Reduction::Max : kernels::Reduction::Sum;
  const std::size_t rank = in.shape.size();
  switch (step.kind) {
    case ReshardStep::Kind::AllReduce:
      return group.all_reduce(member, *backend_, stored, from, to, in.elements(), reduction);
    case ReshardStep::Kind::ReduceScatter:
      return group.reduce_scatter(member, *backend_, stored, from, to, product(out.shape, 0, index(step.to_dim)),
                                  product(out.shape, index(step.to_dim), rank), reduction);
    case ReshardStep::Kind::AllGather:
      return group.all_gather(member, *backend_, stored, from, to, product(in.shape, 0, index(step.from_dim)),
                              product(in.shape, index(step.from_dim), rank));
    case ReshardStep::Kind::AllToAll:
      return group.all_to_all(member, *backend_, stored, from, to, in.shape, step.to_dim, step.from_dim);
    case ReshardStep::Kind::Slice: {
      const std::vector<std::int64_t> strides = kernels::row_major_strides(in.shape);
      const std::int64_t first = member * out.shape[index(step.to_dim)] * strides[index(step.to_dim)];
      return backend_->copy_box(stored, out.shape, static_cast<const std::byte*>(from) + first * size_of(stored),
                                strides, to, kernels::row_major_strides(out.shape));
    }
  }
}

// --- Exchange ---

void DeviceRunner::exchange(const Instruction& instruction) {
  if (!instruction.sends.empty()) {
    const int begin = begin_span();
    for (const int transfer : instruction.sends) send(transfer);
    const Transfer& first = program_.transfers[index(instruction.sends.front())];
    end_span(Span::Kind::Send, program_.buffers[first.source_buffer.index()].stage, first.microbatch, begin);
  }
  for (const BufferId buffer : instruction.buffers) define_received(buffer, instruction.receives);
  if (instruction.waits) await(instruction.receives);
}

void DeviceRunner::await(const std::vector<int>& receives) {
  if (receives.empty()) return;
  const int begin = begin_span();
  for (const int transfer : receives) receive(transfer);
  const Transfer& first = program_.transfers[index(receives.front())];
  end_span(Span::Kind::Wait, program_.buffers[first.destination_buffer.index()].stage, first.microbatch, begin);
}

void DeviceRunner::define_received(BufferId buffer, const std::vector<int>& receives) {
  if (program_.buffers[buffer.index()].persistent) return;
  for (const int transfer : receives) {
    const Transfer& t = program_.transfers[index(transfer)];
    if (t.destination_buffer != buffer) continue;
    Value& received = value(buffer, t.microbatch);
    if (!received.block) received = {allocate(program_.buffers[buffer.index()].local), false};
  }
}

void DeviceRunner::send(int transfer) {
  const Transfer& t = program_.transfers[index(transfer)];
  const LocalTensor& local = program_.buffers[t.source_buffer.index()].local;
  context_.messages[index(context_.channels.of_transfer[index(transfer)])]->send(
      *backend_, transfer, context_.backend.stored(local.dtype), defined(t.source_buffer, t.microbatch),
      {local.shape, t.source_offset, t.extent});
}

void DeviceRunner::receive(int transfer) {
  const Transfer& t = program_.transfers[index(transfer)];
  const LocalTensor& local = program_.buffers[t.destination_buffer.index()].local;
  context_.messages[index(context_.channels.of_transfer[index(transfer)])]->receive(
      *backend_, transfer, context_.backend.stored(local.dtype), defined(t.destination_buffer, t.microbatch),
      {local.shape, t.destination_offset, t.extent}, t.accumulate);
}

}  // namespace meshwright
