// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/sampled_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "core/base/errors.h"
#include "core/graph/import/names.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

using Numbers = std::vector<std::int64_t>;

Numbers behind_samples(Numbers dims) {
  for (std::int64_t& dim : dims) ++dim;
  return dims;
}
Numbers with_first(std::int64_t first, const Numbers& rest) {
  Numbers all = {first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}
Numbers counted(std::size_t count) {
  Numbers all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Sampler {
 public:
  Sampler(const FlatProgram& from, const std::string& place)
      : from_(from), place_(place), now_(from.values.size(), -1) {}

  SampledProgram run(const std::vector<bool>& needed, const std::vector<bool>& data, int result) {
    made_.flat.turns = from_.turns;
    std::map<int, std::size_t> number;
    for (std::size_t p = 0; p < from_.parameters.size(); ++p) number[from_.parameters[p]] = p;
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      op_ = &from_.ops[i];
      const bool parameter = op_->instruction->opcode == "parameter";
      if ((!needed[i] && !parameter) || op_->results.empty()) continue;
      if (parameter && data[number.at(op_->results[0])])
        put(0, add(*op_->instruction, {}, sampled(type_of(op_->results[0]))));
      else if (parameter || is_number() || !reads_samples())
        copy();
      else
        expand();
    }
    for (const int parameter : from_.parameters) made_.flat.parameters.push_back(now(parameter));
    made_.result = now(result);
    made_.has_samples = has_samples(made_.result);
    made_.flat.results = {made_.result};
    return std::move(made_);
  }

 private:
  // --- values, before and now ---

  [[nodiscard]] const Type& type_of(int before) const { return *from_.values[static_cast<std::size_t>(before)].type; }
  [[nodiscard]] int now(int before) const { return now_[static_cast<std::size_t>(before)]; }
  [[nodiscard]] const Numbers& sizes(int value) const {
    return made_.flat.values[static_cast<std::size_t>(value)].type->sizes;
  }
  [[nodiscard]] bool has_samples(int value) const { return samples_[static_cast<std::size_t>(value)]; }
  [[nodiscard]] bool reads_samples() const {
    for (const int of : op_->operands) expect(now(of) >= 0, "reads the statistics of a normalisation");
    return std::any_of(op_->operands.begin(), op_->operands.end(), [&](int of) { return has_samples(now(of)); });
  }
  // What the file tells needs no operands, which may be left out.
  [[nodiscard]] bool is_number() const {
    return op_->results.size() == 1 && from_.values[static_cast<std::size_t>(op_->results[0])].number.has_value();
  }
  [[nodiscard]] static Type sampled(Type type) {
    type.sizes = with_first(kSamples, type.sizes);
    return type;
  }
  [[nodiscard]] int operand(std::size_t k) const {
    expect(k < op_->operands.size(), "has too few operands");
    return now(op_->operands[k]);
  }
  [[nodiscard]] const Attributes& attributes() const { return op_->instruction->attributes; }
  [[noreturn]] void fail(const char* why) const {
    throw InputError(fmt::format(
        "{}:{}: {} {}, so that the module's one sample does not become several; lower it with 2 samples or more.",
        place_, op_->instruction->line, printable(called(*op_->instruction)), why));
  }
  void expect(bool condition, const char* why) const {
    if (!condition) fail(why);
  }

  void put(std::size_t k, int value) { now_[static_cast<std::size_t>(op_->results[k])] = value; }

  std::vector<int> add_all(const Instruction& instruction, const std::vector<int>& operands,
                           const std::vector<Type>& types, bool samples) {
    made_.instructions.push_back(instruction);
    FlatOp op{&made_.instructions.back(), operands, {}, op_->turn};
    for (const Type& type : types) {
      made_.types.push_back(type);
      op.results.push_back(static_cast<int>(made_.flat.values.size()));
      made_.flat.values.push_back({static_cast<int>(made_.flat.ops.size()), &made_.types.back()});
      samples_.push_back(samples);
    }
    made_.instructions.back().type = types[0];
    std::vector<int> results = op.results;
    made_.flat.ops.push_back(std::move(op));
    return results;
  }
  int add(const Instruction& instruction, const std::vector<int>& operands, const Type& type) {
    return add_all(instruction, operands, {type}, true)[0];
  }
  int add(const char* opcode, const std::vector<int>& operands, const Type& type, Numbers dimensions = {}) {
    Instruction made = *op_->instruction;
    made.opcode = opcode;
    made.calls.clear();
    made.attributes = {.dimensions = std::move(dimensions)};
    return add(made, operands, type);
  }

  void copy() {
    std::vector<int> operands;
    for (const int of : op_->operands)
      if (!is_number()) operands.push_back(now(of));
    std::vector<Type> types;
    for (const int result : op_->results) types.push_back(type_of(result));
    const std::vector<int> results = add_all(*op_->instruction, operands, types, false);
    for (std::size_t k = 0; k < results.size(); ++k) {
      made_.flat.values[static_cast<std::size_t>(results[k])].number =
          from_.values[static_cast<std::size_t>(op_->results[k])].number;
      put(k, results[k]);
    }
  }

  // --- forms ---

  [[nodiscard]] const std::string& element(int value) const {
    return made_.flat.values[static_cast<std::size_t>(value)].type->element;
  }
  int lifted(int value) {
    if (has_samples(value)) return value;
    return add("broadcast", {value}, {element(value), with_first(kSamples, sizes(value))},
               behind_samples(counted(sizes(value).size())));
  }
  int turned(int value, const Numbers& axes) {
    Type to{element(value), {}};
    for (const std::int64_t axis : axes) to.sizes.push_back(sizes(value)[static_cast<std::size_t>(axis)]);
    return add("transpose", {value}, to, axes);
  }
  int shaped(int value, const Numbers& to) { return add("reshape", {value}, {element(value), to}); }

  // The samples in front of dimension `at` of one sample, and one dimension with it.
  int joined(int value, std::size_t at) {
    Numbers order = counted(sizes(value).size()), to(sizes(value).begin() + 1, sizes(value).end());
    std::rotate(order.begin(), order.begin() + 1, order.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    to[at] *= kSamples;
    return shaped(turned(value, order), to);
  }
  // And in front of all again; `one`: the sizes of one sample.
  int parted(int value, std::size_t at, const Numbers& one) {
    const auto place = static_cast<std::ptrdiff_t>(at);
    Numbers to = one, back = counted(one.size() + 1);
    to.insert(to.begin() + place, kSamples);
    std::rotate(back.begin(), back.begin() + place, back.begin() + place + 1);
    return turned(shaped(value, to), back);
  }
  // An op whose results all have samples.
  void put_all(const Instruction& made, const std::vector<int>& operands) {
    std::vector<Type> types;
    for (const int result : op_->results) types.push_back(sampled(type_of(result)));
    const std::vector<int> results = add_all(made, operands, types, true);
    for (std::size_t k = 0; k < results.size(); ++k) put(k, results[k]);
  }

  void expand() {
    const std::string& opcode = op_->instruction->opcode;
    Instruction made = *op_->instruction;
    Attributes& a = made.attributes;
    const auto result = [&] { return sampled(type_of(op_->results[0])); };
    if (opcode == "broadcast") {
      a.dimensions = with_first(0, behind_samples(a.dimensions));
      return put(0, add(made, {operand(0)}, result()));
    }
    if (opcode == "reshape" || opcode == "bitcast") return put(0, add(made, {operand(0)}, result()));
    if (opcode == "transpose") {
      a.dimensions = with_first(0, behind_samples(a.dimensions));
      return put(0, add(made, {operand(0)}, result()));
    }
    if (opcode == "reduce") {
      const std::size_t tensors = op_->operands.size() / 2;  // the numbers that they start from stand behind them
      std::vector<int> operands;
      for (std::size_t k = 0; k < 2 * tensors; ++k) {
        expect(k < tensors || !has_samples(operand(k)), "reduces from data");
        operands.push_back(k < tensors ? lifted(operand(k)) : operand(k));
      }
      a.dimensions = behind_samples(a.dimensions);
      return put_all(made, operands);
    }
    if (opcode == "reverse" || opcode == "sort") {
      for (std::int64_t& dim : a.dimensions) dim += dim < 0 ? 0 : 1;
      return put_all(made, all_lifted());
    }
    if (rule_of(*op_->instruction) == choice_rule("topk")) return put_all(made, all_lifted());
    if (opcode == "dynamic-slice") return dynamic_slice(made);
    if (opcode == "dynamic-update-slice") {
      expect(op_->operands.size() >= 2, "has no update");
      std::vector<int> operands = {lifted(operand(0)), lifted(operand(1)), zero()};
      for (std::size_t k = 2; k < op_->operands.size(); ++k) {
        expect(!has_samples(operand(k)), "writes at a place that data tell");
        operands.push_back(operand(k));
      }
      return put(0, add(made, operands, result()));
    }
    if (opcode == "convolution") return convolution(made);
    if (opcode == "reduce-window") {
      expect(op_->operands.size() == 2 && !has_samples(operand(1)), "reduces several tensors, or from data");
      Window& window = a.window;
      for (Numbers* list : {&window.size, &window.stride, &window.base_dilation, &window.window_dilation})
        if (!list->empty()) *list = with_first(1, *list);
      for (Numbers* list : {&window.before, &window.after})
        if (!list->empty()) *list = with_first(0, *list);
      return put(0, add(made, {operand(0), operand(1)}, result()));
    }
    if (opcode == "slice") {
      a.start = with_first(0, a.start);
      a.limit = with_first(kSamples, a.limit);
      if (!a.stride.empty()) a.stride = with_first(1, a.stride);
      return put(0, add(made, {operand(0)}, result()));
    }
    if (opcode == "pad") {
      expect(op_->operands.size() == 2 && !has_samples(operand(1)), "pads with data");
      for (Numbers* list : {&a.low, &a.high, &a.interior})
        if (!list->empty() || list != &a.interior) *list = with_first(0, *list);
      return put(0, add(made, {operand(0), operand(1)}, result()));
    }
    if (opcode == "concatenate") {
      a.dimensions = behind_samples(a.dimensions);
      return put(0, add(made, all_lifted(), result()));
    }
    if (opcode == "dot") return dot(made);
    if (opcode == "gather") return gather(made);
    if (opcode == "batch-norm-training" || opcode == "batch-norm-inference") return batch_norm(made);
    if (opcode == "custom-call" && a.target == "AwsNeuronRmsNorm" && !a.backend.empty() &&
        a.backend.find_first_not_of("0123456789") == std::string::npos && a.backend.size() < 3) {
      a.backend = std::to_string(std::stoi(a.backend) + 1);  // the dimension that it normalises
      std::vector<int> operands;
      for (const int of : op_->operands) operands.push_back(now(of));
      return put(0, add(made, operands, result()));
    }
    if (opcode == "select" || opcode == "clamp" || is_elementwise()) return elementwise(made);
    fail("has no form for several samples");
  }

  std::vector<int> all_lifted() {
    std::vector<int> operands;
    for (const int of : op_->operands) operands.push_back(lifted(now(of)));
    return operands;
  }

  // All operands and results have one shape.
  [[nodiscard]] bool is_elementwise() const {
    const std::string& opcode = op_->instruction->opcode;
    const bool call = opcode == "custom-call";
    if (call ? !is_elementwise_call(op_->instruction->attributes.target) : elementwise_rule(opcode) == nullptr)
      return false;
    if (op_->results.size() != 1) return false;
    const Numbers& shape = type_of(op_->results[0]).sizes;
    return std::all_of(op_->operands.begin(), op_->operands.end(), [&](int of) { return type_of(of).sizes == shape; });
  }
  // A choice and bounds may have single numbers among their inputs.
  void elementwise(const Instruction& made) {
    const Numbers& shape = type_of(op_->results[0]).sizes;
    std::vector<int> operands;
    for (const int of : op_->operands) {
      const bool single = type_of(of).sizes.empty() && !shape.empty();
      if (single && has_samples(now(of)))
        operands.push_back(add("broadcast", {now(of)}, {element(now(of)), with_first(kSamples, shape)}, {0}));
      else
        operands.push_back(single ? now(of) : lifted(now(of)));
    }
    put(0, add(made, operands, sampled(type_of(op_->results[0]))));
  }

  // Samples are a batch of both, or the first dimension of the one that has them.
  void dot(Instruction& made) {
    expect(op_->operands.size() == 2, "has no two operands");
    Attributes& a = made.attributes;
    int x = operand(0), y = operand(1);
    const Type& of = type_of(op_->results[0]);
    if (!a.lhs_batch.empty()) x = lifted(x), y = lifted(y);
    const bool left = has_samples(x), right = has_samples(y);
    if (left) a.lhs_contracting = behind_samples(a.lhs_contracting), a.lhs_batch = behind_samples(a.lhs_batch);
    if (right) a.rhs_contracting = behind_samples(a.rhs_contracting), a.rhs_batch = behind_samples(a.rhs_batch);
    if (left && right) a.lhs_batch = with_first(0, a.lhs_batch), a.rhs_batch = with_first(0, a.rhs_batch);
    if (left) return put(0, add(made, {x, y}, sampled(of)));
    const std::size_t own = sizes(x).size() - std::min(sizes(x).size(), a.lhs_contracting.size());
    expect(own <= of.sizes.size(), "has another shape than its operands make");
    Type turned_type = of;
    turned_type.sizes.insert(turned_type.sizes.begin() + static_cast<std::ptrdiff_t>(own), kSamples);
    Numbers front = counted(turned_type.sizes.size());
    std::rotate(front.begin(), front.begin() + static_cast<std::ptrdiff_t>(own),
                front.begin() + static_cast<std::ptrdiff_t>(own) + 1);
    put(0, turned(add(made, {x, y}, turned_type), front));
  }

  // Samples are a batch of table and indices, or a dimension of what is looked up.
  void gather(Instruction& made) {
    expect(op_->operands.size() == 2, "has no two operands");
    Attributes& a = made.attributes;
    const bool of_table = has_samples(operand(0)), of_indices = has_samples(operand(1));
    a.offset_dims = behind_samples(a.offset_dims);
    if (of_table) {
      for (Numbers* list : {&a.collapsed_dims, &a.index_map, &a.operand_batch}) *list = behind_samples(*list);
      a.sizes = with_first(of_indices ? 1 : kSamples, a.sizes);
      if (of_indices) a.operand_batch = with_first(0, a.operand_batch);
      if (!of_indices) a.offset_dims = with_first(0, a.offset_dims);
    }
    if (of_indices) {
      a.index_batch = behind_samples(a.index_batch);
      if (of_table) a.index_batch = with_first(0, a.index_batch);
      ++a.index_vector_dim;
    }
    put(0, add(made, {operand(0), operand(1)}, sampled(type_of(op_->results[0]))));
  }

  int zero() {
    Instruction made = *op_->instruction;
    made.opcode = "constant";
    made.calls.clear();
    made.attributes = {.values = std::vector<double>{0.0}};
    const int value = add_all(made, {}, {{"s32"}}, false)[0];
    made_.flat.values[static_cast<std::size_t>(value)].number = 0.0;
    return value;
  }
  // Behind the samples of x, where it has them. REQUIRES: no start is of data.
  int dynamically_sliced(int x, const std::vector<int>& starts, const Numbers& to) {
    const bool samples = has_samples(x);
    std::vector<int> operands = {x};
    if (samples) operands.push_back(zero());
    operands.insert(operands.end(), starts.begin(), starts.end());
    Instruction made = *op_->instruction;
    made.attributes.sizes = samples ? with_first(kSamples, to) : to;
    return add_all(made, operands, {{element(x), made.attributes.sizes}}, samples)[0];
  }
  // Where data tell the place, it is looked up.
  void dynamic_slice(const Instruction& made) {
    int x = operand(0);
    const Numbers from = type_of(op_->operands[0]).sizes, to = made.attributes.sizes;
    expect(op_->operands.size() == from.size() + 1 && to.size() == from.size(), "lacks an index for a dimension");
    std::vector<int> starts;
    Numbers chosen, cut = to;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const int start = operand(d + 1);
      const bool of_data = has_samples(start);
      if (of_data && to[d] != from[d]) chosen.push_back(static_cast<std::int64_t>(d));
      if (of_data) cut[d] = from[d];
      starts.push_back(of_data ? zero() : start);
    }
    if (cut != from || chosen.empty()) x = dynamically_sliced(x, starts, cut);
    if (chosen.empty()) return put(0, x);
    std::vector<int> columns;
    for (const std::int64_t d : chosen)
      columns.push_back(shaped(operand(static_cast<std::size_t>(d) + 1), {kSamples, 1}));
    const auto count = static_cast<std::int64_t>(columns.size());
    const int indices =
        count == 1 ? columns[0] : add("concatenate", columns, {element(columns[0]), {kSamples, count}}, {1});
    const bool of_table = has_samples(x);
    Instruction looked_up = made;
    looked_up.opcode = "gather";
    looked_up.attributes = {.sizes = of_table ? with_first(1, to) : to,
                            .offset_dims = behind_samples(counted(to.size())),
                            .index_map = of_table ? behind_samples(chosen) : chosen,
                            .index_vector_dim = 1};
    if (of_table) looked_up.attributes.operand_batch = looked_up.attributes.index_batch = {0};
    put(0, add(looked_up, {x, indices}, sampled(type_of(op_->results[0]))));
  }

  // The images of all samples are a batch.
  void convolution(const Instruction& made) {
    const std::string& labels = made.attributes.dim_labels;
    const std::size_t in = labels.find('b'), arrow = labels.find("->");
    const std::size_t out = arrow == std::string::npos ? arrow : labels.find('b', arrow) - arrow - 2;
    const Numbers before = type_of(op_->operands[0]).sizes, after = type_of(op_->results[0]).sizes;
    expect(op_->operands.size() == 2 && !has_samples(operand(1)), "has weights of data");
    expect(in < before.size() && out < after.size(), "lacks its batch in dim_labels");
    const int images = joined(operand(0), in);
    Type type = type_of(op_->results[0]);
    type.sizes[out] *= kSamples;
    put(0, parted(add(made, {images, operand(1)}, type), out, after));
  }

  // What a value of equal elements repeats.
  [[nodiscard]] std::optional<int> number_of(int value) const {
    const FlatOp& op = made_.flat.ops[static_cast<std::size_t>(made_.flat.values[static_cast<std::size_t>(value)].op)];
    const bool repeats =
        op.instruction->opcode == "broadcast" && op.operands.size() == 1 && sizes(op.operands[0]).empty();
    return repeats ? std::optional(op.operands[0]) : std::nullopt;
  }
  int repeated(int number, const Numbers& to) { return add("broadcast", {number}, {element(number), to}); }

  // Each sample by itself: features of all samples side by side, as PyTorch writes the rows of a layer norm.
  void batch_norm(const Instruction& made) {
    const auto found = made.attributes.other.find("feature_index");
    const Numbers before = type_of(op_->results[0]).sizes;
    const std::size_t feature = found == made.attributes.other.end() || found->second.size() != 1
                                    ? before.size()
                                    : static_cast<std::size_t>(found->second[0] - '0');
    expect(feature < before.size() && op_->operands.size() >= 3, "lacks its feature_index");
    std::vector<int> operands = {joined(lifted(operand(0)), feature)};
    const Numbers sizes_now = sizes(operands[0]);
    for (std::size_t k = 1; k < op_->operands.size(); ++k)
      operands.push_back(number_of(operand(k)) ? repeated(*number_of(operand(k)), {sizes_now[feature]})
                                               : shaped(lifted(operand(k)), {sizes_now[feature]}));
    std::vector<Type> types;
    for (std::size_t k = 0; k < op_->results.size(); ++k)
      types.push_back({type_of(op_->results[k]).element, k == 0 ? sizes_now : Numbers{sizes_now[feature]}});
    const std::vector<int> results = add_all(made, operands, types, true);
    put(0, parted(results[0], feature, before));
    // The statistics beside it stay unmade: a model's forward reads none.
  }

  const FlatProgram& from_;
  const std::string& place_;
  SampledProgram made_;
  std::vector<int> now_;  // [value before]
  std::vector<bool> samples_;
  const FlatOp* op_ = nullptr;
};

}  // namespace

SampledProgram with_samples(const FlatProgram& flat, const std::vector<bool>& needed, const std::vector<bool>& data,
                            int result, const std::string& place) {
  return Sampler(flat, place).run(needed, data, result);
}

}  // namespace meshwright::xla
