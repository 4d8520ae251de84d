// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/file_sharding.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/named_sharding.h"
#include "core/graph/import/names.h"

namespace meshwright::primitive {

namespace {

constexpr std::int64_t kMaxDevices = std::int64_t{1} << 24;
constexpr std::size_t kMaxAxes = 8;

// "[2,4]" behind `mark`; nullopt: there is none.
std::optional<std::vector<std::int64_t>> list_behind(std::string_view text, std::string_view mark, char close) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + mark.size());
  text = text.substr(0, text.find(close));
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(text, ',')) {
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc{} || rest != part.data() + part.size() || number < 0 || number > kMaxDevices)
      return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<std::int64_t> product_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes)
    if (size < 1 || __builtin_mul_overflow(product, size, &product) || product > kMaxDevices) return std::nullopt;
  return product;
}

// Devices one by one, as the factors whose numbers count up like theirs: {0,4,1,5,2,6,3,7} is 4 steps of 1 (outer) of 2
// steps of 4. Empty: no factors do.
std::vector<MeshFactor> factors_of_list(const std::vector<std::int64_t>& devices) {
  const auto all = static_cast<std::int64_t>(devices.size());
  const auto device = [&](std::int64_t i) { return devices[static_cast<std::size_t>(i)]; };
  std::vector<MeshFactor> factors;  // innermost first
  std::vector<std::int64_t> strides;
  for (std::int64_t run = 1; run < all;) {
    const std::int64_t stride = device(run) - device(0);
    std::int64_t count = 2;
    while (count * run < all && device(count * run) - device(0) == count * stride) ++count;
    run *= count;
    if (all % run != 0 || stride < 1 || all % (stride * count) != 0) return {};
    factors.push_back({all / (stride * count), count});
    strides.push_back(stride);
  }
  for (std::int64_t i = 0; i < all; ++i) {
    std::int64_t left = i, expected = 0;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      expected += left % factors[f].size * strides[f];
      left /= factors[f].size;
    }
    if (device(i) != expected) return {};
  }
  if (factors.empty()) factors.push_back({1, 1});
  std::reverse(factors.begin(), factors.end());
  return factors;
}

// The devices in the order of the tiles, as factors; empty: they are in no order of a mesh, or the text is damaged.
std::vector<MeshFactor> order_of(std::string_view text, std::int64_t devices) {
  if (text.find("<=[") == std::string_view::npos) {
    // "{devices=[2,2]0,1,2,3}"
    const auto listed =
        list_behind(text.substr(std::min(text.find(']'), text.size())), "]", text.find(' ') < text.size() ? ' ' : '}');
    if (!listed || static_cast<std::int64_t>(listed->size()) != devices) return {};
    return factors_of_list(*listed);
  }
  const std::vector<std::int64_t> sizes = list_behind(text, "<=[", ']').value_or(std::vector<std::int64_t>{});
  if (product_of(sizes) != devices) return {};
  std::vector<MeshFactor> factors, ordered;
  std::int64_t begin = 1;
  for (const std::int64_t size : sizes) {
    factors.push_back({begin, size});
    begin *= size;
  }
  const auto turned = list_behind(text, "T(", ')');
  if (!turned) return text.find("T(") == std::string_view::npos ? factors : ordered;
  std::vector<bool> met(factors.size());
  for (const std::int64_t k : *turned) {
    if (k >= static_cast<std::int64_t>(factors.size()) || met[static_cast<std::size_t>(k)]) return {};
    met[static_cast<std::size_t>(k)] = true;
    ordered.push_back(factors[static_cast<std::size_t>(k)]);
  }
  return ordered.size() == factors.size() ? ordered : std::vector<MeshFactor>{};
}

// Without what HLO may append of where it comes from: "{replicated metadata={op_name="a"}}".
std::string without_metadata(const std::string& text) {
  const std::size_t at = text.find(" metadata={");
  return at == std::string::npos ? text : text.substr(0, at) + "}";
}

}  // namespace

