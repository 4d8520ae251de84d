// SPDX-License-Identifier: Apache-2.0
// Makes the nodes of a Module: infers shapes, computes small constants, and writes equal things alike so that patterns
// have few forms: x^2 is Square, x / sqrt(y) is x Rsqrt(y), x / 2 is x * 0.5, x - 2 is x + -2, -x is x * -1; an op that
// changes nothing is its operand; equal ops are one node.
//
// Every function throws InputError, one sentence that begins with the op's name, when its operands do not fit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// Constants of more elements have a shape and no values.
inline constexpr std::int64_t kMaxValues = 1 << 16;
inline constexpr std::int64_t kMaxRow = 1 << 20;  // the same of those of one dimension
// All values that are kept, but for those of the smallest constants.
inline constexpr std::int64_t kMaxKept = 1 << 25;
inline constexpr std::size_t kMaxHead = 4096;  // two rows of any table of cosines or sines
inline constexpr std::size_t kMaxRank = 64;
inline constexpr std::int64_t kMaxSteps = 512;      // of a recurrence
inline constexpr std::int64_t kMaxUnfolded = 4096;  // elements of a window
inline constexpr std::int64_t kMaxPhases = 64;      // groups of results that one op is written out as
inline constexpr double kHiddenScore =
    -3e38;  // what hides a score: -infinity would leave no number where all are hidden

// Whether all blocks of a constant along a dimension are alike.
[[nodiscard]] bool repeats_along(const Shape& shape, const std::vector<double>& values, std::size_t d);
// What a binary op of primitive kind, or a comparison, makes of two numbers.
// The value of a function of one number; of other kinds no number.
[[nodiscard]] double unary_value(Kind kind, double x);
[[nodiscard]] double binary_value(Kind kind, double x, double y, Comparison comparison, bool integer);

class Builder {
 public:
  explicit Builder(Module& module) : module_(module) {}

  // Stamped on the nodes that are made next.
  std::string name, block;

