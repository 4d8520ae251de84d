// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/sorted_experts.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::primitive {

namespace {

// Nodes that stand for rows in another order have this in place of what TopK and TopKIndex are otherwise.
constexpr double kExperts = 1.0, kRows = 2.0, kInverse = 3.0, kUnsorted = 4.0;

bool is_mark(const Builder& b, int node, double mark) {
  return (b.at(node).kind == Kind::TopKIndex || b.at(node).kind == Kind::TopK) && b.at(node).details.number == mark;
}

int below_reshapes(const Builder& b, int node) {
  while (b.at(node).kind == Kind::Reshape) node = b.at(node).inputs[0];
  return node;
}

// The samples of a module, of which each has rows of its own.
std::int64_t samples_of(Builder& b) { return b.module().one_sample ? 1 : kBatchProbe; }
bool has_samples(Builder& b, std::int64_t rows) { return b.module().one_sample || holds_batch(rows); }

struct Choice {
  int index;   // which experts are chosen
  int scores;  // (tokens, experts), or (samples, positions, experts)
  std::int64_t experts_of_token, tokens, experts;
};

Choice choice_of(Builder& b, int order) {
  const int index = below_reshapes(b, b.at(order).inputs[0]);
  const Node& chosen = b.at(index);
  const int scores = chosen.inputs[0];
  const Shape& of = b.shape(scores);
  b.expect(of.size() >= 2 && has_samples(b, of[0]),
           "experts that are chosen for other than rows of tokens have no equal");
  return {index, scores, chosen.details.groups, elements_of(Shape(of.begin(), of.end() - 1)), of.back()};
}

// (batch, seq, width) of rows of tokens.
int by_sample(Builder& b, int x) {
  const Shape of = b.shape(x);
  const std::int64_t tokens = elements_of(Shape(of.begin(), of.end() - 1));
  return b.reshape(x, {samples_of(b), tokens / samples_of(b), of.back()});
}

std::int64_t capacity_of(Builder& b, const Choice& choice) {
  const std::int64_t seq = choice.tokens / samples_of(b);
  return (seq * choice.experts_of_token + choice.experts - 1) / choice.experts;
}

// (batch, expert, capacity, width) as rows, and back.
int as_rows(Builder& b, int buffer) {
  const Shape of = b.shape(buffer);
  return b.reshape(buffer, {of[0] * of[1] * of[2], of[3]});
}
int by_slot(Builder& b, int rows, std::int64_t experts) {
  const Shape of = b.shape(rows);
  b.expect(of.size() == 2 && has_samples(b, of[0]) && of[0] / samples_of(b) % experts == 0,
           "a product by groups of other than sorted tokens has no equal here");
  return b.reshape(rows, {samples_of(b), experts, of[0] / samples_of(b) / experts, of[1]});
}

int slots_of(Builder& b, int scores, const Choice& choice) {
  const std::string note =
      "experts that take all their tokens, sorted, have room for seq x top_k / experts tokens of a sample here";
  std::vector<std::string>& notes = b.module().notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  b.expect(choice.experts >= 2 && capacity_of(b, choice) >= 2,
           "experts with room for a single token of a sample have no equal here; give it more positions");
  return b.slots(by_sample(b, scores), choice.experts_of_token, capacity_of(b, choice));
}

// How the weights of a token's choices are made of its scores.
struct Gates {
  int scores;
  bool normalize = false;
  double factor = 1.0;
};

// What a gather by the chosen experts reads: other scores than those that choose, as of DeepSeek-V3, which has a bias
// for the choice alone and hides the experts of some groups.
std::optional<int> gathered_scores(const Builder& b, int picked, const Choice& choice) {
  const Node& sum = b.at(picked);
  if (sum.kind != Kind::ReduceSum || b.at(sum.inputs[0]).kind != Kind::Select) return std::nullopt;
  const Node& each = b.at(sum.inputs[0]);
  const Node& here = b.at(each.inputs[0]);
  const bool fits = here.kind == Kind::Compare && here.details.comparison == Comparison::Equal &&
                    below_reshapes(b, here.inputs[0]) == choice.index && b.at(here.inputs[1]).constant &&
                    b.scalar_of(each.inputs[2]) == 0.0;
  const int scores = below_reshapes(b, each.inputs[1]);
  return fits && elements_of(b.shape(scores)) == choice.tokens * choice.experts ? std::optional(scores) : std::nullopt;
}

Gates gates_of(Builder& b, int weights, const Choice& choice) {
  Gates gates{choice.scores};
  int at = below_reshapes(b, weights);
  const auto chosen = [&](int node) {
    const Node& of = b.at(below_reshapes(b, node));
    if (of.kind == Kind::TopK && of.details.number == 0.0 && of.inputs[0] == choice.scores) return true;
    return gathered_scores(b, below_reshapes(b, node), choice).has_value();
  };
  for (int steps = 0; steps < 8 && !chosen(at); ++steps) {
    const Node node = b.at(at);
    if (node.kind == Kind::Multiply && b.scalar_of(node.inputs[1])) {
      gates.factor *= *b.scalar_of(node.inputs[1]);
      at = node.inputs[0];
    } else if (node.kind == Kind::Divide && chosen(node.inputs[0])) {
      int sum = below_reshapes(b, node.inputs[1]);
      if (b.at(sum).kind == Kind::Add && b.scalar_of(b.at(sum).inputs[1])) sum = below_reshapes(b, b.at(sum).inputs[0]);
      if (b.at(sum).kind != Kind::ReduceSum ||
          below_reshapes(b, b.at(sum).inputs[0]) != below_reshapes(b, node.inputs[0]))
        break;
      gates.normalize = true;
      at = node.inputs[0];
    } else if (node.kind == Kind::Softmax && chosen(node.inputs[0])) {  // that of all scores, over those of the choices
      gates.scores = b.softmax(choice.scores, -1);
      gates.normalize = true;
      at = node.inputs[0];
    } else {
      break;
    }
  }
  at = below_reshapes(b, at);
  const bool gathered = chosen(at) && b.at(at).kind != Kind::TopK;
  b.expect(!gathered || gates.scores == choice.scores, "a softmax of the weights of chosen experts has no equal here");
  if (gathered) gates.scores = *gathered_scores(b, at, choice);
  b.expect(chosen(at), "weights of experts that are not made of the scores they are chosen by have no equal here");
  return gates;
}

// What lies in slots, weighed and summed for each token: (batch, seq, width).
int combined(Builder& b, int x, const Choice& choice, const Gates& gates) {
  const int slots = slots_of(b, choice.scores, choice);
  int each = b.gate_weights(by_sample(b, gates.scores), slots, gates.normalize);
  if (gates.factor != 1.0) each = b.binary(Kind::Multiply, each, b.scalar(gates.factor));
  return b.combine(b.swap(by_slot(b, x, choice.experts), 0, 1), slots, each);
}

// The tokens of each choice, as slots have them.
int sent_to_slots(Builder& b, int x, const Choice& choice) {
  return as_rows(b, b.swap(b.dispatch(by_sample(b, x), slots_of(b, choice.scores, choice)), 0, 1));
}

}  // namespace

