// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/tensors/hf_tensors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

bool is_digit(char c) { return '0' <= c && c <= '9'; }

// Whether `name` is as `pattern` says; `number`: what '#' stands for, in digits; `second`: what '?' does.
bool matches(std::string_view pattern, std::string_view name, std::string& number, std::string& second) {
  std::size_t at = 0;
  for (std::size_t p = 0; p < pattern.size(); ++p) {
    if (pattern[p] == '*' && p + 1 == pattern.size()) return true;
    if (pattern[p] != '#' && pattern[p] != '?') {
      if (at >= name.size() || name[at] != pattern[p]) return false;
      ++at;
      continue;
    }
    const std::size_t begin = at;
    while (at < name.size() && is_digit(name[at])) ++at;
    if (at == begin) return false;
    (pattern[p] == '#' ? number : second) = name.substr(begin, at - begin);
  }
  return at == name.size();
}

std::string with(std::string text, std::string_view what, const std::string& value) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + value.size()))
    text.replace(at, what.size(), value);
  return text;
}

// A layout, parsed.
struct Factor {
  std::string dim;  // "1": none of ours
  bool part = false, interleaved = false, rotated_alone = false, halves = false, rotated_last = false,
       second_half_first = false;
  std::int64_t runs = 0;  // if not 0: the dimension lies in so many runs, of which this is the number or a place in one
  bool number_of_run = false;
};
struct FileDim {
  std::vector<Factor> factors;
  bool part = false;
};
struct Layout {
  std::vector<FileDim> dims;
  double shift = 0.0;
  bool whole = false;
};

Factor factor_from(std::string_view text) {
  Factor factor;
  for (; !text.empty() && std::string_view("*~^|><").find(text.front()) != std::string_view::npos;
       text.remove_prefix(1)) {
    const char mark = text.front();
    factor.part |= mark == '*';
    factor.halves |= mark == '|';
    factor.rotated_last |= mark == '>';
    factor.second_half_first |= mark == '<';
    factor.rotated_alone |= mark == '^';
    factor.interleaved |= mark == '~' || mark == '^';
  }
  factor.dim = text;
  if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::string before(text.substr(0, slash)), behind(text.substr(slash + 1));
    factor.number_of_run = is_digit(before.front());
    factor.dim = factor.number_of_run ? behind : before;
    factor.runs = std::stoll(factor.number_of_run ? before : behind);
  }
  return factor;
}

Layout layout_from(const std::string& text) {
  Layout layout;
  bool inside = false;
  for (std::string word : split(text, ' ')) {
    if (word == "+1") {
      layout.shift = 1.0;
      continue;
    }
    if (word == "whole") {
      layout.whole = true;
      continue;
    }
    if (!inside) layout.dims.emplace_back();
    FileDim& dim = layout.dims.back();
    if (word.starts_with("*(")) {
      dim.part = true;
      word.erase(0, 1);
    }
    if (word.starts_with("(")) {
      inside = true;
      word.erase(0, 1);
    }
    const bool closes = word.ends_with(")");
    if (closes) word.pop_back();
    dim.factors.push_back(factor_from(word));
    if (closes) inside = false;
  }
  return layout;
}

// A parameter that lies in a tensor of the files: one of the tensor's parts.
struct Part {
  const Tensor* parameter;
  std::size_t row;
  Layout layout;
};

// The dimension "name" or "@2"; none: the parameter lacks it.
std::optional<std::size_t> position_in(const Tensor& tensor, const std::string& dim) {
  for (std::size_t d = 0; d < tensor.dims.size(); ++d)
    if (dim.starts_with("@") ? dim == fmt::format("@{}", d) : tensor.dims[d].name == dim) return d;
  return std::nullopt;
}

// Whether the parameter has all dimensions that the layout names.
bool fits(const Layout& layout, const Tensor& tensor) {
  for (const FileDim& dim : layout.dims)
    for (const Factor& factor : dim.factors)
      if (factor.dim != "1") {
        const auto d = position_in(tensor, factor.dim);
        if (!d || (factor.runs > 0 && tensor.dims[*d].size % factor.runs != 0)) return false;
      }
  return true;
}

std::int64_t size_in(const Tensor& tensor, const std::string& dim) {
  return dim == "1" ? 1 : tensor.dims[position_in(tensor, dim).value()].size;
}
std::int64_t size_in(const Tensor& tensor, const Factor& factor) {
  const std::int64_t size = size_in(tensor, factor.dim);
  return factor.runs == 0 ? size : factor.number_of_run ? factor.runs : size / factor.runs;
}

bool holds(const std::string& beside, const std::string& number, const std::set<std::string>& names) {
  return beside.empty() || names.contains(with(beside, "#", number));
}

