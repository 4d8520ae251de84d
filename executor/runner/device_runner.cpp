// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/device_runner.h"

#include <algorithm>
#include <cstring>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/base/element_type.h"
#include "executor/base/tile_place.h"
#include "executor/runner/assemble.h"

namespace meshwright {

namespace {

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

// A shape (outer, dim, inner) around one of its dimensions: the product of the sizes before `dim`, and of those from it
// on.
struct AroundDim {
  AroundDim(const std::vector<std::int64_t>& shape, int dim) {
    for (int d = 0; d < static_cast<int>(shape.size()); ++d)
      (d < dim ? outer : inner) *= shape[static_cast<std::size_t>(d)];
  }
  std::int64_t outer = 1, inner = 1;
};

// A ring's two blocks lie one after the other; what travels is moved by the attention between the two reshardings,
// which begins and ends with the device's own block in the first place.
void take_own_block(const LocalTensor& block, const CollectiveCall& call) {
  call.device.copy(call.out, call.in, static_cast<std::size_t>(block.elements() * size_of(call.dtype)));
}

}  // namespace

DeviceRunner::DeviceRunner(RunContext& context, DeviceId device)
    : context_(context),
      program_(context.program),
      device_(device),
      places_(places_of(context.program, device)),
      backend_(context.backend.make_device(device)),
      pool_(*backend_),
      host_pool_(backend_->storage_on_host()),
      values_(program_.buffers.size()) {
  if (context.options.op_times)
    for (const StageExecutable& executable : program_.executables) op_times_.emplace_back(executable.ops.size());
  // A single device waits for nobody, so nothing can leave it waiting for ever.
  if (program_.devices.size() > 1) backend_->watch_abort(context.abort);
  // Blocks that the pool keeps for reuse may be all that is left when another allocation of this device fails.
  backend_->on_out_of_memory([this] { pool_.give_back(); });
  const auto microbatches = static_cast<std::size_t>(program_.microbatches);
  for (const Buffer& buffer : program_.buffers)
    if (program_.lies_on(buffer.stage, device)) values_[buffer.id].resize(buffer.persistent ? 1 : microbatches);
  // Begins do not change from step to step: they are computed once.
  for (int e = 0; e < context.executables.count(); ++e) {
    const StageExecutable& executable = executable_of(e);
    // Also for executables of other stages: begins_ is indexed by the number of the executable.
    std::vector<std::vector<std::int64_t>>& begins = begins_.emplace_back();
    if (!program_.lies_on(executable.stage, device)) continue;
    for (int i = 0; i < context.executables[e].ops.count(); ++i) begins.push_back(begin_of(e, i));
    if (place_in(executable.stage).rank == 0 && context.executables[e].loss_op) losses_.assign(microbatches, 0.0);
  }
}

std::vector<DeviceRunner::Place> DeviceRunner::places_of(const Program& program, DeviceId device) {
  std::vector<Place> places;
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const StageId stage(static_cast<int>(s));
    if (!program.lies_on(stage, device)) continue;
    const int rank = rank_in(program.stages[s], device);
    places.push_back({stage, rank, program.stages[s].mesh.coordinates(rank)});
  }
  return places;
}

// Where this device's shard of an op begins along each of the op's axes; empty for an op that is not computed. Dropout
// masks and label positions depend on it, so that they are the same under every sharding.
std::vector<std::int64_t> DeviceRunner::begin_of(int executable, int op) const {
  const StageExecutable& of = executable_of(executable);
  const std::optional<OpCallPlan>& call = context_.executables[executable].ops[op].call;
  const std::vector<AxisMask>& masks = of.ops[static_cast<std::size_t>(op)].axis_masks;
  const LogicalMesh& mesh = program_.stages[of.stage.index()].mesh;
  std::vector<std::int64_t> begin;
  for (std::size_t a = 0; call && a < call->sizes.size(); ++a)
    begin.push_back(tile_index(masks[a], mesh, place_in(of.stage).coordinates) * call->sizes[a]);
  return begin;
}