bool is_sorted_order(const Builder& b, int order) { return is_mark(b, order, kRows); }

bool is_choice_of_experts(const Builder& b, int choices) {
  const Node& chosen = b.at(below_reshapes(b, choices));
  return chosen.kind == Kind::TopKIndex && chosen.details.number == 0.0 && b.shape(choices).size() == 1;
}

std::vector<int> sorted_order(Builder& b, int choices) {
  b.expect(is_choice_of_experts(b, choices),
           "a sort of other than the experts that tokens have chosen has no equal here");
  const Shape rows = b.shape(choices);
  return {b.add(Kind::TopK, {choices}, rows, true, {.number = kExperts}),
          b.add(Kind::TopKIndex, {choices}, rows, true, {.number = kRows})};
}

int inverse_order(Builder& b, int order) {
  b.expect(is_sorted_order(b, order), "numbers that are put at other than the places of a sort have no equal here");
  return b.add(Kind::TopKIndex, {order}, b.shape(order), true, {.number = kInverse});
}

std::optional<int> sorted_rows(Builder& b, int x, int rows) {
  if (is_mark(b, rows, kInverse) && is_sum_of_choices(b, x)) return x;
  if (is_mark(b, rows, kExperts)) {  // a row of each expert: a bias
    const Shape of = b.shape(x);
    const Choice choice = choice_of(b, rows);
    b.expect(of.size() == 2 && of[0] == choice.experts, "what experts add has no equal here");
    return as_rows(
        b, b.broadcast(b.reshape(x, {1, of[0], 1, of[1]}), {samples_of(b), of[0], capacity_of(b, choice), of[1]}));
  }
  if (is_sorted_order(b, rows)) {  // each token once for each of its choices
    const Choice choice = choice_of(b, rows);
    const Node& repeated = b.at(below_reshapes(b, x));
    const bool several = repeated.kind == Kind::Broadcast;
    const std::int64_t tokens = choice.tokens, choices = choice.experts_of_token;
    const int one = several ? repeated.inputs[0] : x;
    const bool fits = b.shape(x).size() == 2 && b.shape(x)[0] == tokens * choices &&
                      (several ? repeated.shape == Shape{tokens, choices, b.shape(x)[1]} : choices == 1) &&
                      elements_of(b.shape(one)) == tokens * b.shape(x)[1];
    if (!fits) return std::nullopt;
    return sent_to_slots(b, b.reshape(one, {tokens, b.shape(x)[1]}), choice);
  }
  const Node& divided = b.at(rows);
  if (divided.kind != Kind::Divide || !is_sorted_order(b, divided.inputs[0])) return std::nullopt;
  const Choice choice = choice_of(b, divided.inputs[0]);
  const std::optional<double> by = b.scalar_of(divided.inputs[1]);
  b.expect(
      by == static_cast<double>(choice.experts_of_token) && b.shape(x).size() == 2 && b.shape(x)[0] == choice.tokens,
      "rows that are sorted are not those of the tokens that chose");
  return sent_to_slots(b, x, choice);
}