std::int64_t size_of_factors(const Tensor& tensor, const FileDim& dim) {
  std::int64_t product = 1;
  for (const Factor& factor : dim.factors) product *= size_in(tensor, factor);
  return product;
}

// What the starred factor or dimension of each part counts.
std::int64_t starred_size(const Part& part) {
  for (const FileDim& dim : part.layout.dims) {
    if (dim.part) return size_of_factors(*part.parameter, dim);
    std::int64_t product = 0;
    for (const Factor& factor : dim.factors)
      if (factor.part) product = std::max<std::int64_t>(product, 1) * size_in(*part.parameter, factor);
    if (product > 0) return product;
  }
  return 0;
}

// Along a star: what the parts of a tensor count, and those before this one.
struct Along {
  std::int64_t before, total;
};

// The place of `part`. `rotated`: how many dimensions of a head are, 0: all.
TensorPiece piece_of(const Part& part, Along along, std::int64_t rotated) {
  const Tensor& tensor = *part.parameter;
  TensorPiece piece;
  piece.whole_numbers = part.layout.whole;
  piece.dims.assign(tensor.dims.size(), {0, false});
  std::int64_t stride = 1;
  for (auto dim = part.layout.dims.rbegin(); dim != part.layout.dims.rend(); ++dim) {
    const std::int64_t outer = stride;
    std::optional<std::int64_t> of_part;  // the stride of the innermost starred factor
    for (auto factor = dim->factors.rbegin(); factor != dim->factors.rend(); ++factor) {
      if (factor->dim != "1") {
        TensorPiece::DimWalk& walk = piece.dims[position_in(tensor, factor->dim).value()];
        if (factor->number_of_run)
          walk.run_stride = stride;
        else
          walk = {stride,
                  factor->interleaved,
                  factor->rotated_alone ? rotated : 0,
                  factor->halves ? rotated : 0,
                  factor->second_half_first ? size_in(tensor, *factor) / 2
                  : factor->rotated_last    ? rotated
                                            : 0,
                  factor->runs > 0 ? size_in(tensor, *factor) : 0};
      }
      if (factor->part && !of_part) {
        of_part = stride;
        piece.first += along.before * stride;
      }
      stride *= size_in(tensor, *factor);
      const auto next = std::next(factor);
      if (factor->part && (next == dim->factors.rend() || !next->part)) stride = *of_part * along.total;
    }
    if (dim->part) {
      piece.first += along.before * outer;
      stride = outer * along.total;
    }
    piece.shape.insert(piece.shape.begin(), stride / outer);
  }
  return piece;
}

// The dimension that a tensor's name has an index of: "expert" of "experts.{expert}.w1.weight".
std::string dim_in_name(const std::string& name) {
  const std::size_t begin = name.find('{'), end = name.find('}');
  return begin == std::string::npos ? "" : name.substr(begin + 1, end - begin - 1);
}

std::vector<TensorPiece> pieces_of(const std::string& name, const Part& part, Along along, std::int64_t rotated) {
  TensorPiece piece = piece_of(part, along, rotated);
  const std::string dim = dim_in_name(name);
  if (dim.empty()) {
    piece.name = name;
    return {piece};
  }
  std::vector<TensorPiece> pieces;
  piece.dim_of_index = position_in(*part.parameter, dim);
  for (; piece.index < size_in(*part.parameter, dim); ++piece.index) {
    piece.name = with(name, "{" + dim + "}", fmt::format("{}", piece.index));
    pieces.push_back(piece);
  }
  return pieces;
}

// How many dimensions of a head are rotated where not all are; 0: all. By block, which may differ; "": in all of them.
std::map<std::string, std::int64_t> rotated_dims(const Graph& graph) {
  std::map<std::string, std::int64_t> dims;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::Rotary)
      for (const std::string& block : {op.name.substr(0, op.name.find('.')), std::string()})
        dims[block] = std::max(dims[block], op.attributes.rotary_dims);
  return dims;
}

// The dimensions that the parameter's block rotates; where it has none of its own, those of the whole model.
std::int64_t rotated_in(const std::map<std::string, std::int64_t>& dims, const std::string& parameter) {
  for (const std::string& block : {parameter.substr(0, parameter.find('.')), std::string()})
    if (const auto found = dims.find(block); found != dims.end()) return found->second;
  return 0;
}

// Each parameter in a tensor of its name and shape.
std::vector<ParameterPlace> own_places(const Graph& graph) {
  std::vector<ParameterPlace> places;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    TensorPiece piece{tensor.name, {}, 0, {}};
    std::int64_t stride = tensor.elements();
    for (const Dim& dim : tensor.dims) {
      stride /= dim.size;
      piece.shape.push_back(dim.size);
      piece.dims.push_back({stride, false});
    }
    places.push_back({tensor.id, 0.0, {piece}});
  }
  return places;
}

}  // namespace