// Each device computes its own tiles of the initial values, on its own thread, so that its memory is first touched
// there.
void DeviceRunner::initialise() {
  for (const Buffer& buffer : program_.buffers) {
    if (!buffer.persistent || !program_.lies_on(buffer.stage, device_)) continue;
    Value& kept = values_[buffer.id][0];
    const auto fill = [&](void* host) { fill_initially(buffer, host); };
    if (!buffer.on_host) {
      kept.block = allocate(buffer.local);
      write(buffer.local, kept.block->data, fill);
      continue;
    }
    kept.block = host_pool_.allocate(stored_size(buffer.local), buffer.local.bytes());
    make(buffer.local, fill, staging_);
    std::memcpy(kept.block->data, staging_.data(), staging_.size());
  }
  backend_->finish();
}

// Padding begins as zeros, and stays so: what updates do to a zero weight without a gradient leaves it zero.
void DeviceRunner::fill_initially(const Buffer& buffer, void* host) const {
  const Tensor& tensor = context_.graph.tensor(buffer.local.tensor);
  const TilePlace place = tile_place(program_, context_.graph, buffer.stage, device_, buffer.local);
  if (place.extent == buffer.local.shape) return context_.initial_values.fill(tensor, place.offset, place.extent, host);
  const DType type = computed_type(buffer.local.dtype, context_.options.precision);
  std::memset(host, 0, static_cast<std::size_t>(buffer.local.elements() * size_of(type)));
  if (place.is_empty()) return;
  std::int64_t elements = 1;
  for (const std::int64_t size : place.extent) elements *= size;
  std::vector<std::byte> values(static_cast<std::size_t>(elements * size_of(type)));
  context_.initial_values.fill(tensor, place.offset, place.extent, values.data());
  with_element_type(type, [&](auto zero) {
    using T = decltype(zero);
    kernels::copy_tile<T>(place.extent, reinterpret_cast<const T*>(values.data()),
                          kernels::row_major_strides(place.extent), static_cast<T*>(host),
                          kernels::row_major_strides(buffer.local.shape));
  });
}

// The host computes values in the precision of the run; they are rounded if the backend stores another type.
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
  // Without a conversion or a transfer the values are computed in place.
  const bool as_made = computed_type(local.dtype, context_.options.precision) == context_.backend.stored(local.dtype);
  if (as_made && backend_->is_host()) return fill(to);
  make(local, fill, staging_);
  backend_->write(to, staging_.data(), staging_.size());
}

void DeviceRunner::write_input(const Input& input, void* to) {
  const LocalTensor& local = *input.local;
  if (backend_->is_host()) return write(local, to, [&](void* numbers) { make_input(input, step_, numbers); });
  make_input(input, step_, staging_);
  backend_->write(to, staging_.data(), staging_.size());
}

void DeviceRunner::run_step(const StepTurn& turn) {
  step_ = turn.step;
  record_ = turn.recorded;
  last_ = turn.last;
  issue();
  complete();
}

void DeviceRunner::issue() {
  for (const Instruction& instruction : program_.devices[device_.index()]) {
    at_ = &instruction;
    at_transfer_ = -1;
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
          (program_.buffers[buffer.index()].on_host ? host_pool_ : pool_).release(*freed.block);
          freed.block.reset();
        }
        break;
    }
  }
  at_ = nullptr;
  // Accumulators count as zero in the next step. Nothing is cleared here: the first contribution overwrites them.
  for (const Buffer& buffer : program_.buffers)
    if (buffer.persistent && program_.lies_on(buffer.stage, device_) &&
        context_.graph.tensor(buffer.local.tensor).kind == TensorKind::Accumulator)
      values_[buffer.id][0].clear = true;
}

void DeviceRunner::complete() {
  backend_->finish();
  date_spans();
}