int product_by_expert(Builder& b, int x, int weight) {
  const Shape of = b.shape(weight);
  b.expect(of.size() == 3 && of[0] > 0, "a product by groups needs a weight of each");
  return as_rows(b, b.matmul(by_slot(b, x, of[0]), weight));
}

std::optional<int> weighed_rows(Builder& b, int x, int weights) {
  const Node& picked = b.at(below_reshapes(b, weights));
  if (picked.kind != Kind::Gather || !is_sorted_order(b, picked.inputs[1])) return std::nullopt;
  const int table = picked.inputs[0];
  const Choice choice = choice_of(b, picked.inputs[1]);
  const Gates gates = gates_of(b, table, choice);
  const int made = combined(b, x, choice, gates);
  return b.reshape(made, {choice.tokens, 1, b.shape(made).back()});
}

int unsorted_rows(Builder& b, int x, int order) {
  const Choice choice = choice_of(b, b.at(order).inputs[0]);
  return b.add(Kind::TopK, {x, order}, {choice.tokens * choice.experts_of_token, b.shape(x).back()}, false,
               {.number = kUnsorted});
}

bool is_inverse_order(const Builder& b, int order) { return is_mark(b, order, kInverse); }

std::optional<int> weighed_sum(Builder& b, int x, int weights) {
  while (b.at(weights).kind == Kind::Broadcast) weights = b.at(weights).inputs[0];
  const int back = below_reshapes(b, x);
  if (!is_mark(b, back, kUnsorted)) return std::nullopt;
  const Node of = b.at(back);
  const Choice choice = choice_of(b, b.at(of.inputs[1]).inputs[0]);
  const Gates gates = gates_of(b, weights, choice);
  return combined(b, of.inputs[0], choice, gates);
}

bool is_in_slots(const Builder& b, int x) {
  constexpr int kMaxFollowed = 64;  // of what experts compute
  for (int steps = 0; steps < kMaxFollowed; ++steps) {
    const Node& of = b.at(x);
    if (of.kind == Kind::Dispatch) return true;
    const bool follows = is_unary(of.kind) || of.kind == Kind::MatMul || of.kind == Kind::Reshape ||
                         of.kind == Kind::Transpose || of.kind == Kind::Slice;
    if (follows) {
      x = of.inputs[0];
    } else if (is_binary(of.kind)) {  // numbers aside
      const auto other =
          std::find_if(of.inputs.begin(), of.inputs.end(), [&](int input) { return !b.at(input).constant; });
      if (other == of.inputs.end()) return false;
      x = *other;
    } else {
      return false;
    }
  }
  return false;
}

bool is_sum_of_choices(const Builder& b, int x) {
  const Node& of = b.at(x);
  return of.kind == Kind::Reshape && b.at(of.inputs[0]).kind == Kind::Combine && of.shape.size() == 3 &&
         of.shape[1] == 1;
}

}  // namespace meshwright::primitive
