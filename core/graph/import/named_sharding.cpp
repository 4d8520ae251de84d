// SPDX-License-Identifier: Apache-2.0
// Both place the tiles of a tensor on a mesh: by the names of the mesh's axes, or by a transposition of the devices'
// numbers.
#include "core/graph/import/named_sharding.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/names.h"

namespace meshwright {

namespace {

// A piece of an axis that is split by itself.
struct AxisPiece {
  std::size_t axis;
  std::int64_t begin, size;
  bool used = false;
};

class Tiling {
 public:
  explicit Tiling(const NamedSharding& sharding) : sharding_(sharding) {}

  Tiles make() {
    if (!sharding_.special.empty()) return {fmt::format("{{{}}}", sharding_.special), ""};
    if (find_cuts() && find_factors() && find_tiles()) write();
    return std::move(made_);
  }

 private:
  template <class... Args>
  bool refuse(fmt::format_string<Args...> why, Args&&... args) {
    made_.problem = fmt::format(why, std::forward<Args>(args)...);
    return false;
  }

  [[nodiscard]] std::optional<std::size_t> number_of(std::string_view name) const {
    for (std::size_t k = 0; k < sharding_.mesh.size(); ++k)
      if (sharding_.mesh[k].first == name) return k;
    return std::nullopt;
  }

  // Where a part of an axis begins or ends, it is cut.
  bool find_cuts() {
    for (const auto& [name, size] : sharding_.mesh) {
      cuts_.push_back({1, size});
      devices_ *= size;
      if (devices_ > NamedSharding::kMaxAxis) return refuse("a mesh has more than {} devices", NamedSharding::kMaxAxis);
    }
    dims_ = sharding_.dims;
    for (auto& dim : dims_)
      for (NamedSharding::SubAxis& axis : dim) {
        const auto k = number_of(axis.name);
        if (!k) return refuse("the mesh has no axis '{}'", printable(axis.name));
        const std::int64_t size = sharding_.mesh[*k].second;
        if (axis.size == 0) axis.size = size;
        if (axis.begin > size || axis.size > size / axis.begin || size % (axis.begin * axis.size) != 0)
          return refuse("a part of the mesh's axis '{}' does not divide it", printable(axis.name));
        cuts_[*k].insert({axis.begin, axis.begin * axis.size});
      }
    return true;
  }

  bool find_factors() {
    for (std::size_t k = 0; k < cuts_.size(); ++k)
      for (auto cut = cuts_[k].begin(); std::next(cut) != cuts_[k].end(); ++cut) {
        if (*std::next(cut) % *cut != 0)
          return refuse("parts of the mesh's axis '{}' overlap", printable(sharding_.mesh[k].first));
        factors_.push_back({k, *cut, *std::next(cut) / *cut});
      }
    return true;
  }

  bool find_tiles() {
    for (const auto& dim : dims_) {
      std::int64_t tile = 1;
      for (const NamedSharding::SubAxis& axis : dim) {
        tile *= axis.size;
        for (std::size_t f = 0; f < factors_.size(); ++f) {
          AxisPiece& factor = factors_[f];
          if (factor.axis != number_of(axis.name) || factor.begin < axis.begin ||
              factor.begin >= axis.begin * axis.size)
            continue;
          if (factor.used) return refuse("a sharding uses the axis '{}' twice", printable(axis.name));
          factor.used = true;
          order_.push_back(f);
        }
      }
      tiles_.push_back(std::to_string(tile));
    }
    return true;
  }

