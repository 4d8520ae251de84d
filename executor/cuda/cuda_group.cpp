// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_group.h"

#include <algorithm>

#include "core/base/errors.h"
#include "executor/base/exchange_shape.h"
#include "executor/base/padded_row.h"
#include "executor/base/segments.h"
#include "kernels/cuda/layout/tiles.h"

namespace meshwright {

namespace cuda = kernels::cuda;

namespace {

constexpr std::int64_t kLine = 64;  // elements: 128 bytes of the narrowest type

}  // namespace

// --- CudaGroup ---

CudaGroup::CudaGroup(int members, Abort& abort)
    : members_(static_cast<std::size_t>(members)), barrier_(members, abort) {}

CudaGroup::~CudaGroup() {
  for (const Member& member : members_)
    if (member.has_events)
      for (const cuda::Event event : {member.ready, member.reduced, member.done}) cuda::destroy(event);
}

void CudaGroup::meet(int member, CudaDevice& device, EventOf event) {
  cuda::record(of(member).*event, device.stream());
  // All events are recorded before any stream waits for one: a wait for an event that is not recorded would do nothing.
  device.let_others([&] { barrier_.arrive_and_wait(); });
  for (int other = 0; other < members(); ++other)
    if (other != member) cuda::wait(device.stream(), of(other).*event);
}

void CudaGroup::publish(CudaDevice& device, const CollectiveCall& call) {
  Member& own = of(call.member);
  if (!own.has_events) {
    device.use();
    own.ready = cuda::make_event(false);
    own.reduced = cuda::make_event(false);
    own.done = cuda::make_event(false);
    own.has_events = true;
  }
  own.in = call.in;
  own.out = call.out;
  // Blocks of this member's last collective may be handed out again: its stream runs what uses them in order.
  device.arena().begin_op();
  meet(call.member, device, &Member::ready);
}

template <class T>
void CudaGroup::reduce(CudaDevice& device, const std::vector<const T*>& parts, T* out, std::int64_t n,
                       kernels::Reduction reduction) {
  if (n == 0) return;
  const auto* table = static_cast<const T* const*>(device.arena().put(parts.data(), parts.size() * sizeof(const T*)));
  cuda::reduce<T>(device.stream(), table, static_cast<int>(parts.size()), out, n, reduction);
}

// Each member reduces one segment of all operands, in the order of members, into its own result, and then fetches the
// other segments: every element is summed in one place, so all members get the same bits.
void CudaGroup::all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) {
  CudaDevice& device = on_cuda(call.device);
  publish(device, call);
  with_cuda_element(call.dtype, [&]<class T>(T) {
    const std::int64_t begin = segment_begin(n, call.member, members(), kLine),
                       end = segment_begin(n, call.member + 1, members(), kLine);
    std::vector<const T*> parts;
    for (const Member& other : members_) parts.push_back(static_cast<const T*>(other.in) + begin);
    reduce<T>(device, parts, static_cast<T*>(call.out) + begin, end - begin, reduction);
    // Nobody fetches a segment before its owner has reduced it.
    meet(call.member, device, &Member::reduced);
    for (int step = 1; step < members(); ++step) {
      const int other = (call.member + step) % members();  // not all from the same one at once
      const std::int64_t from = segment_begin(n, other, members(), kLine),
                         to = segment_begin(n, other + 1, members(), kLine);
      if (from < to)
        cuda::copy(static_cast<T*>(call.out) + from, static_cast<const T*>(of(other).out) + from,
                   static_cast<std::size_t>(to - from) * sizeof(T), device.stream());
    }
  });
  // Nobody may overwrite its operand or its result while another member's stream still reads it.
  meet(call.member, device, &Member::done);
}

