// SPDX-License-Identifier: Apache-2.0
// Finds patterns (recognise.h). Its parts by file: recognise.cpp the whole; recognise_norms.cpp normalisations;
// recognise_functions.cpp activations; recognise_rotary.cpp rotary embedding; recognise_attention.cpp attention;
// recognise_masks.cpp its masks; recognise_losses.cpp softmax and cross entropy; recognise_mixture.cpp mixtures of
// experts.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

[[nodiscard]] inline bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)); }

// Makes the new module node by node; patterns are looked for below each node that is about to be made.
class Recogniser {
 public:
  // `lone`: also norms without a scale of their own, whose scale then is all ones. A scale may follow a norm, so that
  // these are looked for once everything else is found.
  Recogniser(const Module& from, bool lone) : from_(from), lone_(lone), b_(to_) {
    to_.batch = from.batch;
    to_.file_ops = from.file_ops;
    to_.notes = from.notes;
    to_.shardings = from.shardings;
  }
  Module run();

 private:
  using Found = std::optional<int>;
  struct Scaled {
    int node;
    double factor;
  };
  // What is added to scores of this shape, and what both are then multiplied with.
  struct Mask {
    int node;
    double factor;
    Shape scores;
  };
  // Scores before their masks and scale.
  struct Scores {
    int product;
    double scale = 1.0;
    std::vector<Mask> masks = {};
    bool causal = false;
    std::int64_t window = 0;
    std::optional<int> mask = {};  // what is left to be added to the scaled scores
    double cap = 0.0;
    bool alibi = false;
  };

  [[nodiscard]] const Node& at(int i) const { return b_.at(i); }
  [[nodiscard]] bool is(int i, Kind kind) const { return at(i).kind == kind; }
  [[nodiscard]] bool over_last(int i) const {
    return at(i).details.axes == std::vector<std::int64_t>{static_cast<std::int64_t>(at(i).shape.size()) - 1};
  }
  // The operand that is no scalar, of a `kind` with a scalar.
  [[nodiscard]] Found beside_scalar(int i, Kind kind, double* scalar) const;
  [[nodiscard]] Scaled unscaled(int i) const;

  [[nodiscard]] Found find(Kind kind, const std::vector<int>& inputs);
  // Below dimensions of one element that were put in or taken away, and below repetition.
  [[nodiscard]] int core(int i) const;
  [[nodiscard]] Found mean_of_sum(int x, int y);

  // The factors of a product, however it is nested; numbers are multiplied.
  struct Product {
    std::vector<int> factors = {};
    double number = 1.0;
  };
  // `scaled`: a tensor times a number stays one factor.
  [[nodiscard]] Product product_of(std::vector<int> open, bool scaled = false) const;
  // A product that holds 1 / sqrt(variance + epsilon) once.
  struct Normalised {
    int inverse;   // 1 / sqrt(...), as the product has it
    int variance;  // a core
    double epsilon;
    std::vector<int> others;
  };
  [[nodiscard]] std::optional<Normalised> normalised(const std::vector<int>& open) const;
  // The mean of x's squares, or of those of x without its mean.
  struct Moment {
    int x;
    bool centred;
    std::vector<std::int64_t> axes;
  };
  [[nodiscard]] std::optional<Moment> moment_of(int variance) const;
  [[nodiscard]] bool is_mean(int mean, int x, const std::vector<std::int64_t>& axes) const;
  [[nodiscard]] Found uncentred(int i, const std::vector<std::int64_t>& axes) const;
  [[nodiscard]] bool is_row(int i) const;
  [[nodiscard]] bool along_last(int row, std::int64_t size) const;
  [[nodiscard]] bool widens_to(int i, const Shape& shape) const;
  [[nodiscard]] int row(int i);
  [[nodiscard]] int filled(std::int64_t size, double value);
  [[nodiscard]] Found rms_norm(const std::vector<int>& factors);
  [[nodiscard]] Found layer_norm(int x, int y);
  [[nodiscard]] Found norm_without_bias(int x, int gamma, double epsilon);
  [[nodiscard]] Found folded_norm(int scaled, int shift);
  [[nodiscard]] Found shifted_norm(int x, int mean, const Normalised& norm, Found gamma, Found beta);
  [[nodiscard]] Found normalised_over(int x, const std::vector<std::int64_t>& axes, double epsilon);
  [[nodiscard]] Found batch_norm(int x, std::size_t channel, Found gamma, Found beta, double epsilon);

  [[nodiscard]] Found activation(int x, int y);
  [[nodiscard]] bool tanh_argument(int i, int x) const;
  [[nodiscard]] Found function(int i);

  [[nodiscard]] Found quotient(int x, int y);
  [[nodiscard]] Found softmax(int numerator, int denominator);
  [[nodiscard]] Found weighted_values(int numerator, int denominator);
  // e^z summed over one axis; s, where z is s without its maximum.
  struct Exponentials {
    int power, shifted, scores;
    std::int64_t axis;
  };
  [[nodiscard]] std::optional<Exponentials> sum_of_exponentials(int i) const;
  // The logarithm of such a sum; `whole`: the maximum is added again.
  struct LogSum {
    Exponentials of;
    bool whole;
  };
  [[nodiscard]] std::optional<LogSum> log_sum(int i) const;
  [[nodiscard]] int without_maximum(int i, const std::vector<std::int64_t>& axes) const;
  [[nodiscard]] int without_shift(int i, std::int64_t axis) const;
  [[nodiscard]] Found log_softmax(int x, int y);
  [[nodiscard]] Found one_hot(int i);
  [[nodiscard]] Found picked_by_one_hot(int sum, const std::vector<std::int64_t>& axes);