// Times of spans are marks in the device's queue until the step is complete: only then are their moments known.
int DeviceRunner::begin_span() { return record_ ? backend_->mark() : 0; }
void DeviceRunner::end_span(Span::Kind kind, StageId stage, MicrobatchId microbatch, int begin) {
  if (record_) marked_.push_back({kind, stage, microbatch, begin, backend_->mark()});
}
void DeviceRunner::date_spans() {
  for (const MarkedSpan& span : marked_)
    spans_.push_back(
        {step_, span.kind, span.stage, span.microbatch, backend_->time_of(span.begin), backend_->time_of(span.end)});
  marked_.clear();
  for (const MarkedOp& op : marked_ops_) {
    OpTime& time = op_times_[static_cast<std::size_t>(op.executable)][static_cast<std::size_t>(op.op)];
    time.total +=
        Seconds(std::chrono::duration<double>(backend_->time_of(op.end) - backend_->time_of(op.begin)).count());
    ++time.runs;
  }
  marked_ops_.clear();
}

std::vector<StateTile> DeviceRunner::state() const {
  std::vector<StateTile> tiles;
  for (const WantedTile& wanted : state_tiles(context_.graph, program_)) {
    if (wanted.device != device_) continue;
    const Buffer& buffer = program_.buffers[wanted.buffer.index()];
    const TilePlace place = tile_place(program_, context_.graph, buffer.stage, device_, buffer.local);
    const std::vector<double> values = persistent(wanted.buffer);
    StateTile& tile = tiles.emplace_back(StateTile{context_.graph.tensor(buffer.local.tensor).name,
                                                   place.offset,
                                                   place.extent,
                                                   {},
                                                   context_.backend.stored(buffer.local.dtype)});
    std::int64_t elements = 1;
    for (const std::int64_t size : place.extent) elements *= size;
    tile.values.resize(static_cast<std::size_t>(elements));
    kernels::copy_tile<double>(place.extent, values.data(), kernels::row_major_strides(buffer.local.shape),
                               tile.values.data(), kernels::row_major_strides(place.extent));
  }
  return tiles;
}

std::vector<double> DeviceRunner::persistent(BufferId buffer) const {
  const Block& block = *values_[buffer][0].block;
  std::vector<std::byte> raw(block.size);
  if (program_.buffers[buffer.index()].on_host) {
    backend_->finish();
    std::memcpy(raw.data(), block.data, raw.size());
  } else {
    backend_->read(raw.data(), block.data, raw.size());
  }
  const LocalTensor& local = program_.buffers[buffer.index()].local;
  return numbers(raw.data(), context_.backend.stored(local.dtype), local.elements());
}

const DeviceRunner::Place& DeviceRunner::place_in(StageId stage) const {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.stage == stage; });
  MW_CHECK(found != places_.end(), "stage {} does not lie on device {}", stage.value, device_.value);
  return *found;
}

// --- values ---

std::size_t DeviceRunner::stored_size(const LocalTensor& local) const {
  return static_cast<std::size_t>(local.elements() * size_of(context_.backend.stored(local.dtype)));
}

