// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/run_part.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/errors.h"

namespace meshwright {

namespace {

class Writer {
 public:
  // Bytes as they are in memory: all processes run the same program on the same kind of machine.
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof(T));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size() * sizeof(T));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  void get(T& value) {
    copy(&value, sizeof(T));
  }
  template <class T>
  void get(std::vector<T>& values) {
    const std::size_t count = length(sizeof(T));
    // Ids have no default constructor: they begin as zero bytes.
    values.assign(count, std::bit_cast<T>(std::array<std::byte, sizeof(T)>{}));
    copy(values.data(), count * sizeof(T));
  }
  // The length of a list whose elements take at least `minimum` bytes each: a length that cannot be true is refused
  // here.
  [[nodiscard]] std::size_t length(std::size_t minimum) {
    std::uint64_t count = 0;
    get(count);
    MW_CHECK(count <= bytes_.size() / minimum, "a part of a run is cut short");
    return count;
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  void copy(void* to, std::size_t size) {
    MW_CHECK(size <= bytes_.size(), "a part of a run is cut short");
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> to_bytes(const RunPart& part) {
  Writer writer;
  writer.put(static_cast<std::uint64_t>(part.devices.size()));
  for (const RunPart::OfDevice& device : part.devices) {
    // In the order in which run_part_from_bytes reads.
    writer.put(device.device);
    writer.put(device.peak);
    writer.put(device.times);
    writer.put(device.spans);
  }
  writer.put(part.losses);
  writer.put(static_cast<std::uint64_t>(part.tiles.size()));
  for (const std::vector<double>& tile : part.tiles) writer.put(tile);
  writer.put(static_cast<std::uint64_t>(part.kept.size()));
  for (const KeptTile& tile : part.kept) {
    writer.put(tile.reader);
    writer.put(tile.device);
    writer.put(tile.microbatch);
    writer.put(tile.offset);
    writer.put(tile.extent);
    writer.put(tile.values);
  }
  writer.put(static_cast<std::uint64_t>(part.held.size()));
  for (const HeldTile& tile : part.held) {
    writer.put(tile.device);
    writer.put(tile.tensor);
    writer.put(tile.is_gradient);
    writer.put(tile.offset);
    writer.put(tile.extent);
    writer.put(tile.values);
  }
  writer.put(static_cast<std::uint64_t>(part.op_times.size()));
  for (const std::vector<OpTime>& executable : part.op_times) writer.put(executable);
  return writer.take();
}

RunPart run_part_from_bytes(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RunPart part;
  part.devices.resize(reader.length(sizeof(DeviceId)));
  for (RunPart::OfDevice& device : part.devices) {
    reader.get(device.device);
    reader.get(device.peak);
    reader.get(device.times);
    reader.get(device.spans);
  }
  reader.get(part.losses);
  part.tiles.resize(reader.length(sizeof(std::uint64_t)));
  for (std::vector<double>& tile : part.tiles) reader.get(tile);
  part.kept.resize(reader.length(sizeof(OpId)));
  for (KeptTile& tile : part.kept) {
    reader.get(tile.reader);
    reader.get(tile.device);
    reader.get(tile.microbatch);
    reader.get(tile.offset);
    reader.get(tile.extent);
    reader.get(tile.values);
  }
  part.held.resize(reader.length(sizeof(TensorId)));
  for (HeldTile& tile : part.held) {
    reader.get(tile.device);
    reader.get(tile.tensor);
    reader.get(tile.is_gradient);
    reader.get(tile.offset);
    reader.get(tile.extent);
    reader.get(tile.values);
  }
  part.op_times.resize(reader.length(sizeof(std::uint64_t)));
  for (std::vector<OpTime>& executable : part.op_times) reader.get(executable);
  MW_CHECK(reader.at_end(), "a part of a run is too long");
  return part;
}

}  // namespace meshwright