  void write() {
    if (order_.empty()) {
      made_.text = "{replicated}";
      return;
    }
    std::int64_t copies = 1;
    for (std::size_t f = 0; f < factors_.size(); ++f) {
      if (factors_[f].used) continue;
      order_.push_back(f);
      copies *= factors_[f].size;
    }
    const bool replicated = copies > 1 || tiles_.empty();
    if (replicated) tiles_.push_back(std::to_string(copies));
    const char* const rest = replicated ? " last_tile_dim_replicate" : "";
    const std::string devices = listed();
    if (!devices.empty()) {
      made_.text = fmt::format("{{devices=[{}]{}{}}}", join(tiles_, ","), devices, rest);
      return;
    }
    std::vector<std::string> sizes, order;
    for (const AxisPiece& factor : factors_) sizes.push_back(std::to_string(factor.size));
    for (const std::size_t f : order_) order.push_back(std::to_string(f));
    const bool turned = !std::is_sorted(order_.begin(), order_.end());
    made_.text = fmt::format("{{devices=[{}]<=[{}]{}{}}}", join(tiles_, ","), join(sizes, ","),
                             turned ? fmt::format("T({})", join(order, ",")) : "", rest);
  }

  // The devices in the order of the tiles, one by one; "": the mesh has them in their own order.
  [[nodiscard]] std::string listed() const {
    const std::vector<std::int64_t>& ids = sharding_.devices;
    const auto all = static_cast<std::size_t>(devices_);
    bool own = true;
    for (std::size_t i = 0; i < ids.size(); ++i) own = own && ids[i] == static_cast<std::int64_t>(i);
    if (own || ids.size() != all) return "";
    std::vector<std::int64_t> strides(factors_.size());
    std::int64_t stride = 1;
    for (std::size_t f = factors_.size(); f-- > 0; stride *= factors_[f].size) strides[f] = stride;
    std::vector<std::string> names;
    for (std::size_t tile = 0; tile < all; ++tile) {
      std::int64_t place = 0, left = static_cast<std::int64_t>(tile);
      for (std::size_t at = order_.size(); at-- > 0;) {
        place += left % factors_[order_[at]].size * strides[order_[at]];
        left /= factors_[order_[at]].size;
      }
      names.push_back(std::to_string(ids[static_cast<std::size_t>(place)]));
    }
    return join(names, ",");
  }

  const NamedSharding& sharding_;
  std::vector<std::vector<NamedSharding::SubAxis>> dims_ = {};
  std::int64_t devices_ = 1;
  std::vector<std::set<std::int64_t>> cuts_ = {};  // [axis]
  std::vector<AxisPiece> factors_ = {};            // in the order of the mesh
  std::vector<std::size_t> order_ = {};            // factors in the order of the tiles
  std::vector<std::string> tiles_ = {};
  Tiles made_ = {};
};

// Walks over HLO's text of one; every step returns false where the text is another.
class NamedText {
 public:
  explicit NamedText(std::string_view text) : rest_(text) {}

  std::optional<NamedSharding> read() {
    if (!accept("{")) return std::nullopt;
    if (accept("maximal_mesh[")) {
      made_.special = "maximal";
      return made_;
    }
    if (!accept("mesh[") || !mesh()) return std::nullopt;
    while (accept(",")) {
      if (accept("device_ids=")) {
        if (!devices()) return std::nullopt;
      } else if (accept("replicated={")) {
        (void)behind('}');
      } else if (accept("manual") || accept("unreduced")) {
        made_.special = "manual";
        return made_;
      } else if (accept("replicated") || accept("metadata=")) {
        return made_;
      } else if (!accept("[") || !dims()) {
        return std::nullopt;
      }
    }
    return accept("}") ? std::optional(made_) : std::nullopt;
  }
  [[nodiscard]] bool has_dims() const { return has_dims_; }