void CudaGroup::reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner,
                               kernels::Reduction reduction, std::int64_t padding) {
  CudaDevice& device = on_cuda(call.device);
  const PaddedRow row(members(), inner, padding);
  const std::int64_t count = row.count(call.member);
  publish(device, call);
  with_cuda_element(call.dtype, [&]<class T>(T) {
    const std::vector<std::int64_t> extent = {outer, count}, from = {row.length, 1}, to = {inner, 1};
    T* out = static_cast<T*>(call.out);
    std::vector<const T*> parts;
    for (const Member& other : members_) {
      const T* part = static_cast<const T*>(other.in) + row.begin(call.member);
      if (outer == 1) {
        // With one row, the member's part of each operand is contiguous already.
        parts.push_back(part);
        continue;
      }
      T* packed = device.arena().take_array<T>(outer * inner);
      if (count < inner) cuda::clear(packed, static_cast<std::size_t>(outer * inner) * sizeof(T), device.stream());
      if (count > 0) cuda::copy_tile<T>(device.stream(), extent, part, from, packed, to);
      parts.push_back(packed);
    }
    reduce<T>(device, parts, out, outer == 1 ? count : outer * inner, reduction);
    if (outer == 1 && count < inner)
      cuda::clear(out + count, static_cast<std::size_t>(inner - count) * sizeof(T), device.stream());
  });
  meet(call.member, device, &Member::done);
}

void CudaGroup::all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, std::int64_t padding) {
  CudaDevice& device = on_cuda(call.device);
  const PaddedRow row(members(), inner, padding);
  publish(device, call);
  with_cuda_element(call.dtype, [&]<class T>(T) {
    const std::vector<std::int64_t> from = {inner, 1}, to = {row.length, 1};
    for (int step = 0; step < members(); ++step) {
      // Each member begins with itself, so that the members do not all read from the same one at the same time.
      const int other = (call.member + step) % members();
      const std::vector<std::int64_t> extent = {outer, row.count(other)};
      if (row.count(other) > 0)
        cuda::copy_tile<T>(device.stream(), extent, static_cast<const T*>(of(other).in), from,
                           static_cast<T*>(call.out) + row.begin(other), to);
    }
  });
  meet(call.member, device, &Member::done);
}

void CudaGroup::all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                           int join_dim) {
  CudaDevice& device = on_cuda(call.device);
  const ExchangeShape shape(in_shape, split_dim, join_dim, members());
  publish(device, call);
  with_cuda_element(call.dtype, [&]<class T>(T) {
    for (int step = 0; step < members(); ++step) {
      const int other = (call.member + step) % members();
      cuda::copy_tile<T>(device.stream(), shape.tile, static_cast<const T*>(of(other).in) + call.member * shape.in_step,
                         shape.in_strides, static_cast<T*>(call.out) + other * shape.out_step, shape.out_strides);
    }
  });
  meet(call.member, device, &Member::done);
}

void CudaGroup::broadcast(const CollectiveCall& call, std::int64_t n, int root) {
  CudaDevice& device = on_cuda(call.device);
  // The members read the root's result, which publish() shows them as its `in`.
  publish(device, call.with(call.out, call.out));  // `in` is not read
  if (call.member != root && n > 0)
    cuda::copy(call.out, of(root).in, static_cast<std::size_t>(n * size_of(call.dtype)), device.stream());
  meet(call.member, device, &Member::done);
}

void CudaGroup::pass_on(const CollectiveCall& call, std::int64_t n, Around way) {
  CudaDevice& device = on_cuda(call.device);
  publish(device, call);
  const Member& from = of(previous_in_ring(call.member, members(), way));
  if (n > 0) cuda::copy(call.out, from.in, static_cast<std::size_t>(n * size_of(call.dtype)), device.stream());
  meet(call.member, device, &Member::done);
}

// --- CudaMessages ---

CudaMessages::CudaMessages(Abort& abort) : abort_(abort) { abort.watch(posted_); }

CudaMessages::~CudaMessages() {
  const auto destroy = [](const Message& message) {
    cuda::release(message.data);
    cuda::destroy(message.packed);
    cuda::destroy(message.unpacked);
  };
  for (const auto& message : waiting_) destroy(*message);
  for (const auto& message : spare_) destroy(*message);
}