// The pool keeps released blocks for requests of the same size. If the device has no memory left, these blocks are
// returned to it and the request is repeated once.
Block DeviceRunner::allocate(const LocalTensor& local) {
  const std::size_t size = stored_size(local);
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

// Persistent buffers (weights, states, accumulators) have one value for all microbatches.
DeviceRunner::Value& DeviceRunner::value(BufferId buffer, MicrobatchId microbatch) {
  return values_[buffer][program_.buffers[buffer.index()].persistent ? 0 : microbatch.index()];
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

// Storage follows PreparedExecutable: slots that live across Runs are bound to buffers, the others are allocated before
// the op that writes them and released after the last that reads them, in the order in which check_program counts them.
void DeviceRunner::run(const Instruction& instruction) {
  const int begin = begin_span();
  const StageExecutable& executable = executable_of(instruction.executable);
  const PreparedExecutable& prepared = context_.executables[instruction.executable];
  const bool reads_loss = prepared.loss_op && place_in(executable.stage).rank == 0;
  roots_ = &prepared.root;
  const bool timed = record_ && context_.options.op_times;
  bind(executable, prepared, instruction.microbatch);
  for (int i = 0; i < prepared.ops.count(); ++i) {
    at_op_ = i;
    const LocalOp& op = executable.ops[static_cast<std::size_t>(i)];
    for (const int s : prepared.ops[i].allocate) {
      const StageExecutable::Slot& made = executable.slots[static_cast<std::size_t>(s)];
      storage_[s] =
          made.on_host ? host_pool_.allocate(stored_size(made.local), made.local.bytes()) : allocate(made.local);
    }
    const std::string* name = context_.work_name(instruction.executable, i);
    const int op_begin = timed ? backend_->mark() : 0;
    if (name != nullptr) backend_->begin_work(*name);
    if (op.kind == LocalOp::Kind::Compute && last_ && !context_.kept.empty())
      keep(executable, op, instruction.microbatch);
    if (op.kind == LocalOp::Kind::Compute)
      compute(executable, op, prepared.ops[i], begins_[instruction.executable][static_cast<std::size_t>(i)],
              instruction.microbatch.value);
    else if (op.kind == LocalOp::Kind::HostCopy)
      backend_->copy(data(op.outputs[0]), data(op.inputs[0]), stored_size(local_of(executable, op.inputs[0])));
    else
      reshard(executable, op);
    if (name != nullptr) backend_->end_work();
    if (timed) marked_ops_.push_back({instruction.executable, i, op_begin, backend_->mark()});
    // Before the loss's storage is released: later work on it comes after this read in the device's order.
    if (reads_loss && prepared.loss_op == i)
      backend_->read_later(&losses_[instruction.microbatch.index()],
                           context_.backend.stored(local_of(executable, prepared.loss_slot).dtype),
                           data(prepared.loss_slot));
    // The device works in the order of its queue, so a block may be handed out again before the op that reads it has
    // run.
    for (const int s : prepared.ops[i].release) pool_.release(storage_[s]);
  }
  at_op_ = -1;
  for (const int s : prepared.defines)
    value(buffer_of(executable, s), instruction.microbatch).block = storage_[root(s)];
  end_span(span_kind(executable), executable.stage, instruction.microbatch, begin);
}

// Gives storage to the slots that have a value before the first op: buffers and inputs. An accumulator that counts as
// zero is not cleared if the first op on it accumulates; compute() then copies the first contribution into it.
void DeviceRunner::bind(const StageExecutable& executable, const PreparedExecutable& prepared,
                        MicrobatchId microbatch) {
  storage_.assign(executable.slots.size(), Block{});
  bound_.assign(executable.slots.size(), nullptr);
  for (const int s : prepared.bound) {
    const BufferId buffer = buffer_of(executable, s);
    // defined() clears an accumulator that counts as zero; a first contribution that is copied needs no clearing.
    if (!prepared.accumulated[s]) static_cast<void>(defined(buffer, microbatch));
    Value& known = value(buffer, microbatch);
    bound_[s] = &known;
    storage_[s] = known.block.value();
  }
  for (const int s : prepared.inputs) {
    const Input input{&local_of(executable, s), executable.stage, microbatch};
    storage_[s] = allocate(*input.local);
    // A captured step is replayed with other samples, so the replay must know where its inputs are.
    if (replayer_ != nullptr)
      capture_input(input, data(s));
    else
      write_input(input, data(s));
  }
}

void DeviceRunner::compute(const StageExecutable& executable, const LocalOp& op, const PreparedOp& prepared,
                           std::span<const std::int64_t> begin, std::int64_t microbatch) {
  bool first = false;
  if (prepared.first_touch) {
    Value* accumulator = bound_[root(op.inputs[0])];
    if (accumulator != nullptr && accumulator->clear) {
      accumulator->clear = false;
      // 0 + g = g: a copy in the place of a clear and an addition.
      if (backend_->is_host()) return backend_->copy(data(op.inputs[0]), data(op.inputs[1]), accumulator->block->size);
      first = true;
    }
  }
  inputs_.clear();
  outputs_.clear();
  for (const int s : op.inputs) inputs_.push_back(data(s));
  for (const int s : op.outputs) outputs_.push_back(data(s));
  // Steps count from 1: Adam divides by 1 - beta^step.
  const std::int64_t step = context_.options.first_step + step_ + 1;
  const OpMoment moment{begin, step, microbatch, context_.options.learning_rate.factor(step), first};
  if (prepared.ring) return attend_in_ring(executable, op, prepared, moment);
  backend_->run_op(*prepared.call, inputs_, outputs_, moment);
}

// Reads an operand that the result has, before the op overwrites or frees it.
void DeviceRunner::keep(const StageExecutable& executable, const LocalOp& op, MicrobatchId microbatch) {
  const auto wanted = context_.kept.find(op.op);
  if (wanted == context_.kept.end()) return;
  const int slot = op.inputs[wanted->second.operand];
  const LocalTensor& local = local_of(executable, slot);
  const TilePlace place = tile_place(program_, context_.graph, executable.stage, device_, local);
  if (place.is_empty()) return;
  std::vector<std::byte> raw(stored_size(local));
  backend_->read(raw.data(), data(slot), raw.size());
  const std::vector<double> values = numbers(raw.data(), context_.backend.stored(local.dtype), local.elements());
  KeptTile& tile = kept_.emplace_back(KeptTile{op.op, device_, microbatch.value, place.offset, place.extent, {}});
  std::int64_t elements = 1;
  for (const std::int64_t size : place.extent) elements *= size;
  tile.values.resize(static_cast<std::size_t>(elements));
  kernels::copy_tile<double>(place.extent, values.data(), kernels::row_major_strides(local.shape), tile.values.data(),
                             kernels::row_major_strides(place.extent));
}

// One step of a resharding: a collective of the device's group along one mesh axis, or for a Slice a copy of this
// device's part.
void DeviceRunner::reshard(const StageExecutable& executable, const LocalOp& op) {
  const LocalTensor& in = local_of(executable, op.inputs[0]);
  const LocalTensor& out = local_of(executable, op.outputs[0]);
  const DType stored = context_.backend.stored(in.dtype);
  const ReshardStep& step = op.step.value();
  const Place& place = place_in(executable.stage);
  Group& group = *context_.groups[executable.stage][step.axis][place.rank];
  const int member = place.coordinates[static_cast<std::size_t>(step.axis)];
  const CollectiveCall call{member, *backend_, stored, data(op.inputs[0]), data(op.outputs[0])};
  const auto reduction = op.reduce == IterationSpace::Reduce::Max ? kernels::Reduction::Max : kernels::Reduction::Sum;
  // How many elements longer the members' `parts` are together than the rows of the `whole` that they make up.
  const auto padding = [&](const LocalTensor& parts, const LocalTensor& whole, int dim) {
    const int members = program_.stages[executable.stage.index()].mesh.axes[static_cast<std::size_t>(step.axis)].size();
    return members * AroundDim(parts.shape, dim).inner - AroundDim(whole.shape, dim).inner;
  };
  switch (step.kind) {
    case ReshardStep::Kind::AllReduce:
      return group.all_reduce(call, in.elements(), reduction);
    case ReshardStep::Kind::ReduceScatter: {
      if (step.ring) return take_own_block(out, call);
      const AroundDim part(out.shape, step.to_dim);
      return group.reduce_scatter(call, part.outer, part.inner, reduction, padding(out, in, step.to_dim));
    }
    case ReshardStep::Kind::AllGather: {
      if (step.ring) return take_own_block(in, call);
      const AroundDim part(in.shape, step.from_dim);
      return group.all_gather(call, part.outer, part.inner, padding(in, out, step.from_dim));
    }
    case ReshardStep::Kind::AllToAll:
      return group.all_to_all(call, in.shape, step.to_dim, step.from_dim);
    case ReshardStep::Kind::Slice: {
      const std::vector<std::int64_t> strides = kernels::row_major_strides(in.shape);
      const auto dim = static_cast<std::size_t>(step.to_dim);
      // The part begins `member` tiles into the dimension, or is padding; the strides stay those of the whole.
      const std::int64_t begin = std::min(in.shape[dim], member * out.shape[dim]);
      std::vector<std::int64_t> extent = out.shape;
      extent[dim] = std::min(in.shape[dim] - begin, out.shape[dim]);
      if (extent[dim] < out.shape[dim])
        backend_->clear(call.out, static_cast<std::size_t>(out.elements() * size_of(stored)));
      if (extent[dim] == 0) return;
      return backend_->copy_box({stored, extent,
                                 static_cast<const std::byte*>(call.in) + begin * strides[dim] * size_of(stored),
                                 strides, call.out, kernels::row_major_strides(out.shape)});
    }
  }
}

// --- Exchange ---

// All sends come before the first receive, and sending waits for nobody, so devices that exchange cannot block each
// other. Buffers of received values are allocated in any case, as check_program counts them from here; an Exchange that
// does not wait leaves the receiving to a later Await.
void DeviceRunner::exchange(const Instruction& instruction) {
  if (!instruction.sends.empty()) {
    const int begin = begin_span();
    for (const int transfer : instruction.sends) send(transfer);
    const Transfer& first = transfer_of(instruction.sends.front());
    end_span(Span::Kind::Send, program_.buffers[first.source_buffer.index()].stage, first.microbatch, begin);
  }
  for (const BufferId buffer : instruction.buffers) define_received(buffer, instruction.receives);
  if (instruction.waits) await(instruction.receives);
}

void DeviceRunner::await(const std::vector<int>& receives) {
  if (receives.empty()) return;
  const int begin = begin_span();
  for (const int transfer : receives) receive(transfer);
  const Transfer& first = transfer_of(receives.front());
  end_span(Span::Kind::Wait, program_.buffers[first.destination_buffer.index()].stage, first.microbatch, begin);
}

// Several transfers may bring parts of one buffer; the first of a microbatch allocates it. Persistent buffers always
// exist.
void DeviceRunner::define_received(BufferId buffer, const std::vector<int>& receives) {
  if (program_.buffers[buffer.index()].persistent) return;
  for (const int transfer : receives) {
    const Transfer& t = transfer_of(transfer);
    if (t.destination_buffer != buffer) continue;
    Value& received = value(buffer, t.microbatch);
    if (!received.block) received = {allocate(program_.buffers[buffer.index()].local), false};
  }
}

void DeviceRunner::send(int transfer) {
  at_transfer_ = transfer;
  const Transfer& t = transfer_of(transfer);
  const LocalTensor& local = program_.buffers[t.source_buffer.index()].local;
  context_.messages_of(transfer).send(*backend_, transfer, context_.backend.stored(local.dtype),
                                      defined(t.source_buffer, t.microbatch), {local.shape, t.source_offset, t.extent});
}

void DeviceRunner::receive(int transfer) {
  at_transfer_ = transfer;
  const Transfer& t = transfer_of(transfer);
  const LocalTensor& local = program_.buffers[t.destination_buffer.index()].local;
  context_.messages_of(transfer).receive(*backend_, transfer, context_.backend.stored(local.dtype),
                                         defined(t.destination_buffer, t.microbatch),
                                         {local.shape, t.destination_offset, t.extent}, t.accumulate);
}

}  // namespace meshwright