  [[nodiscard]] Found rotary(int x, int y);
  struct Turned {
    int first, second, cosines, sines;
  };
  [[nodiscard]] std::optional<Turned> turned_parts(int straight, int across) const;
  [[nodiscard]] Found rotary_of_halves(const std::vector<int>& halves);
  [[nodiscard]] Found rotary_of_pairs(const std::vector<int>& elements);
  [[nodiscard]] Found rotary_of_first(const std::vector<int>& pieces);
  [[nodiscard]] Found turned(int x, int cosines, int sines, bool neighbours);
  [[nodiscard]] std::optional<std::pair<int, int>> joined_halves(int i) const;
  [[nodiscard]] Found rotated_half(int i) const;
  [[nodiscard]] Found rotated_pairs(int i) const;
  [[nodiscard]] Found counted(int ids, std::int64_t axis);
  [[nodiscard]] int truth_below(int i) const;
  // What weights are the softmax of, and the scores without keys, one of each head, that it is over as well; -1: none.
  struct Weighed {
    int scores = -1, sinks = -1;
  };
  [[nodiscard]] Weighed weighed_by(int weights);
  [[nodiscard]] Found attention(int weights, int values);
  [[nodiscard]] Found attention_of(int weights, int values);
  [[nodiscard]] bool reorder(Scores& scores, const Shape& order, int& queries, int& keys);
  [[nodiscard]] Found untransposed_product(int i);
  [[nodiscard]] std::optional<Scores> scores_of(int i);
  [[nodiscard]] int of_one_sample(int constant);
  [[nodiscard]] bool is_causal(int mask, std::optional<bool> keeps);
  // What a mask hides. Plain: keys behind the query or beyond a window, and those for which the integers `keys` are 0
  // (-1: there are none), and adds nothing to other scores.
  struct ToldMask {
    bool known = false, causal = false, plain = false;
    std::int64_t window = 0;  // 0: none
    int keys = -1;
    double hidden = 0.0;  // what is added to hidden scores
  };
  [[nodiscard]] std::optional<std::vector<int>> inputs_of_mask(int mask) const;
  [[nodiscard]] ToldMask told_mask(int mask, std::int64_t queries, std::int64_t keys);
  [[nodiscard]] int unrepeated_mask(int mask, int& budget);
  [[nodiscard]] int without_later(int mask, int& budget);
  [[nodiscard]] bool alike_behind(int x, int y, std::int64_t queries, std::int64_t keys);
  [[nodiscard]] Found as_operand(const Mask& mask, std::int64_t queries, std::int64_t keys);
  [[nodiscard]] Found key_mask(const ToldMask& told, std::int64_t keys);
  [[nodiscard]] bool is_alibi(const Mask& mask, const Shape& queries, std::int64_t keys);
  [[nodiscard]] bool resolve_masks(Scores& scores, const Shape& queries, std::int64_t keys);
  [[nodiscard]] int unrepeated(int i);
  [[nodiscard]] int with_heads(int i);
  [[nodiscard]] Scaled peeled(int i);
  [[nodiscard]] int softmax_below(int i);
  [[nodiscard]] Found cross_entropy(int loss);
  [[nodiscard]] std::vector<int> logarithms_of(int loss, int* others) const;

  // The scores that experts are chosen by, and what is made of them, alike for the same formula.
  struct Router {
    int scores;
    std::string text;
  };
  enum class Sums { None, OfSlots, OfChosen };  // what a token's weights are divided by
  struct Routing {
    std::int64_t top_k, capacity;
    bool expert_first;              // the mask is (batch, seq, expert, capacity)
    bool by_token;                  // slots go to one token after the other
    bool plain = false;             // ones: it does not weigh
    Kind function = Kind::Reshape;  // of the scores: none (Reshape), softmax, sigmoid
    Sums sums = Sums::None;
    double factor = 1.0;
  };
  [[nodiscard]] std::optional<Router> router_below(int mask) const;
  [[nodiscard]] std::optional<Routing> routing_of(int mask, int scores);
  [[nodiscard]] static bool weighed(const std::vector<double>& scores, std::int64_t experts,
                                    const std::vector<std::int64_t>& slots, const std::vector<std::int64_t>& tokens,
                                    const std::vector<double>& weights, Routing& routing);
  [[nodiscard]] std::optional<Routing> gating_of(int gates, int scores);
  [[nodiscard]] int mask_of(const Routing& routing, int scores);
  [[nodiscard]] int weights_of(const Routing& routing, int scores);
  [[nodiscard]] Found with_slots(int factor);
  [[nodiscard]] Found dispatch(int x, int y);

  const Module& from_;
  const bool lone_;
  Module to_;
  Builder b_;
  std::int64_t function_budget_ = 1 << 21;      // nodes whose values are computed to tell activations
  std::map<std::pair<int, int>, bool> causal_;  // by mask, and how it is applied
  bool shifted_ = false;                        // a scale of a norm had a number added
  bool chooses_ = false;                        // the module takes the largest of some numbers
  std::int64_t routing_budget_ = 1 << 26;       // elements that are computed to tell masks of slots
  std::map<std::string, std::optional<Routing>> routings_;
  std::map<int, Found> masks_of_slots_;
  std::set<int> unpadded_;  // which ids are no padding, where positions are counted: all
  int by_token_ = 0;        // mixtures that give slots in another order than ours
  std::map<std::tuple<int, std::int64_t, std::int64_t>, ToldMask> told_masks_;
  std::int64_t mask_budget_ = 1 << 27;  // nodes whose values are computed to tell masks
  int masks_ = 0;                       // taken as causal, as the file lacks their numbers
  int masked_ = 0;                      // attentions that read a mask
  std::string mask_input_ = {};         // the first input that tells padding
  std::string first_mask_;
};

}  // namespace meshwright::primitive