std::unique_ptr<CudaMessages::Message> CudaMessages::take_spare(CudaDevice& device, std::size_t size) {
  // First fit. A buffer returns to the list when it is unpacked, so that a channel has about as many as are under way
  // at once.
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const auto& m) { return m->capacity >= size; });
    if (fits != spare_.end()) {
      std::unique_ptr<Message> found = std::move(*fits);
      spare_.erase(fits);
      return found;
    }
  }
  auto made = std::make_unique<Message>();
  made->data = static_cast<std::byte*>(device.allocate(size));
  made->capacity = size;
  made->gpu = device.gpu();
  made->packed = cuda::make_event(false);
  return made;
}

void CudaMessages::send(Device& any, int transfer, DType stored, const void* array, const BoxView& box) {
  CudaDevice& device = on_cuda(any);
  const auto size = static_cast<std::size_t>(box.elements() * size_of(stored));
  std::unique_ptr<Message> message = take_spare(device, size);
  message->transfer = transfer;
  message->size = size;
  // The receiver may still be reading this buffer on the device. An event of another epoch needs no wait: streams are
  // idle when an epoch ends.
  if (message->was_unpacked && message->epoch == device.epoch()) cuda::wait(device.stream(), message->unpacked);
  const std::vector<std::int64_t> strides = kernels::row_major_strides(box.shape);
  const std::int64_t first = box.first(strides);
  with_cuda_element(stored, [&]<class T>(T) {
    cuda::copy_tile<T>(device.stream(), box.extent, static_cast<const T*>(array) + first, strides,
                       reinterpret_cast<T*>(message->data), kernels::row_major_strides(box.extent));
  });
  // The receiver's stream waits for this event; no host thread does.
  cuda::record(message->packed, device.stream());
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(message));
  }
  posted_.advance();
}

std::unique_ptr<CudaMessages::Message> CudaMessages::take(CudaDevice& device, int transfer) {
  for (;;) {
    // Read before the list is searched: a message posted in between changes the value, and wait_beyond returns at once.
    const std::uint32_t seen = posted_.value();
    abort_.check();
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                      [&](const auto& message) { return message->transfer == transfer; });
      if (found != waiting_.end()) {
        std::unique_ptr<Message> message = std::move(*found);
        waiting_.erase(found);
        return message;
      }
    }
    // In a capture the sender may need this thread's turn before it can post the message.
    device.let_others([&] { posted_.wait_beyond(seen); });
  }
}

void CudaMessages::receive(Device& any, int transfer, DType stored, void* array, const BoxView& box, bool accumulate) {
  CudaDevice& device = on_cuda(any);
  std::unique_ptr<Message> message = take(device, transfer);
  const auto size = static_cast<std::size_t>(box.elements() * size_of(stored));
  MW_CHECK(message->size == size, "transfer {} brought {} bytes, expected {}", transfer, message->size, size);
  if (!message->was_unpacked) {
    device.use();
    message->unpacked = cuda::make_event(false);
    message->was_unpacked = true;
  }
  cuda::wait(device.stream(), message->packed);
  device.arena().begin_op();
  const std::byte* packed = message->data;
  if (message->gpu != device.gpu()) {
    // One large copy between GPUs, then strided accesses in local memory.
    auto* fetched = static_cast<std::byte*>(device.arena().take(size));
    cuda::copy(fetched, packed, size, device.stream());
    packed = fetched;
  }
  const std::vector<std::int64_t> strides = kernels::row_major_strides(box.shape);
  const std::int64_t first = box.first(strides);
  with_cuda_element(stored, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(packed);
    T* to = static_cast<T*>(array) + first;
    const std::vector<std::int64_t> packed_strides = kernels::row_major_strides(box.extent);
    if (accumulate)
      cuda::add_tile<T>(device.stream(), box.extent, from, packed_strides, to, strides);
    else
      cuda::copy_tile<T>(device.stream(), box.extent, from, packed_strides, to, strides);
  });
  cuda::record(message->unpacked, device.stream());
  message->epoch = device.epoch();
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(message));
}

}  // namespace meshwright
