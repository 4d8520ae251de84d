// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/run_part.h"

#include <array>
#include <bit>
#include <concepts>
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

// `T` or `const T`: written or read.
template <class Value, class T>
concept AsConst = std::same_as<std::remove_const_t<Value>, T>;

// The members of each struct, in the order in which they are written and read.
template <AsConst<RunPart::OfDevice> Device, class Action>
void on_members(Device& device, Action action) {
  action(device.device);
  action(device.peak);
  action(device.on_gpu);
  action(device.memory.workspace);
  action(device.memory.in_use);
  action(device.times);
  action(device.spans);
}
template <AsConst<KeptTile> Tile, class Action>
void on_members(Tile& tile, Action action) {
  action(tile.reader);
  action(tile.device);
  action(tile.microbatch);
  action(tile.offset);
  action(tile.extent);
  action(tile.values);
}
template <AsConst<HeldTile> Tile, class Action>
void on_members(Tile& tile, Action action) {
  action(tile.device);
  action(tile.tensor);
  action(tile.is_gradient);
  action(tile.offset);
  action(tile.extent);
  action(tile.values);
}
// A list of numbers.
template <class Values, class Action>
void on_members(Values& values, Action action) {
  action(values);
}

template <class T>
void put_list(Writer& writer, const std::vector<T>& list) {
  writer.put(static_cast<std::uint64_t>(list.size()));
  for (const T& item : list) on_members(item, [&](const auto& member) { writer.put(member); });
}
// `minimum`: bytes of an item.
template <class T>
void get_list(Reader& reader, std::vector<T>& list, std::size_t minimum) {
  list.resize(reader.length(minimum));
  for (T& item : list) on_members(item, [&](auto& member) { reader.get(member); });
}

}  // namespace

std::vector<std::byte> to_bytes(const RunPart& part) {
  Writer writer;
  put_list(writer, part.devices);
  writer.put(part.losses);
  put_list(writer, part.tiles);
  put_list(writer, part.kept);
  put_list(writer, part.held);
  put_list(writer, part.op_times);
  return writer.take();
}

RunPart run_part_from_bytes(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RunPart part;
  get_list(reader, part.devices, sizeof(DeviceId));
  reader.get(part.losses);
  get_list(reader, part.tiles, sizeof(std::uint64_t));
  get_list(reader, part.kept, sizeof(OpId));
  get_list(reader, part.held, sizeof(TensorId));
  get_list(reader, part.op_times, sizeof(std::uint64_t));
  MW_CHECK(reader.at_end(), "a part of a run is too long");
  return part;
}

}  // namespace meshwright
