// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/composite_group.h"

#include <utility>

#include "core/base/errors.h"
#include "executor/base/padded_row.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

namespace {

// Scratch memory of one member for one collective: blocks of equally many elements.
class Blocks {
 public:
  Blocks(const CollectiveCall& call, std::int64_t count, std::int64_t unit)
      : size_(static_cast<std::size_t>(unit * size_of(call.dtype))),
        taken_(call.device.scratch(), static_cast<std::size_t>(count) * size_) {}
  [[nodiscard]] std::byte* at(std::int64_t block) const {
    return taken_.data() + static_cast<std::size_t>(block) * size_;
  }
  [[nodiscard]] std::size_t size() const { return size_; }  // of one, in bytes

 private:
  const std::size_t size_;
  const Scratch::Taken taken_;
};

// An array as equal pieces, side by side along one dimension; `padding`: of that dimension, how far the pieces are
// together longer than the array.
class Pieces {
 public:
  Pieces(const CollectiveCall& call, std::vector<std::int64_t> piece, std::size_t dim, int count,
         std::int64_t padding = 0)
      : device_(call.device),
        dtype_(call.dtype),
        piece_(std::move(piece)),
        packed_(kernels::row_major_strides(piece_)),
        dim_(dim),
        row_(count, piece_[dim], padding) {
    std::vector<std::int64_t> whole = piece_;
    whole[dim] = row_.length;
    strides_ = kernels::row_major_strides(whole);
  }
  // What is padding of a piece becomes zeros.
  void pack(const void* array, int piece, void* to) const {
    const std::vector<std::int64_t> extent = extent_of(piece);
    if (extent[dim_] < piece_[dim_]) device_.clear(to, bytes(piece_[0] * packed_[0]));
    if (extent[dim_] > 0)
      device_.copy_box({dtype_, extent, static_cast<const std::byte*>(array) + apart(piece), strides_, to, packed_});
  }
  void unpack(const void* from, void* array, int piece) const {
    const std::vector<std::int64_t> extent = extent_of(piece);
    if (extent[dim_] > 0)
      device_.copy_box({dtype_, extent, from, packed_, static_cast<std::byte*>(array) + apart(piece), strides_});
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> extent_of(int piece) const {
    std::vector<std::int64_t> extent = piece_;
    extent[dim_] = row_.count(piece);
    return extent;
  }
  [[nodiscard]] std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(dtype_));
  }
  // Where a piece begins in the array, in bytes.
  [[nodiscard]] std::size_t apart(int piece) const { return bytes(row_.begin(piece) * strides_[dim_]); }

  Device& device_;
  const DType dtype_;
  const std::vector<std::int64_t> piece_, packed_;  // shape, strides
  const std::size_t dim_;
  const PaddedRow row_;
  std::vector<std::int64_t> strides_;  // of the array
};

}  // namespace

std::vector<int> run_lengths(std::span<const int> places) {
  std::vector<int> lengths;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (i > 0 && places[i] == places[i - 1])
      ++lengths.back();
    else
      lengths.push_back(1);
  return lengths;
}

CompositeGroup::CompositeGroup(std::vector<std::shared_ptr<Group>> locals, std::unique_ptr<Across> leaders)
    : locals_(std::move(locals)), leaders_(std::move(leaders)) {
  MW_CHECK(locals_.count() == leaders_->parts(), "{} parts with {} leaders", locals_.size(), leaders_->parts());
}

std::pair<int, int> CompositeGroup::split(int member) const {
  int part = 0;
  while (member >= leaders_->before(part + 1)) ++part;
  return {part, member - leaders_->before(part)};
}

CompositeGroup::Place CompositeGroup::place_of(int member) const {
  const auto [part, local] = split(member);
  Group* group = locals_[part].get();
  MW_CHECK((group == nullptr) == (leaders_->weight(part) == 1), "member {} is in part {}, which is not here", member,
           part);
  return {part, local, group};
}

void CompositeGroup::all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) {
  const auto [part, local, group] = place_of(call.member);
  if (group == nullptr) return leaders_->all_reduce(call.as(part), n, reduction);
  // Inside the part, between leaders, back into the part. The leader alone has the sum of all parts; the broadcast
  // gives its bits to the other members.
  group->all_reduce(call.as(local), n, reduction);
  if (local == 0) leaders_->all_reduce(call.as(part).with(call.out, call.out), n, reduction);
  group->broadcast(call.as(local), n, 0);
}

