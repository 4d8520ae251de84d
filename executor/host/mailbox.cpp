// SPDX-License-Identifier: Apache-2.0
#include "executor/host/mailbox.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

Mailbox::Mailbox(Abort& abort) : abort_(abort) { abort.watch(posted_); }

Mailbox::MessagePtr Mailbox::take_spare() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return std::make_unique<Message>();
  MessagePtr message = std::move(spare_.back());
  spare_.pop_back();
  return message;
}

Mailbox::MessagePtr Mailbox::find(int transfer) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const MessagePtr& message) { return message->transfer == transfer; });
  if (found == waiting_.end()) return nullptr;
  MessagePtr message = std::move(*found);
  waiting_.erase(found);
  return message;
}

Mailbox::MessagePtr Mailbox::take(int transfer) {
  for (;;) {
    const std::uint32_t seen = posted_.value();
    abort_.check();
    if (MessagePtr message = find(transfer)) return message;
    posted_.wait_beyond(seen);
  }
}

template <class T>
void Mailbox::send(int transfer, const T* array, const BoxView& box) {
  MessagePtr message = take_spare();
  message->transfer = transfer;
  message->data.resize(static_cast<std::size_t>(box.elements()) * sizeof(T));
  const std::vector<std::int64_t> strides = kernels::row_major_strides(box.shape);
  kernels::copy_tile<T>(box.extent, array + box.first(strides), strides, reinterpret_cast<T*>(message->data.data()),
                        kernels::row_major_strides(box.extent));
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(message));
  }
  posted_.advance();
}

template <class T>
void Mailbox::receive(int transfer, T* array, const BoxView& box, bool accumulate) {
  MessagePtr message = take(transfer);
  const auto elements = static_cast<std::size_t>(box.elements());
  MW_CHECK(message->data.size() == elements * sizeof(T), "transfer {} brought {} bytes, expected {}", transfer,
           message->data.size(), elements * sizeof(T));
  const T* data = reinterpret_cast<const T*>(message->data.data());
  const std::vector<std::int64_t> strides = kernels::row_major_strides(box.shape);
  T* first = array + box.first(strides);
  if (accumulate)
    kernels::add_tile<T>(box.extent, data, kernels::row_major_strides(box.extent), first, strides);
  else
    kernels::copy_tile<T>(box.extent, data, kernels::row_major_strides(box.extent), first, strides);
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(message));
}

#define MW_INSTANTIATE(T)                                        \
  template void Mailbox::send<T>(int, const T*, const BoxView&); \
  template void Mailbox::receive<T>(int, T*, const BoxView&, bool);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(std::int32_t)
#undef MW_INSTANTIATE

}  // namespace meshwright
