// SPDX-License-Identifier: Apache-2.0
// Where a model's parameters lie in the tensors of Hugging Face's files: names, layouts, parts of packed tensors. The
// tables are data (hf_tensor_tables.cpp), one for all families that name and lay out alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/models/models.h"

namespace meshwright {

// A row of a table. `ours`: a parameter's name, '#' for the number of a block. `theirs`: the tensor's, with '#' for the
// same number, '?' of both for a second one, '&' for half of the first (two of our blocks are one of theirs), '%' for
// that of a block behind the model's others which predicts the #-th further token, '$' for the same number less one,
// and "{expert}" for the index along that dimension of ours, which has a tensor for each index.
//
// `layout`: the dimensions of theirs, in order, by the names of ours: "(kv_heads group head_dim) embed" is a matrix of
// heads' rows, "1" a dimension of size 1. A star says that the tensor has parts, which follow one another there in the
// order of the rows that share the tensor: "embed *(kv_heads head_dim)" for keys behind queries, "(kv_heads *1
// head_dim) embed" for each head's query, key and value. A dimension of pairs that stand side by side, where ours has
// the first halves first, has a tilde: "~rope_dim"; where only the first dimensions of each head are rotated, and lie
// in pairs, a roof: "^head_dim"; where the first of each half are, a bar: "|head_dim"; where the rotated ones, which
// ours has first, are theirs' last, an arrow: ">head_dim"; where theirs has the second half first, one back:
// "<head_dim". Stars on neighbours in one
// bracket count together: "(delta_heads *delta_group *delta_dim)". "4/kv_heads" is the number of the quarter of that
// dimension, "kv_heads/4" the place in the quarter. "@2" is our third dimension, whatever its name. "+1"
// at the end: ours is theirs plus one. "whole" there: theirs may be integers.
//
// The first row counts whose layout names no dimension that the parameter lacks, and where the model has the parameter
// `beside`, if one is named.
struct HfTensorRow {
  std::string ours, theirs, layout, beside = {};
};

struct HfTensorTable {
  std::vector<std::string> model_types;
  std::string prefix;  // that files of the bare model lack: "model."
  std::vector<HfTensorRow> rows;
  std::vector<std::string> left_out;  // what files may have besides: '#' for a number, '*' at the end for anything
};
[[nodiscard]] const std::vector<HfTensorTable>& hf_tensor_tables();
// Those of decoders with rotated heads; part of the former.
[[nodiscard]] std::vector<HfTensorTable> hf_decoder_tables();
// Those of models with scans; part of it too.
[[nodiscard]] std::vector<HfTensorTable> hf_scan_tables();

// A tensor of the file that holds a parameter, or some indices of it.
struct TensorPiece {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;  // where the parameter's first element lies in it
  struct DimWalk {
    std::int64_t stride;
    bool interleaved;                      // index j of n lies at 2 j, or at 2 (j - n/2) + 1 from n/2 on
    std::int64_t pairs = 0;                // interleaved: how many indices lie so, the first ones; 0: all
    std::int64_t split = 0;                // if not 0: of the first so many indices, the second half lies at the middle
    std::int64_t last = 0;                 // if not 0: the first so many indices lie behind all others
    std::int64_t run = 0, run_stride = 0;  // if not 0: only so many indices lie at `stride`, and runs of them at this
  };
  std::vector<DimWalk> dims;                     // [dimension of the parameter]
  bool whole_numbers = false;                    // it may be of a type of integers
  std::optional<std::size_t> dim_of_index = {};  // the dimension of which it holds one index alone
  std::int64_t index = 0;                        // that index
  // The position of element `i` of dimension `d`, behind `first`.
  [[nodiscard]] std::int64_t at(std::size_t d, std::int64_t i, std::int64_t size) const {
    const DimWalk& walk = dims[d];
    if (walk.last > 0) return (i < walk.last ? size - walk.last + i : i - walk.last) * walk.stride;
    if (walk.run > 0) return i / walk.run * walk.run_stride + i % walk.run * walk.stride;
    if (walk.split > 0) {
      const std::int64_t half = walk.split / 2, middle = size / 2;
      const std::int64_t lies = i < half ? i : i < walk.split ? middle + i - half : i < middle + half ? i - half : i;
      return lies * walk.stride;
    }
    const std::int64_t paired = walk.pairs > 0 ? walk.pairs : size;
    if (!walk.interleaved || i >= paired) return i * walk.stride;
    const std::int64_t half = paired / 2;
    return (i < half ? 2 * i : 2 * (i - half) + 1) * walk.stride;
  }
};

struct ParameterPlace {
  TensorId parameter{0};
  double shift = 0.0;  // ours is theirs plus this
  std::vector<TensorPiece> pieces;
};

class HfTensorNames {
 public:
  // The table of a `model_type`; an empty one has our own names and layouts. Throws InputError, with the place in
  // front, for one without a table.
  HfTensorNames(const std::string& model_type, const std::string& place);
  [[nodiscard]] static bool knows(const std::string& model_type);

  // An entry for every parameter, in the graph's order. Throws InputError for a parameter that the table lacks.
  [[nodiscard]] std::vector<ParameterPlace> places(const Graph& graph) const;
  // Whether files of the family may have a tensor of this name that is no parameter.
  [[nodiscard]] bool may_be_left_out(std::string_view name) const;
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] const std::string& model_type() const { return model_type_; }

 private:
  std::string model_type_, prefix_;
  const HfTensorTable* table_;
};

// The `model_type` whose files have tensors such as this model's, where only one can: models of families that several
// types share need a config.json. Empty: unknown.
[[nodiscard]] std::string hf_model_type_of(const ModelConfig& model);

}  // namespace meshwright