// The input is packed first, so that the elements for one member, and for one part, are contiguous.
void CompositeGroup::reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner,
                                    kernels::Reduction reduction, std::int64_t padding) {
  const auto [part, local, group] = place_of(call.member);
  const std::int64_t unit = outer * inner;
  const bool packs = outer > 1 || padding > 0;
  // A part of one member, whose pieces are contiguous: the leaders' collective is all there is to do.
  if (group == nullptr && !packs) return leaders_->reduce_scatter(call.as(part), unit, reduction);
  const Blocks whole(call, members(), unit);
  if (packs) {
    const Pieces pieces(call, {outer, inner}, 1, members(), padding);
    for (int to = 0; to < members(); ++to) pieces.pack(call.in, to, whole.at(to));
  }
  const void* packed = packs ? whole.at(0) : call.in;
  if (group == nullptr) return leaders_->reduce_scatter(call.as(part).with(packed, call.out), unit, reduction);
  // Every member gets the part's whole sum, of which only the leader's copy is used.
  group->all_reduce(call.as(local).with(packed, whole.at(0)), members() * unit, reduction);
  const int size = leaders_->weight(part);
  const Blocks own(call, size, unit);
  if (local == 0) leaders_->reduce_scatter(call.as(part).with(whole.at(0), own.at(0)), unit, reduction);
  // From the leader: each member then takes its own unit out of the part's result.
  group->broadcast(call.as(local).with(own.at(0), own.at(0)), size * unit, 0);
  call.device.copy(call.out, own.at(local), own.size());
}

void CompositeGroup::all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner,
                                std::int64_t padding) {
  const auto [part, local, group] = place_of(call.member);
  // With outer = 1 and no padding the pieces arrive in `out` as they belong there: nothing is packed.
  const std::int64_t unit = outer * inner;
  const bool packs = outer > 1 || padding > 0;
  const Blocks whole(call, packs ? members() : 0, unit);
  void* all = packs ? whole.at(0) : call.out;
  if (group == nullptr) {
    leaders_->all_gather(call.as(part).with(call.in, all), unit);
  } else {
    const Blocks own(call, leaders_->weight(part), unit);
    group->all_gather(call.as(local).with(call.in, own.at(0)), 1, unit);
    if (local == 0) leaders_->all_gather(call.as(part).with(own.at(0), all), unit);
    group->broadcast(call.as(local).with(all, all), members() * unit, 0);
  }
  if (!packs) return;
  const Pieces pieces(call, {outer, inner}, 1, members(), padding);
  for (int from = 0; from < members(); ++from) pieces.unpack(whole.at(from), call.out, from);
}

// One part sends to another, for each of its members in order, that member's pieces for each member of the other part.
void CompositeGroup::all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                                int join_dim) {
  const auto [part, local, group] = place_of(call.member);
  std::vector<std::int64_t> piece(in_shape.begin(), in_shape.end());
  piece[static_cast<std::size_t>(split_dim)] /= members();
  std::int64_t unit = 1;
  for (const std::int64_t size : piece) unit *= size;
  const int size = leaders_->weight(part);

  const Blocks own(call, members(), unit);
  const Pieces leaving(call, piece, static_cast<std::size_t>(split_dim), members());
  for (int to = 0; to < members(); ++to) leaving.pack(call.in, to, own.at(to));
  const Blocks coming(call, members() * size, unit);
  if (group == nullptr) {
    leaders_->all_to_all(call.as(part).with(own.at(0), coming.at(0)), unit);
  } else {
    // What the leader sends to part `to` has to be contiguous: for each member here, its pieces for that part.
    const Blocks together(call, members() * size, unit);
    for (int to = 0; to < leaders_->parts(); ++to)
      group->all_gather(call.as(local).with(own.at(leaders_->before(to)), together.at(size * leaders_->before(to))), 1,
                        leaders_->weight(to) * unit);
    if (local == 0) leaders_->all_to_all(call.as(part).with(together.at(0), coming.at(0)), unit);
    group->broadcast(call.as(local).with(coming.at(0), coming.at(0)), members() * size * unit, 0);
  }
  const Pieces arriving(call, piece, static_cast<std::size_t>(join_dim), members());
  // What comes from a part is ordered by sender, then by receiver in this part: own pieces are `size` blocks apart.
  for (int from = 0; from < members(); ++from) arriving.unpack(coming.at(from * size + local), call.out, from);
}

void CompositeGroup::broadcast(const CollectiveCall& call, std::int64_t n, int root) {
  const auto [part, local, group] = place_of(call.member);
  const auto [root_part, root_local] = split(root);
  // To the root's own leader first, if the root is not the leader: only leaders can send to other parts.
  if (group != nullptr && part == root_part) group->broadcast(call.as(local), n, root_local);
  if (local == 0) leaders_->broadcast(call.as(part), n, root_part);
  if (group != nullptr && part != root_part) group->broadcast(call.as(local), n, 0);
}

// Forwards, a part's last member gives its elements to its leader, as if the part were a ring of its own, and the
// leader passes them on; backwards the leader passes on its own, and gives what comes to the part's last member.
void CompositeGroup::pass_on(const CollectiveCall& call, std::int64_t n, Around way) {
  const auto [part, local, group] = place_of(call.member);
  if (group == nullptr) return leaders_->pass_on(call.as(part), n, way);
  if (local != 0) return group->pass_on(call.as(local), n, way);
  const Blocks passed(call, 1, n);
  if (way == Around::Forwards) {
    group->pass_on(call.as(local).with(call.in, passed.at(0)), n, way);
    leaders_->pass_on(call.as(part).with(passed.at(0), call.out), n, way);
  } else {
    leaders_->pass_on(call.as(part).with(call.in, passed.at(0)), n, way);
    group->pass_on(call.as(local).with(passed.at(0), call.out), n, way);
  }
}

}  // namespace meshwright