FileSharding file_sharding(const std::string& given, std::size_t rank) {
  FileSharding made{given};
  std::string text = without_metadata(given);
  if (is_named_sharding(text)) {
    Tiles tiles = tiles_of_named(text, rank);
    made.problem = std::move(tiles.problem);
    text = std::move(tiles.text);
  }
  made.dims.resize(rank);
  const auto refused = [&](const char* why) {
    made.problem = why;
    return made;
  };
  if (!made.problem.empty()) return made;
  if (text == "{replicated}") return made;
  if (text.starts_with("{{")) return refused("it is that of a tuple of other elements");
  if (text.find("manual") != std::string::npos) return refused("its tiles are placed by hand");
  if (text.find("maximal") != std::string::npos) return refused("it is on one device alone");
  if (text.find("unreduced") != std::string::npos) return refused("its devices hold parts of sums");
  const auto tiles = list_behind(text, "devices=[", ']');
  const bool copies = text.find("last_tile_dim_replicate") != std::string::npos ||
                      text.find("last_tile_dims={replicated}") != std::string::npos;
  if (!tiles || tiles->size() != rank + (copies ? 1 : 0)) return refused("its tiles are not those of its dimensions");
  const auto devices = product_of(*tiles);
  if (!devices) return refused("its number of devices is out of range");
  std::vector<MeshFactor> order = order_of(text, *devices);
  if (order.empty()) return refused("its devices are in no order of a mesh");
  made.devices = *devices;
  std::size_t at = 0;
  for (std::size_t d = 0; d < tiles->size(); ++d)
    for (std::int64_t left = (*tiles)[d]; left > 1;) {
      while (at < order.size() && order[at].size == 1) ++at;
      if (at == order.size()) return refused("its tiles are more than its devices");
      MeshFactor& factor = order[at];
      const std::int64_t taken = std::min(left, factor.size);
      if (left % taken != 0 || factor.size % taken != 0) return refused("its tiles cut an axis of its mesh");
      made.cuts.insert({factor.begin, factor.begin * taken});
      if (d < rank) made.dims[d].push_back({factor.begin, taken});
      factor.begin *= taken;
      factor.size /= taken;
      left /= taken;
    }
  return made;
}

std::string element_sharding(const std::string& text, std::size_t elements, std::size_t element) {
  if (!text.starts_with("{{")) return text;
  std::vector<std::string> parts;
  int depth = 0;
  for (std::size_t at = 1, begin = 1; at < text.size(); ++at) {
    if (text[at] == '{' && depth++ == 0) begin = at;
    if (text[at] == '}' && depth > 0 && --depth == 0) parts.push_back(text.substr(begin, at + 1 - begin));
  }
  return parts.size() == elements ? parts[element] : text;
}

FileSharding without_dim(FileSharding sharding, std::size_t axis) {
  if (axis >= sharding.dims.size()) return sharding;
  if (!sharding.dims[axis].empty() && sharding.problem.empty())
    sharding.problem = "it splits the stack of layers, of which each has its own weight here";
  sharding.dims.erase(sharding.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return sharding;
}

namespace {

class Keeper {
 public:
  Keeper(const Module& module, const Axes& axes, const Graph& graph) : module_(module), axes_(axes), graph_(graph) {}

  KeptShardings keep() {
    find_mesh();
    for (std::size_t n = 0; n < module_.nodes.size(); ++n) {
      const Node& node = module_.nodes[n];
      const auto sharding = module_.shardings.find(node.name);
      if (node.kind != Kind::Parameter || sharding == module_.shardings.end()) continue;
      for (const Tensor& tensor : graph_.tensors())
        if (tensor.kind == TensorKind::Parameter && is_of(tensor.name, node.name))
          made_.tensors[tensor.name] = layout(tensor, static_cast<int>(n), sharding->second);
    }
    return std::move(made_);
  }

 private:
  // NAME, and NAME.0, NAME.1, ... of a weight that becomes several; not a layer's NAME.0 that stands for itself.
  [[nodiscard]] bool is_of(const std::string& tensor, const std::string& name) const {
    if (tensor == name) return true;
    if (!tensor.starts_with(name + ".") || module_.shardings.contains(tensor)) return false;
    return tensor.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
  }

  [[noreturn]] static void refuse(const std::string& name, const FileSharding& sharding, const std::string& why) {
    throw InputError(fmt::format("parameter '{}' has the sharding {} in the file, which cannot be kept: {}", name,
                                 printable(sharding.text), why));
  }

  void find_mesh();
  [[nodiscard]] std::vector<std::vector<int>> layout(const Tensor& tensor, int node,
                                                     const FileSharding& sharding) const;
  [[nodiscard]] int dim_of(const Tensor& tensor, const AxisList& axes, std::size_t axis) const;

  const Module& module_;
  const Axes& axes_;
  const Graph& graph_;
  std::vector<std::int64_t> begins_;  // of the mesh's axes
  KeptShardings made_;
};

void Keeper::find_mesh() {
  std::set<std::int64_t> cuts{1};
  std::int64_t devices = 0;
  for (const Node& node : module_.nodes) {
    const auto found = module_.shardings.find(node.name);
    if (node.kind != Kind::Parameter || found == module_.shardings.end()) continue;
    const FileSharding& sharding = found->second;
    if (!sharding.problem.empty()) refuse(node.name, sharding, sharding.problem);
    if (sharding.devices == 0) continue;
    if (devices == 0) devices = sharding.devices;
    if (devices != sharding.devices) refuse(node.name, sharding, fmt::format("others are for {} devices", devices));
    cuts.insert(sharding.cuts.begin(), sharding.cuts.end());
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut)
      if (*std::next(cut) % *cut != 0) refuse(node.name, sharding, "it and the others fit on no common mesh");
  }
  if (devices == 0) return;
  if (devices % *cuts.rbegin() == 0) cuts.insert(devices);
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    begins_.push_back(*cut);
    made_.mesh.push_back(*std::next(cut) / *cut);
  }
  require(made_.mesh.size() <= kMaxAxes, "the file's shardings need a mesh of {} axes; meshes have at most {}.",
          made_.mesh.size(), kMaxAxes);
}