bool HfTensorNames::knows(const std::string& model_type) {
  for (const HfTensorTable& table : hf_tensor_tables())
    if (std::find(table.model_types.begin(), table.model_types.end(), model_type) != table.model_types.end())
      return true;
  return false;
}

HfTensorNames::HfTensorNames(const std::string& model_type, const std::string& place) : model_type_(model_type) {
  std::vector<std::string> known;
  table_ = nullptr;
  if (model_type.empty()) return;
  for (const HfTensorTable& table : hf_tensor_tables())
    for (const std::string& type : table.model_types) {
      known.push_back(type);
      if (type == model_type) table_ = &table;
    }
  std::sort(known.begin(), known.end());
  require(table_ != nullptr, "{}: the weights of models of the type '{}' are not read or written; those of {} are.",
          place, model_type, join(known, ", "));
  prefix_ = table_->prefix;
}

std::vector<ParameterPlace> HfTensorNames::places(const Graph& graph) const {
  if (table_ == nullptr) return own_places(graph);
  std::set<std::string> names;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) names.insert(tensor.name);
  std::int64_t blocks = 0;
  while (names.contains(fmt::format("blk{}.ln1.gamma", blocks))) ++blocks;
  std::map<std::string, std::vector<Part>> parts;  // by the tensor's name, with its "{expert}"
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    bool found = false;
    for (std::size_t row = 0; row < table_->rows.size() && !found; ++row) {
      std::string number, second;
      if (!matches(table_->rows[row].ours, tensor.name, number, second)) continue;
      const Layout layout = layout_from(table_->rows[row].layout);
      found = fits(layout, tensor) && holds(table_->rows[row].beside, number, names);
      if (!found) continue;
      std::string theirs = with(with(table_->rows[row].theirs, "#", number), "?", second);
      if (theirs.find('&') != std::string::npos) theirs = with(theirs, "&", fmt::format("{}", std::stoll(number) / 2));
      if (theirs.find('$') != std::string::npos) theirs = with(theirs, "$", fmt::format("{}", std::stoll(number) - 1));
      // '%': blocks for further tokens are numbered on behind the others.
      if (theirs.find('%') != std::string::npos)
        theirs = with(theirs, "%", fmt::format("{}", blocks + std::stoll(number) - 1));
      parts[theirs].push_back({&tensor, row, layout});
    }
    require(found, "the model's parameter '{}' has no counterpart in the files of '{}' models.", tensor.name,
            model_type_);
  }
  const std::map<std::string, std::int64_t> rotated = rotated_dims(graph);
  std::map<TensorId, ParameterPlace> places;
  for (auto& [name, of_tensor] : parts) {
    // Those of one row, such as all layers' parts of one table, stay in the graph's order.
    std::stable_sort(of_tensor.begin(), of_tensor.end(), [](const Part& a, const Part& b) { return a.row < b.row; });
    std::int64_t total = 0, before = 0;
    for (const Part& part : of_tensor) total += starred_size(part);
    MW_CHECK(total > 0 || of_tensor.size() == 1, "'{}' has parts, but no star says where", name);
    for (const Part& part : of_tensor) {
      places[part.parameter->id] = {part.parameter->id, part.layout.shift,
                                    pieces_of(name, part, {before, total}, rotated_in(rotated, part.parameter->name))};
      before += starred_size(part);
    }
  }
  std::vector<ParameterPlace> in_order;
  for (auto& [id, place] : places) in_order.push_back(std::move(place));
  return in_order;
}

bool HfTensorNames::may_be_left_out(std::string_view name) const {
  std::string number, second;
  return table_ != nullptr &&
         std::any_of(table_->left_out.begin(), table_->left_out.end(),
                     [&](const std::string& pattern) { return matches(pattern, name, number, second); });
}

std::string hf_model_type_of(const ModelConfig& model) {
  const auto has = [&](const char* key) { return size_of(model, key) != 0; };
  if (model.family == "gpt2" && size_of(model, "kv_heads") != model.heads) return "gpt_bigcode";
  if (model.family == "gpt2") return size_of(model, "position_offset") == 2 ? "opt" : "gpt2";
  if (model.family == "llama")
    return has("qk_norm") ? "qwen3" : has("qkv_bias") && !has("out_bias") ? "qwen2" : "llama";
  if (model.family == "mixtral") {
    if (has("sinks")) return "gpt_oss";
    if (has("qk_norm")) return "qwen3_moe";
    return has("shared_intermediate") ? "" : "mixtral";
  }
  if (model.family == "wresnet") return fmt::format("resnet{}", model.layers);
  return HfTensorNames::knows(model.family) ? model.family : "";
}

}  // namespace meshwright
