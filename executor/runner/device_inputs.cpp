// SPDX-License-Identifier: Apache-2.0
// DeviceRunner's part in making the inputs of a step.
#include <algorithm>
#include <thread>

#include "core/base/parallel.h"
#include "executor/base/element_type.h"
#include "executor/base/tile_place.h"
#include "executor/runner/device_runner.h"

namespace meshwright {

namespace {

// A thread of the host makes so many elements of an input at once: with one thread for all of it, a batch of images
// would take longer than a GPU's step on it.
constexpr std::int64_t kElementsOfPart = std::int64_t{1} << 18;

}  // namespace

void DeviceRunner::make_input(const Input& input, int step, void* numbers) const {
  context_.initial_values.fill_input(
      context_.graph.tensor(input.local->tensor), context_.options.first_step + step, input.microbatch.value,
      tile_place(program_, context_.graph, input.stage, device_, *input.local).offset, input.local->shape, numbers);
}
void DeviceRunner::make_input(const Input& input, int step, std::vector<std::byte>& bytes) const {
  const LocalTensor& local = *input.local;
  const DType made = computed_type(local.dtype, context_.options.precision),
              stored = context_.backend.stored(local.dtype);
  const std::int64_t samples = local.shape.empty() ? 1 : local.shape[0],
                     of_sample = local.elements() / std::max<std::int64_t>(samples, 1);
  const std::int64_t of_part = std::max<std::int64_t>(1, kElementsOfPart / std::max<std::int64_t>(of_sample, 1));
  const std::vector<std::int64_t> offset = tile_place(program_, context_.graph, input.stage, device_, local).offset;
  bytes.resize(static_cast<std::size_t>(local.elements() * size_of(stored)));
  for_each_index(static_cast<std::size_t>((samples + of_part - 1) / of_part), host_threads(), [&](std::size_t part) {
    const std::int64_t begin = static_cast<std::int64_t>(part) * of_part, count = std::min(of_part, samples - begin);
    std::vector<std::int64_t> from = offset, shape = local.shape;
    if (!shape.empty()) {
      from[0] += begin;
      shape[0] = count;
    }
    std::byte* const out = bytes.data() + begin * of_sample * size_of(stored);
    std::vector<std::byte> numbers(made == stored ? 0 : static_cast<std::size_t>(count * of_sample * size_of(made)));
    void* const into = made == stored ? static_cast<void*>(out) : numbers.data();
    context_.initial_values.fill_input(context_.graph.tensor(local.tensor), context_.options.first_step + step,
                                       input.microbatch.value, from, shape, into);
    if (made != stored) convert(numbers.data(), made, count * of_sample, stored, out);
  });
}

int DeviceRunner::host_threads() const {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, threads / static_cast<int>(program_.devices.size()));
}

}  // namespace meshwright