  [[nodiscard]] const Node& at(int node) const { return module_.nodes[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const Shape& shape(int node) const { return at(node).shape; }
  [[nodiscard]] Module& module() { return module_; }

  int input(const std::string& called, const Shape& shape, bool integer);
  int parameter(const std::string& called, const Shape& shape);
  int constant(const Shape& shape, bool integer, std::optional<std::vector<double>> values);
  int scalar(double value) { return constant({}, false, std::vector<double>{value}); }
  int integers(const std::vector<std::int64_t>& values);  // of one dimension
  int range(double start, double end, double step, bool integer);

  int unary(Kind kind, int x);
  int negated(int x);
  int binary(Kind kind, int x, int y);
  int compare(Comparison comparison, int x, int y);
  int select(int p, int x, int y);
  int dropout(int x, double probability);
  // builder_random.cpp: numbers from 0 to 1, and 1.0 with a probability, else 0. Both stand for what they do to others:
  // the first is compared with a number, the second is a factor of a tensor, which drops elements of that.
  int uniform(const Shape& of);
  int kept_at_random(const Shape& of, double probability);
  // builder_complex.cpp: complex numbers, which the functions of this class take part by part where they can
  int complex(int real_part, int imaginary_part);
  // Two numbers for each element, one behind the other, or for all of them together; none: they are not known.
  int complex_constant(const Shape& shape, const std::optional<std::vector<double>>& parts);
  [[nodiscard]] bool is_complex(int x) const { return at(x).kind == Kind::Complex; }
  [[nodiscard]] int real_of(int x) const;  // x itself, where it is not complex
  int imaginary_of(int x);
  // builder_fourier.cpp: sums of the elements along an axis times e^(-2 pi i j k / n), or e^(2 pi i j k / n) where
  // inverse, times `scale`; the first `to` of them.
  int fourier(int x, std::int64_t axis, std::int64_t to, bool inverse, double scale);
  // Real numbers, `to` of them, of the first to / 2 + 1 of these sums, the others being conjugates of these.
  int real_fourier_inverse(int x, std::int64_t axis, std::int64_t to, double scale);
  // builder_functions.cpp: functions of one number
  int clamp(int x, std::optional<double> low, std::optional<double> high);
  int clamped_line(int x, double slope, double offset);  // between 0 and 1
  int hard_swish(int x);
  int leaky_relu(int x, double slope);
  int elu(int x, double alpha);
  int softplus(int x);
  int multiplied(int x, std::int64_t axis, bool keep);  // all elements along an axis
  int tangent(int x) { return binary(Kind::Divide, unary(Kind::Sin, x), unary(Kind::Cos, x)); }

  // One size may be -1: what is left.
  int reshape(int x, Shape to);
  int transpose(int x, const std::vector<std::int64_t>& axes);
  int swap(int x, std::int64_t a, std::int64_t b);  // of two axes
  int broadcast(int x, const Shape& to);
  int slice(int x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1);
  // One after the other, of these sizes.
  std::vector<int> parts(int x, std::int64_t axis, const std::vector<std::int64_t>& sizes);
  int concat(std::vector<int> xs, std::int64_t axis);
  int squeeze(int x, std::vector<std::int64_t> axes);
  int unsqueeze(int x, std::vector<std::int64_t> axes);
  int repeat(int x, std::int64_t axis, std::int64_t times);  // each index `times` times in a row
  // builder_pieces.cpp
  int stack(std::vector<int> xs, std::int64_t axis);
  int tile(int x, std::vector<std::int64_t> times);  // all indices in a row, `times` times; may have more dimensions
  // So many elements of one value before and after each dimension; fewer than none are taken away.
  int pad(int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after, double value);
  int pad_by_inside(int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after,
                    bool reflects);
  int pad_by_other_end(int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after);
  int roll(int x, std::int64_t axis, std::int64_t shift);
  // x, and zeros above (below) the diagonal that is `offset` columns behind the main one, of the last two dimensions.
  int triangle(int x, std::int64_t offset, bool upper);
  enum class Rounding { Up, Down, Nearest, ToSign };
  int rounded(int x, Rounding rounding);         // of constants; to the sign: -1, 0 or 1
  int remainder(int x, int y, bool of_divisor);  // of whole numbers; with the sign of y, or else of x

  int reduce(Kind kind, int x, std::vector<std::int64_t> axes, bool keep);
  int least(int x, const std::vector<std::int64_t>& axes, bool keep);
  int log_of_sum(int x, const std::vector<std::int64_t>& axes, bool keep);  // of exponentials
  int nonzero(int x);                                                       // 1 where x is not 0, else 0
  int matmul(int x, int y);
  struct Windows {
    std::vector<std::int64_t> window, stride, before, after;
    bool round_up = false;
    std::vector<std::int64_t> dilation = {};  // empty: 1
  };
  int convolution(int x, int w, const Windows& windows, std::int64_t groups, std::optional<int> bias = {});
  // Weight (in, out / groups, kh, kw): each element of an image becomes a window; where these overlap they are added.
  struct TransposedWindows {
    std::vector<std::int64_t> stride, before, after;  // before, after: what is cut off; less than nothing is added
  };
  int transposed_convolution(int x, int w, const TransposedWindows& windows, std::int64_t groups,
                             std::optional<int> bias = {});
  // (batch, channels, h, w) -> (batch, channels x elements of a window, rows, columns): each window's elements.
  int unfolded(int x, const Windows& windows);
  // A weight (a, b / groups, ...) as (b, a / groups, ...), and back.
  int swapped_in_groups(int w, std::int64_t groups);
  // builder_resizing.cpp
  // Where results lie among the elements: as parts of an equal whole, from the first to the last, or from their starts.
  enum class Places { Halves, Corners, Starts };
  enum class Between { Nearest, NearestRoundedDown, NearestRoundedUp, Linear, Cubic };
  // factor: to / size where it is not given.
  int resized_along(int x, std::int64_t axis, std::int64_t to, std::optional<double> factor, Places places,
                    Between between);
  // The same by a filter that smooths where there are fewer results than elements.
  int smoothed_along(int x, std::int64_t axis, std::int64_t to, std::optional<double> factor, Places places,
                     Between between);
  int adaptive_average_along(int x, std::int64_t axis, std::int64_t to);
  // builder_images.cpp
  int pool(Kind kind, int x, const Windows& windows);
  // Which counts its padding, or so many elements of each window.
  int average_of_padded(int x, const Windows& windows, std::optional<std::int64_t> divisor = {});
  int gather(int table, int ids, std::int64_t axis);
  // builder_scatter.cpp
  // Tuples of `indices`, which the file tells, choose blocks of x's first dimensions that `updates` takes the place of.
  int scattered(int x, int indices, int updates);
  enum class Joined { Replaces, Adds };
  // Elements of `updates` take the place of those of x, or are added to them, that `ids` tells along an axis; the other
  // dimensions of ids are those of x. Where elements are replaced, ids must be unlike, or the updates one number.
  int scattered_along(int x, int ids, int updates, std::int64_t axis, Joined joined);
  // builder_indices.cpp
  int pick_leading(int x, std::vector<int> ids);
  int arg_max(int x, std::int64_t axis, bool keep);
  // x[sample, ids]: of each sample the rows that its own indices choose, as a product with rows of 0 and a 1.
  [[nodiscard]] int pick_of_samples(int x, int ids);
  int differences(int x, std::optional<int> front, std::int64_t axis);
  [[nodiscard]] std::optional<int> one_along(int x, std::size_t d);
  // Makes x, which has the file's own batch along d, have `size` there; throws where its samples are not alike.
  void repeat_for_batch(int& x, std::size_t d, std::int64_t size);
  int pick_label(int x, int labels);
  // An element of x for each of `ids`, along an axis; the other dimensions are alike.
  int pick_along(int x, int ids, std::int64_t axis);
  int one_hot(int ids, std::int64_t classes);  // (..., classes): 1.0 at the id
  // The elements of x's last dimension at the last dimension of `ids`, as many as these.
  int pick_each(int x, int ids);
  struct Best {
    int values, indices;
  };
  Best top_k(int x, std::int64_t k);                                        // of the last dimension, largest first
  Best best_along(int x, std::int64_t k, std::int64_t axis, bool largest);  // of any, or smallest first
  int cumulative_sum(int x, std::int64_t axis);
  int softmax(int x, std::int64_t axis);
  int layer_norm(int x, int gamma, int beta, double epsilon);
  int rms_norm(int x, int gamma, double epsilon);
  int batch_norm(int x, int gamma, int beta, double epsilon);
  // Over all but the first dimension of each group of dimension 1.
  int group_norm(int x, std::int64_t groups, std::optional<int> gamma, std::optional<int> beta, double epsilon);
  // Turns the first `dims` elements of the last dimension by angles of the position along `axis`: pairs of neighbours
  // where interleaved.
  int rotary(int x, std::int64_t axis, std::int64_t dims, const Turning& turning, bool interleaved = false);
  // mask: added to the scaled scores, (samples or 1, queries or 1, keys).
  struct Attended {
    bool causal = false;
    std::int64_t window = 0;  // keys back from the query, and as far ahead where not causal; 0: all
    std::optional<int> mask = {};
    double cap = 0.0;  // scores become cap tanh(score / cap); 0: they stay
    // Without a mask: a score falls by its head's slope for each position (O. Press et al., ALiBi, 2022).
    bool alibi = false;
    // Without these: of each head, (heads), one more score in the softmax, which has no value.
    std::optional<int> sinks = {};
  };
  int attention(int q, int k, int v, double scale, const Attended& attended);
  // The same written out, for patterns to be found in, with masks that broadcast to (batch, heads, queries, keys):
  // numbers that are added to the scores, or integers, 0 where a key is hidden. scale 0: 1 / sqrt(d).
  int masked_attention(int q, int k, int v, double scale, bool causal, const std::vector<int>& masks);
  // builder_recurrent.cpp: a recurrent layer over x (batch, positions, width), one step behind the other.
  enum class Cell { Lstm, Gru, Plain };
  enum class Gate { Input, Forget, Cell, Output, Update = 0, Reset, New };
  struct Recurrence {
    Cell cell;
    int weight, recurrent;                              // (gates * hidden, width), (gates * hidden, hidden)
    std::optional<int> bias = {}, recurrent_bias = {};  // (gates * hidden)
    std::optional<int> hidden = {}, memory = {};        // (batch, hidden); none: zeros
    std::vector<std::size_t> order = {};                // where each Gate of the cell lies in the weights
    bool backwards = false;
    bool bends_by_relu = false;  // of a plain cell, in place of tanh
  };
  struct Recurred {
    int all, hidden, memory;  // (batch, positions, hidden), and behind the last step
  };
  Recurred recurrence(const Recurrence& given, int x);
  int cross_entropy(int logits, int labels);
  // A mixture of experts: slots of `capacity` for the `top_k` best experts of each token by scores (batch, seq,
  // expert).
  int slots(int scores, std::int64_t top_k, std::int64_t capacity);
  int slot_mask(int slots);
  int gate_weights(int scores, int slots, bool normalize);
  int weighted_mask(int mask, int weights);
  int dispatch(int x, int slots);
  int combine(int buffer, int slots, int weights);

  [[nodiscard]] const std::vector<double>& values(int node, const char* what) const;      // throws where unknown
  [[nodiscard]] std::vector<std::int64_t> integers_of(int node, const char* what) const;  // the same
  [[nodiscard]] std::optional<double> scalar_of(int node) const;       // of one element of known value
  [[nodiscard]] std::int64_t axis_of(int x, std::int64_t axis) const;  // from 0 on

  [[noreturn]] void fail(const std::string& why) const;
  void expect(bool condition, const std::string& why) const {
    if (!condition) fail(why);
  }

  // One dimension of a product of shapes, as NumPy broadcasts them.
  [[nodiscard]] Shape broadcast_shape(const Shape& x, const Shape& y) const;

  int add(Kind kind, std::vector<int> inputs, Shape shape, bool integer, Details details = {});

 private:
  [[nodiscard]] bool is_zero(int x) const;
  [[nodiscard]] std::optional<bool> same_truth(int p) const;
  [[nodiscard]] int from_front(int ids, std::int64_t size);
  [[nodiscard]] std::optional<int> made_of_one(int x, std::size_t d);
  [[nodiscard]] int once_for_samples(int x);
  [[nodiscard]] std::optional<int> parted_below(int x, std::size_t d);
  [[nodiscard]] std::optional<int> alike_in_group(int x, std::size_t d);
  [[nodiscard]] bool counts_samples(int ids, std::int64_t size) const;
  [[nodiscard]] std::optional<int> places_in_samples(int row, int ids);
  [[nodiscard]] std::optional<int> own_places_in_samples(int row, int ids);
  [[nodiscard]] std::optional<std::size_t> counts_along(int ids, std::int64_t size) const;
  [[nodiscard]] std::optional<int> pick_by_constants(int x, int ids, std::size_t d);
  [[nodiscard]] std::optional<int> pick_rows(int x, int ids, std::size_t d);
  [[nodiscard]] int counted_from_front(int ids, std::int64_t size);
  [[nodiscard]] std::optional<int> region_replaced(int x, int indices, int updates);
  [[nodiscard]] bool are_unlike(int ids, std::size_t d) const;
  // Elements start..stop of a concatenation along its axis, where one piece has them all.
  [[nodiscard]] std::optional<int> slice_of_piece(int x, std::int64_t start, std::int64_t stop);
  [[nodiscard]] std::optional<int> rows_rebatched(int x, std::size_t d, std::int64_t size);
  [[nodiscard]] int rebatched(int x, const Shape& to);
  [[nodiscard]] int rebatched_operand(int x, const Shape& to);
  [[nodiscard]] std::optional<int> simpler(Kind kind, int x, int y);
  struct Drop {
    double probability, factor;
  };
  [[nodiscard]] std::optional<Drop> drop_of(int x) const;
  [[nodiscard]] int dropped(int x, const Drop& drop, const Shape& to);
  [[nodiscard]] std::optional<int> random_product(int x, int y);
  [[nodiscard]] std::optional<int> random_comparison(Comparison comparison, int x, int y);
  [[nodiscard]] std::optional<int> random_choice(int p, int x, int y);
  [[nodiscard]] std::optional<int> complex_unary(Kind kind, int x);
  [[nodiscard]] std::optional<int> complex_binary(Kind kind, int x, int y);
  [[nodiscard]] int product_of(int x, int y);
  [[nodiscard]] int sum_of(int x, int y);
  [[nodiscard]] int difference_of(int x, int y);
  // The complex numbers whose parts a function makes of the parts of x.
  template <typename Function>
  int part_by_part(int x, const Function& function) {
    const int first = function(real_of(x));
    return complex(first, function(imaginary_of(x)));
  }
  [[nodiscard]] int waves(std::int64_t from, std::int64_t to, std::int64_t period, bool sine);
  [[nodiscard]] int product_along(int x, std::int64_t axis, int matrix);
  [[nodiscard]] std::optional<int> transposed_below(int x, const Shape& axes);
  [[nodiscard]] Shape rescaled(int x, Shape to) const;
  [[nodiscard]] static std::size_t batch_dim(const Shape& of);
  [[nodiscard]] static std::int64_t elements_ahead(const Shape& of, std::size_t d);
  [[nodiscard]] std::int64_t ahead_of_batch(int x) const;
  [[nodiscard]] std::int64_t ahead_of_batch(const Node& node) const;
  [[nodiscard]] Shape completed(const Shape& from, Shape to) const;
  [[nodiscard]] std::optional<int> unmerged_transpose(int x, const Shape& to);
  [[nodiscard]] std::vector<int> steps_of(int x, std::int64_t axis);
  [[nodiscard]] int convolution_of_volumes(int x, int w, const Windows& windows, std::int64_t groups,
                                           std::optional<int> bias);
  [[nodiscard]] int dilated_convolution(int x, int w, const Windows& windows, std::int64_t groups);
  [[nodiscard]] int every(int x, std::int64_t axis, std::int64_t start, std::int64_t count, std::int64_t step);
  [[nodiscard]] int interleaved(int x, std::int64_t axis, std::int64_t to, Places places, Between between);
  [[nodiscard]] int averaged_along(int x, std::int64_t axis, std::int64_t to, std::vector<double> weights);
  void compute(Node& node);
  [[nodiscard]] std::int64_t slid(std::int64_t size, const Windows& windows, std::size_t d) const;

  Module& module_;
  std::int64_t kept_ = 0;                                           // elements of constants
  std::map<std::string, int> made_;                                 // by a text of what the node does
  std::map<std::pair<int, std::size_t>, std::optional<int>> ones_;  // what one_along has found
  int ones_depth_ = 0;
  // Elements of the dimension that holds the batch which lie ahead of it, where there are any: of positions and samples
  // in one dimension the positions.
  std::map<int, std::int64_t> ahead_of_batch_;
  // A tensor with zeros around it: what lies within, and how many before and after each dimension.
  struct Padded {
    int within;
    std::vector<std::int64_t> before, after;
  };
  std::map<int, Padded> padded_;
};

}  // namespace meshwright::primitive