 private:
  bool accept(std::string_view text) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::string_view behind(char end) {
    const std::size_t at = std::min(rest_.find(end), rest_.size());
    const std::string_view piece = rest_.substr(0, at);
    rest_.remove_prefix(std::min(rest_.size(), at + 1));
    return piece;
  }
  // 'x' or x
  std::optional<std::string> name() {
    if (accept("'")) return std::string(behind('\''));
    if (accept("\"")) return std::string(behind('"'));
    (void)accept("");
    const std::size_t end = std::min(rest_.find_first_of("=,:?{}[] "), rest_.size());
    const std::string found(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return found.empty() ? std::nullopt : std::optional(found);
  }
  std::optional<std::int64_t> number() {
    (void)accept("");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || value < 0 || value > NamedSharding::kMaxAxis) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  std::optional<std::vector<std::int64_t>> numbers(std::string_view close) {
    std::vector<std::int64_t> all;
    while (!accept(close)) {
      const auto value = number();
      if (!value) return std::nullopt;
      all.push_back(*value);
      (void)accept(",");
    }
    return all;
  }

  bool mesh() {
    while (!accept("]")) {
      const auto axis = name();
      if (!axis || !accept("=")) return false;
      const auto size = number();
      if (!size || *size < 1 || made_.mesh.size() == NamedSharding::kMaxAxes) return false;
      made_.mesh.emplace_back(*axis, *size);
      (void)accept(",");
    }
    return true;
  }

  // (0,2,1,3), or ([2,2]T(1,0)) of their numbers in that order.
  bool devices() {
    if (!accept("(")) return false;
    if (!accept("[")) {
      const auto all = numbers(")");
      if (all) made_.devices = *all;
      return all.has_value();
    }
    const auto sizes = numbers("]");
    if (!sizes) return false;
    std::vector<std::int64_t> order;
    if (accept("T(")) {
      const auto turned = numbers(")");
      if (!turned) return false;
      order = *turned;
    }
    std::int64_t all = 1;
    for (const std::int64_t size : *sizes)
      if (size < 1 || __builtin_mul_overflow(all, size, &all) || all > NamedSharding::kMaxAxis) return false;
    if (order.empty())
      for (std::size_t k = 0; k < sizes->size(); ++k) order.push_back(static_cast<std::int64_t>(k));
    if (order.size() != sizes->size()) return false;
    std::vector<std::int64_t> strides(sizes->size());
    std::int64_t stride = 1;
    for (std::size_t k = sizes->size(); k-- > 0; stride *= (*sizes)[k]) strides[k] = stride;
    for (const std::int64_t k : order)
      if (k >= static_cast<std::int64_t>(sizes->size())) return false;
    for (std::int64_t i = 0; i < all; ++i) {
      std::int64_t left = i, device = 0;
      for (std::size_t at = order.size(); at-- > 0;) {
        const auto k = static_cast<std::size_t>(order[at]);
        device += left % (*sizes)[k] * strides[k];
        left /= (*sizes)[k];
      }
      made_.devices.push_back(device);
    }
    return accept(")");
  }

  bool dims() {
    has_dims_ = true;
    while (!accept("]")) {
      if (!accept("{")) return false;
      std::vector<NamedSharding::SubAxis> dim;
      while (!accept("}")) {
        if (accept("?")) continue;
        auto axis = name();
        if (!axis) return false;
        NamedSharding::SubAxis part{std::move(*axis)};
        if (accept(":(")) {
          const auto begin = number();
          if (!begin || !accept(")")) return false;
          const auto size = number();
          if (!size || *begin < 1 || *size < 1) return false;
          part.begin = *begin;
          part.size = *size;
        }
        dim.push_back(std::move(part));
        (void)accept(",");
      }
      made_.dims.push_back(std::move(dim));
      (void)accept(",");
    }
    return true;
  }

  std::string_view rest_;
  NamedSharding made_ = {};
  bool has_dims_ = false;
};

}  // namespace

Tiles tiles_of(const NamedSharding& sharding) { return Tiling(sharding).make(); }

bool is_named_sharding(std::string_view text) {
  return text.starts_with("{mesh[") || text.starts_with("{maximal_mesh[");
}

Tiles tiles_of_named(std::string_view text, std::size_t rank) {
  NamedText reader(text);
  const std::optional<NamedSharding> named = reader.read();
  if (!named) return {"", "its text is none of a sharding by names"};
  if (reader.has_dims() && named->dims.size() != rank) return {"", "its tiles are not those of its dimensions"};
  return tiles_of(*named);
}

}  // namespace meshwright