// The dimension of the graph's tensor that axis `axis` of one of the file's dimensions is in: it has its name, or is
// all of that dimension's axes in one. -1: none has.
int Keeper::dim_of(const Tensor& tensor, const AxisList& axes, std::size_t axis) const {
  int found = -1;
  std::int64_t product = 1;
  for (const int each : axes) product *= axes_.size(each);
  for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
    const bool same = tensor.dims[d].name == axes_.name(axes[axis]) && tensor.dims[d].size == axes_.size(axes[axis]);
    const bool all = axis == 0 && axes.size() > 1 && tensor.dims[d].size == product;
    if (!same && !all) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

std::string names_of(const Tensor& tensor) {
  std::vector<std::string> names;
  for (const Dim& dim : tensor.dims) names.push_back(fmt::format("{} {}", dim.name, dim.size));
  return fmt::format("[{}]", join(names, ", "));
}

std::vector<std::vector<int>> Keeper::layout(const Tensor& tensor, int node, const FileSharding& sharding) const {
  const std::vector<AxisList> dims = axes_.of(node);
  std::vector<std::vector<int>> masks(tensor.dims.size());
  for (std::size_t d = 0; d < dims.size() && d < sharding.dims.size(); ++d) {
    std::size_t axis = 0;
    std::int64_t left = 0;  // of the tensor's dimension
    int at = -1;
    for (const MeshFactor& factor : sharding.dims[d])
      for (std::size_t k = 0; k < begins_.size(); ++k) {
        if (begins_[k] < factor.begin || begins_[k] >= factor.begin * factor.size) continue;
        const std::int64_t parts = made_.mesh[k];
        for (; at < 0 || left == 1; ++axis) {
          if (axis == dims[d].size())
            refuse(tensor.name, sharding, fmt::format("dimension {} has too few elements", d));
          at = dim_of(tensor, dims[d], axis);
          if (at < 0)
            refuse(tensor.name, sharding,
                   fmt::format("dimension {} is not among those of the graph's tensor {}", d, names_of(tensor)));
          left = tensor.dims[static_cast<std::size_t>(at)].size;
        }
        if (left % parts != 0)
          refuse(tensor.name, sharding,
                 fmt::format("{} does not divide '{}' of {}", parts, tensor.dims[static_cast<std::size_t>(at)].name,
                             tensor.dims[static_cast<std::size_t>(at)].size));
        std::vector<int>& mask = masks[static_cast<std::size_t>(at)];
        if (!mask.empty() && mask.back() > static_cast<int>(k))
          refuse(tensor.name, sharding, "an inner axis of the mesh is the outer one of a dimension");
        mask.push_back(static_cast<int>(k));
        left /= parts;
      }
  }
  return masks;
}

}  // namespace

KeptShardings kept_shardings(const Module& module, const Axes& axes, const Graph& graph) {
  return Keeper(module, axes, graph).keep();
}

}  // namespace meshwright::primitive
