// SPDX-License-Identifier: Apache-2.0
// A vector whose index is a type: an id of core/base/ids.h, or a plain int where positions are counted as int.
//
//   IndexedVector<DeviceId, Bytes> peak(devices, Bytes(0.0));   peak[device] += ...   // a StageId does not compile
//   IndexedVector<int, Seconds> time;                           time[layer]           // no cast to std::size_t
//
// Positions are checked in builds without NDEBUG. Everything else is std::vector's.
#pragma once

#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace meshwright {

template <class Index, class T>
class IndexedVector : private std::vector<T> {
  using Base = std::vector<T>;

 public:
  using typename Base::const_iterator;
  using typename Base::const_reference;
  using typename Base::iterator;
  using typename Base::reference;
  using typename Base::value_type;

  IndexedVector() = default;
  explicit IndexedVector(std::size_t count) : Base(count) {}
  IndexedVector(std::size_t count, const T& value) : Base(count, value) {}
  IndexedVector(std::initializer_list<T> values) : Base(values) {}
  explicit IndexedVector(std::vector<T> values) : Base(std::move(values)) {}

  [[nodiscard]] reference operator[](Index index) { return Base::operator[](position(index)); }
  [[nodiscard]] const_reference operator[](Index index) const { return Base::operator[](position(index)); }

  using Base::assign;
  using Base::back;
  using Base::begin;
  using Base::clear;
  using Base::data;
  using Base::emplace_back;
  using Base::empty;
  using Base::end;
  using Base::erase;
  using Base::front;
  using Base::insert;
  using Base::pop_back;
  using Base::push_back;
  using Base::rbegin;
  using Base::rend;
  using Base::reserve;
  using Base::resize;
  using Base::size;

  // The number of elements as positions are counted.
  [[nodiscard]] int count() const { return static_cast<int>(size()); }
  // For code that takes a std::vector.
  [[nodiscard]] const std::vector<T>& values() const& { return *this; }
  [[nodiscard]] std::vector<T>&& values() && { return std::move(*this); }

  friend bool operator==(const IndexedVector& a, const IndexedVector& b) { return a.values() == b.values(); }
  friend auto operator<=>(const IndexedVector& a, const IndexedVector& b) { return a.values() <=> b.values(); }

 private:
  [[nodiscard]] std::size_t position(Index index) const {
    std::size_t at = 0;
    if constexpr (std::is_integral_v<Index>)
      at = static_cast<std::size_t>(index);
    else
      at = index.index();
    assert(at < size());
    return at;
  }
};

}  // namespace meshwright
