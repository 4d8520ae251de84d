// SPDX-License-Identifier: Apache-2.0
// What the builders of token models share: short ways to add parameters and ops, and the loss.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/models.h"

namespace meshwright {

// What norms add to a variance where a model does not say otherwise.
constexpr double kNormEpsilon = 1e-5;

struct ModelWriter {
  // With the model's lora_rank only what adapters add is trained.
  ModelWriter(Graph& into, const ModelConfig& model);

  [[nodiscard]] TensorId parameter(const std::string& name, std::vector<Dim> dims);
  // "<name>.fixed.gamma", 1 until it is read from a file: a parameter that is not trained.
  [[nodiscard]] TensorId fixed(const std::string& name, std::vector<Dim> dims);
  [[nodiscard]] TensorId token_input(const std::string& name);  // i32 (batch, seq)
  // Parameters whose names begin with `of` are those of the names that begin with `as` in its place, which are made
  // with the first of them: layers that share their weights.
  struct SharedNames {
    std::string of, as;
  };
  std::optional<SharedNames> shared_names = {};
  // Numbers that every microbatch reads alike, of the graph's type or another; made once for all uses of a name.
  [[nodiscard]] TensorId constant(const std::string& name, std::vector<Dim> dims, std::vector<double> values,
                                  std::optional<DType> type = {});
  // x over the root mean square of its last dimension, without weights.
  [[nodiscard]] TensorId plain_norm(const std::string& name, TensorId x, double epsilon = kNormEpsilon);
  [[nodiscard]] TensorId add(OpKind kind, const std::string& name, std::vector<TensorId> inputs,
                             Attributes attributes = {});
  // Contracts x with a new parameter "<name>.weight". With adapters, twice what two narrow products of x make is added:
  // of "<name>.lora_a", which leaves `rank` numbers of a token, and "<name>.lora_b" (E. Hu et al., 2021, with an alpha
  // of twice the rank, as most files have it).
  [[nodiscard]] TensorId project(const std::string& name, TensorId x, std::vector<Dim> weight,
                                 std::vector<std::string> result);
  // Op "<name>.bias_add" with a new parameter "<name>.bias" over the last names of x.
  [[nodiscard]] TensorId add_bias(const std::string& name, TensorId x, std::vector<Dim> bias, bool select = false);
  // "<name>.gamma" and "<name>.beta" over `last`, the last dimension of x.
  [[nodiscard]] TensorId layer_norm(const std::string& name, TensorId x, const Dim& last,
                                    double epsilon = kNormEpsilon);
  // Cross entropy of logits, such as (batch, seq, vocab), over their last name, which may be split, times `factor`:
  // "<name>.row_max", "<name>.sum_exp", "<name>.pick_label", "<name>.loss". Adds the inputs that `reduction` needs,
  // once for all losses of the graph.
  [[nodiscard]] TensorId cross_entropy(TensorId logits, TensorId labels, LossReduction reduction,
                                       const std::string& name = "head", double factor = 1.0);

  Graph& graph;
  const Dim batch;
  Dim seq;  // of what is added next: a stack may have a sequence of its own
  const Dim embed, vocab;

 private:
  [[nodiscard]] bool is_adapted(const std::string& product) const;
  [[nodiscard]] TensorId of_adapter(const std::string& name, TensorId x, const std::vector<Dim>& weight,
                                    const std::vector<std::string>& result);

  const std::int64_t lora_rank_;     // 0: all is trained
  const std::int64_t lora_targets_;  // as family_keys.h says
  std::map<std::string, TensorId> constants_, shared_;
};

}  // namespace meshwright
