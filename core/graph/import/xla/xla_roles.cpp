// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/xla_roles.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/names.h"
#include "core/graph/import/xla/argument_names.h"
#include "core/graph/import/xla/xla_summary.h"

namespace meshwright::xla {

namespace {

constexpr double kForwardShare = 0.55;  // of a training step's products, at most
constexpr std::size_t kMaxLosses = 64;  // results that are looked at

bool is_float(const Type& type) { return type.element.starts_with("f") || type.element.starts_with("bf"); }
bool is_single(const Type& type) { return elements_of(type) == 1.0; }
bool is_key(const Type& type) { return type.element.starts_with("u") && elements_of(type) <= 4.0; }

// Ops that hand on one tensor in another form.
bool moves(const FlatOp& op) {
  for (const char* opcode : {"transpose", "reshape", "convert", "copy", "broadcast", "slice", "dynamic-slice",
                             "bitcast", "reduce-precision", "custom-call", "pad"})
    if (op.instruction->opcode == opcode)
      return op.results.size() == 1 && (op.instruction->opcode != "custom-call" || op.operands.size() == 1);
  return false;
}

class RoleFinder {
 public:
  RoleFinder(const Program& program, const FlatProgram& flat, const std::string& place)
      : program_(program), flat_(flat), place_(place) {
    for (const auto& [result, parameter] : program.aliases) aliased_.insert(parameter);
    for (const FlatOp& op : flat.ops)
      flops_.push_back(op.operands.size() < 2 ? 0.0
                                              : flops_of(*op.instruction, type(op.operands[0]), type(op.operands[1])));
  }

  Roles run() {
    choose_result();
    made_.needed = cone({made_.result});
    vote();
    find_batch();
    give_roles();
    find_dtype();
    return std::move(made_);
  }

 private:
  [[nodiscard]] const FlatValue& value(int v) const { return flat_.values[static_cast<std::size_t>(v)]; }
  [[nodiscard]] const Type& type(int v) const { return *value(v).type; }
  [[nodiscard]] const FlatOp& op_of(int v) const { return flat_.ops[static_cast<std::size_t>(value(v).op)]; }
  [[nodiscard]] bool is_parameter(int v) const { return op_of(v).instruction->opcode == "parameter"; }

  // Ops that lead to these values; numbers that the file tells need none.
  [[nodiscard]] std::vector<bool> cone(const std::vector<int>& of) const {
    std::vector<bool> reached(flat_.ops.size(), false);
    std::vector<bool> wanted(flat_.values.size(), false);
    for (const int v : of) wanted[static_cast<std::size_t>(v)] = true;
    for (std::size_t i = flat_.ops.size(); i-- > 0;) {
      const FlatOp& op = flat_.ops[i];
      bool open = false;
      for (const int result : op.results) {
        reached[i] = reached[i] || wanted[static_cast<std::size_t>(result)];
        open = open || (wanted[static_cast<std::size_t>(result)] && !value(result).number);
      }
      if (open)
        for (const int operand : op.operands) wanted[static_cast<std::size_t>(operand)] = true;
    }
    return reached;
  }

  [[nodiscard]] double work(const std::vector<bool>& ops) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i]) sum += flops_[i];
    return sum;
  }

  void choose_result();
  void expect_forward(const std::vector<int>& made) const;
  [[nodiscard]] std::int64_t expected_samples() const;
  void follow_samples(std::int64_t samples);
  [[nodiscard]] int samples_of(const FlatOp& op) const;
  void vote();
  void find_batch();
  void give_roles();
  [[nodiscard]] bool is_only_added(int of) const;
  void weigh_undecided();
  void find_dtype();

  const Program& program_;
  const FlatProgram& flat_;
  const std::string& place_;
  Roles made_;
  std::set<std::int64_t> aliased_;                         // numbers of parameters
  std::vector<double> flops_;                              // [op]
  std::vector<int> weight_votes_, data_votes_, compared_;  // [parameter]
  std::vector<int> samples_at_;                            // [value] the dimension of the samples; -1: unknown, or none
};

// A backward alone makes gradients: each result has the type of another argument.
void RoleFinder::expect_forward(const std::vector<int>& made) const {
  std::multiset<std::string> arguments;
  for (const int parameter : flat_.parameters) arguments.insert(text_of(type(parameter)));
  std::size_t matched = 0, gradients = 0;
  for (const int v : made) {
    if (!is_float(type(v)) || is_single(type(v))) continue;
    ++gradients;
    const auto same = arguments.find(text_of(type(v)));
    if (same == arguments.end()) continue;
    arguments.erase(same);
    ++matched;
  }
  require(
      gradients < 3 || matched < gradients,
      "{}: the module makes {} gradients and no loss: it is a backward alone; give the module of the forward, or of "
      "a whole training step that returns its loss.",
      place_, gradients);
}

void RoleFinder::choose_result() {
  std::vector<int> made;  // results that the program makes, not those that it hands through
  std::set<int> updated;  // those that are written over an argument
  bool updates = false;
  for (std::size_t k = 0; k < flat_.results.size(); ++k) {
    const int v = flat_.results[k];
    if (is_parameter(v)) continue;
    made.push_back(v);
    if (program_.aliases.contains(static_cast<std::int64_t>(k))) updated.insert(v);
    // A cache is written into, a weight is computed anew.
    const std::string& opcode = op_of(v).instruction->opcode;
    const bool cache = opcode == "dynamic-update-slice" || opcode == "scatter" || opcode == "concatenate";
    updates = updates || (program_.aliases.contains(static_cast<std::int64_t>(k)) && is_float(type(v)) &&
                          !is_single(type(v)) && !cache);
  }
  require(!made.empty(), "{}: the module computes nothing; give the module of a model.", place_);
  const double all = work(cone(made));
  require(
      all > 0.0,
      "{}: the module has no product of matrices and no convolution: it is the update of an optimizer, or no model; "
      "give the module of the forward, or of a whole training step.",
      place_);
  struct Candidate {
    int value;
    double work;
    std::ptrdiff_t ops;
  };
  std::vector<Candidate> losses;
  for (const int v : made) {
    const bool rewritten = updated.contains(v) && !type(v).sizes.empty();  // a weight of one element
    if (!is_float(type(v)) || !is_single(type(v)) || rewritten || losses.size() == kMaxLosses) continue;
    const std::vector<bool> leading = cone({v});
    const double own = work(leading);
    if (own > 0.0) losses.push_back({v, own, std::count(leading.begin(), leading.end(), true)});
  }
  const auto better = [&](const Candidate& a, const Candidate& b) {
    const bool forward_a = a.work <= kForwardShare * all, forward_b = b.work <= kForwardShare * all;
    if (forward_a != forward_b) return forward_a;
    return a.work != b.work ? a.work > b.work : a.ops > b.ops;
  };
  if (!losses.empty()) {
    made_.result = std::min_element(losses.begin(), losses.end(), better)->value;
    const bool more = work(cone({made_.result})) <= kForwardShare * all;
    if (more) made_.notes.push_back("the backward and the update of the file are left out: ours are planned");
    return;
  }
  require(!updates,
          "{}: the module updates weights but returns no loss, so that its forward cannot be told from its backward; "
          "return the loss from the step too.",
          place_);
  expect_forward(made);
  const auto first =
      std::find_if(made.begin(), made.end(), [&](int v) { return is_float(type(v)) && work(cone({v})) > 0.0; });
  require(first != made.end(),
          "{}: none of the module's results is made by a product of floating-point numbers; give "
          "the module of a model.",
          place_);
  made_.result = *first;
  const std::string name = op_of(*first).instruction->name;
  if (made.size() > 1)
    made_.notes.push_back(
        fmt::format("'{}' is the model's result; {} other result{} and what only they need are left out", name,
                    made.size() - 1, made.size() == 2 ? "" : "s"));
}

// As the result or an input of integers tells them; 0: neither does.
std::int64_t RoleFinder::expected_samples() const {
  if (!type(made_.result).sizes.empty()) return type(made_.result).sizes[0];
  for (const int parameter : flat_.parameters)
    if (!is_float(type(parameter)) && !is_key(type(parameter)) && !type(parameter).sizes.empty() &&
        made_.needed[static_cast<std::size_t>(value(parameter).op)] && type(parameter).sizes[0] != 0)
      return type(parameter).sizes[0];
  return 0;
}

// Where the samples of the inputs of integers are in what is computed of them. Sizes alone do not tell: there may be as
// many experts, or positions, as samples.
void RoleFinder::follow_samples(std::int64_t samples) {
  samples_at_.assign(flat_.values.size(), -1);
  for (const int parameter : flat_.parameters)
    if (!is_float(type(parameter)) && !is_key(type(parameter)) && !type(parameter).sizes.empty() &&
        type(parameter).sizes[0] == samples)
      samples_at_[static_cast<std::size_t>(parameter)] = 0;
  for (std::size_t i = 0; i < flat_.ops.size(); ++i) {
    const FlatOp& op = flat_.ops[i];
    if (!made_.needed[i] || op.operands.empty()) continue;
    const int at = samples_of(op);
    for (const int result : op.results) {
      const std::vector<std::int64_t>& sizes = type(result).sizes;
      const bool fits = at >= 0 && at < static_cast<int>(sizes.size()) &&
                        sizes[static_cast<std::size_t>(at)] % std::max<std::int64_t>(samples, 1) == 0;
      samples_at_[static_cast<std::size_t>(result)] = fits ? at : -1;
    }
  }
}

// The dimension of the samples in an op's results; -1: unknown, or none.
int RoleFinder::samples_of(const FlatOp& op) const {
  const auto at = [&](std::size_t k) {
    return k < op.operands.size() ? samples_at_[static_cast<std::size_t>(op.operands[k])] : -1;
  };
  const auto rank = [&](std::size_t k) { return type(op.operands[k]).sizes.size(); };
  const auto place = [](const std::vector<std::int64_t>& list, int axis) {
    const auto found = std::find(list.begin(), list.end(), axis);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
  };
  if (op.results.empty()) return -1;
  const Attributes& a = op.instruction->attributes;
  const std::string& opcode = op.instruction->opcode;
  if (opcode == "dot") {
    const int batch = static_cast<int>(a.lhs_batch.size());
    int before = batch;  // own dimensions of the left operand come behind the batch, then those of the right one
    for (const std::size_t k : {0u, 1u}) {
      const auto &own_batch = k == 0 ? a.lhs_batch : a.rhs_batch,
                 &summed = k == 0 ? a.lhs_contracting : a.rhs_contracting;
      if (at(k) >= 0 && place(own_batch, at(k)) >= 0) return place(own_batch, at(k));
      int own = 0;
      for (int d = 0; k < op.operands.size() && d < static_cast<int>(rank(k)); ++d) {
        if (place(own_batch, d) >= 0 || place(summed, d) >= 0) continue;
        if (d == at(k)) return before + own;
        ++own;
      }
      before += own;
    }
    return -1;
  }
  if (opcode == "gather" && at(1) >= 0 && op.results.size() == 1) {
    int index = at(1) - (a.index_vector_dim < at(1) ? 1 : 0);  // among the result's dimensions that are no offsets
    for (int d = 0; d < static_cast<int>(type(op.results[0]).sizes.size()); ++d)
      if (place(a.offset_dims, d) < 0 && index-- == 0) return d;
    return -1;
  }
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (at(k) < 0) continue;
    if (opcode == "broadcast")
      return static_cast<std::size_t>(at(k)) < a.dimensions.size()
                 ? static_cast<int>(a.dimensions[static_cast<std::size_t>(at(k))])
                 : -1;
    if (opcode == "transpose") return place(a.dimensions, at(k));
    if (opcode == "reduce") {
      int kept = at(k);
      for (const std::int64_t axis : a.dimensions) kept -= axis < at(k) ? 1 : 0;
      return place(a.dimensions, at(k)) >= 0 ? -1 : kept;
    }
    if (opcode == "reshape" || opcode == "bitcast") {
      double before = 1.0, met = 1.0;
      for (int d = 0; d < at(k); ++d)
        before *= static_cast<double>(type(op.operands[k]).sizes[static_cast<std::size_t>(d)]);
      const std::vector<std::int64_t>& to = type(op.results[0]).sizes;
      for (std::size_t d = 0; d < to.size(); met *= static_cast<double>(to[d++]))
        if (met == before && to[d] != 1) return static_cast<int>(d);
      return -1;
    }
    return rank(k) == type(op.results[0]).sizes.size() ? at(k) : -1;
  }
  return -1;
}

// Which arguments products, tables and norms read as weights, and which as data.
void RoleFinder::vote() {
  weight_votes_.assign(flat_.parameters.size(), 0);
  data_votes_ = weight_votes_;
  compared_.assign(flat_.parameters.size(), 0);
  std::vector<int> origin(flat_.values.size(), -1);
  for (std::size_t p = 0; p < flat_.parameters.size(); ++p)
    origin[static_cast<std::size_t>(flat_.parameters[p])] = static_cast<int>(p);
  const std::int64_t samples = expected_samples();
  follow_samples(samples);
  const auto has_samples = [&](int p) {
    const std::vector<std::int64_t>& sizes = type(flat_.parameters[static_cast<std::size_t>(p)]).sizes;
    return !sizes.empty() && sizes[0] == samples;
  };
  // Whether dimension 0 of the argument is still dimension 0, as the batch is.
  std::vector<bool> leads(flat_.values.size(), true);
  const auto from = [&](const FlatOp& op, std::size_t k) { return origin[static_cast<std::size_t>(op.operands[k])]; };
  for (std::size_t i = 0; i < flat_.ops.size(); ++i) {
    const FlatOp& op = flat_.ops[i];
    if (!made_.needed[i] || op.operands.empty()) continue;
    const std::string& opcode = op.instruction->opcode;
    if (moves(op)) {
      const auto result = static_cast<std::size_t>(op.results[0]);
      const std::vector<std::int64_t>&dims = op.instruction->attributes.dimensions,
            &before = type(op.operands[0]).sizes, &after = type(op.results[0]).sizes;
      const bool moved = (opcode == "broadcast" || opcode == "transpose") && (dims.empty() || dims[0] != 0);
      origin[result] = from(op, 0);
      leads[result] = leads[static_cast<std::size_t>(op.operands[0])] && !moved && !before.empty() && !after.empty() &&
                      before[0] == after[0];
      continue;
    }
    for (std::size_t k = 0; k < op.operands.size(); ++k)
      if (from(op, k) >= 0) {
        int& compared = compared_[static_cast<std::size_t>(from(op, k))];
        compared = opcode == "compare" && compared >= 0 ? 1 : -1;  // -1: read by others too
      }
    if (opcode == "gather" && from(op, 0) >= 0) ++weight_votes_[static_cast<std::size_t>(from(op, 0))];
    if (op.operands.size() != 2) continue;
    const int x = from(op, 0), y = from(op, 1);
    if (opcode == "dot" || opcode == "convolution") {
      // The left one of two arguments is the data, unless the right one alone has as many samples as is expected.
      const bool turned = x >= 0 && y >= 0 && !has_samples(x) && has_samples(y);
      if (y >= 0) ++(turned ? data_votes_ : weight_votes_)[static_cast<std::size_t>(y)];
      if (x >= 0 && x != y) ++(y >= 0 && !turned ? data_votes_ : weight_votes_)[static_cast<std::size_t>(x)];
    } else if (x < 0 || y < 0) {  // a row that is added to, or scales, what was computed
      const int one = std::max(x, y);
      if (one < 0 || op.results.size() != 1) continue;
      const Type& argument = type(flat_.parameters[static_cast<std::size_t>(one)]);
      const std::size_t row = x < 0 ? 1 : 0;
      const bool elsewhere = samples_at_[static_cast<std::size_t>(op.operands[1 - row])] > 0;
      if (elements_of(argument) < elements_of(type(op.results[0])) &&
          (elsewhere || !leads[static_cast<std::size_t>(op.operands[row])]))
        ++weight_votes_[static_cast<std::size_t>(one)];
    }
  }
}

void RoleFinder::find_batch() {
  int first = -1;
  const auto consider = [&](auto fits) {
    for (std::size_t p = 0; p < flat_.parameters.size() && first < 0; ++p) {
      const int v = flat_.parameters[p];
      const bool used = made_.needed[static_cast<std::size_t>(value(v).op)];
      const bool data = !aliased_.contains(static_cast<std::int64_t>(p)) && !is_key(type(v)) && !type(v).sizes.empty();
      if (used && data && fits(p, type(v))) first = v;
    }
  };
  // Positions and the like have one row for all samples.
  consider([](std::size_t, const Type& of) { return !is_float(of) && of.sizes.size() >= 2 && of.sizes[0] > 1; });
  consider([](std::size_t, const Type& of) { return !is_float(of) && of.sizes.size() >= 2; });
  consider([](std::size_t, const Type& of) { return !is_float(of); });
  consider([&](std::size_t p, const Type&) { return data_votes_[p] > 0; });
  consider([&](std::size_t p, const Type& of) { return weight_votes_[p] == 0 && of.sizes.size() >= 2; });
  consider([&](std::size_t p, const Type&) { return weight_votes_[p] == 0; });
  require(first >= 0,
          "{}: every argument of the module is a weight, so that it has no input with a batch; give a module whose "
          "arguments include the data.",
          place_);
  made_.batch = type(first).sizes[0];
  require(made_.batch > 0, "{}: the first input is empty; give a module of a batch of at least 1.", place_);
}

void RoleFinder::give_roles() {
  int numbers = 0;
  for (std::size_t p = 0; p < flat_.parameters.size(); ++p) {
    const int v = flat_.parameters[p];
    const Type& of = type(v);
    Role role = Role::Batch;
    if (!made_.needed[static_cast<std::size_t>(value(v).op)])
      role = Role::Unused;
    else if (is_key(of))
      role = Role::Key;
    else if (!is_float(of))
      role = Role::Batch;
    else if (of.sizes.empty())
      role = Role::Number;
    else if (compared_[p] > 0)
      role = Role::Mask;
    else if (aliased_.contains(static_cast<std::int64_t>(p)))
      role = Role::Weight;
    else if (weight_votes_[p] > 0 && data_votes_[p] == 0)
      role = Role::Weight;
    else if (data_votes_[p] == 0 && of.sizes[0] != made_.batch)
      role = Role::Weight;
    if (role == Role::Number) ++numbers;
    made_.roles.push_back(role);
  }
  weigh_undecided();
  if (numbers > 0)
    made_.notes.push_back(fmt::format("{} number{} that the module is given at run time {} taken as 1", numbers,
                                      numbers == 1 ? "" : "s", numbers == 1 ? "is" : "are"));
}

// Whether all that is done with a value, but for its layout, is to add it to computed numbers or to put it beside them.
// An image is scaled, or shifted by numbers of the file.
bool RoleFinder::is_only_added(int of) const {
  const auto is_number = [&](int v) {
    while (moves(op_of(v))) v = op_of(v).operands[0];
    return op_of(v).instruction->opcode == "constant" || value(v).number.has_value();
  };
  std::set<int> forms = {of};
  for (std::size_t i = 0; i < flat_.ops.size(); ++i) {
    const FlatOp& op = flat_.ops[i];
    const bool reads = std::any_of(op.operands.begin(), op.operands.end(), [&](int v) { return forms.contains(v); });
    if (!made_.needed[i] || !reads) continue;
    if (moves(op)) {
      if (!forms.contains(op.operands[0])) return false;
      forms.insert(op.results.begin(), op.results.end());
      continue;
    }
    const std::string& opcode = op.instruction->opcode;
    if (opcode != "add" && opcode != "concatenate") return false;
    if (std::any_of(op.operands.begin(), op.operands.end(), is_number)) return false;
  }
  return true;
}

// An argument that is only added or put beside others, with as many rows as the batch has: a table of positions of one
// row, or one of as many positions as there are samples. It is a weight as the other elements of its tree are; where
// the file has no names, those that stand beside weights are of their tree, if the batch is of one element.
void RoleFinder::weigh_undecided() {
  const std::size_t count = flat_.parameters.size();
  const auto argument = [&](std::size_t p) -> const Instruction& { return *op_of(flat_.parameters[p]).instruction; };
  const auto undecided = [&](std::size_t p) {
    return made_.roles[p] == Role::Batch && is_float(type(flat_.parameters[p])) && data_votes_[p] == 0;
  };
  std::map<std::string, bool> weights;  // trees of weights, true: of nothing else
  bool known = false, rows = true;      // there is other data; it has no more than one dimension
  for (std::size_t p = 0; p < count; ++p) {
    if (made_.roles[p] == Role::Unused || undecided(p)) continue;
    const bool data = made_.roles[p] == Role::Batch;
    const std::string tree = tree_of_argument(argument(p));
    if (data || made_.roles[p] == Role::Weight) {
      const auto [at, added] = weights.emplace(tree, !data);
      at->second = at->second && !data;
    }
    known = known || data;
    rows = rows && (!data || type(flat_.parameters[p]).sizes.size() <= 1);
  }
  for (std::size_t p = 0; known && p < count; ++p) {
    if (!undecided(p)) continue;
    const std::string tree = tree_of_argument(argument(p));
    const auto found = weights.find(tree);
    const std::size_t rank = type(flat_.parameters[p]).sizes.size();
    const bool beside =
        (p > 0 && made_.roles[p - 1] == Role::Weight) || (p + 1 < count && made_.roles[p + 1] == Role::Weight);
    const bool alone = made_.batch == 1 || (rows && rank > 1);
    if (tree.empty() ? !alone || !beside || !is_only_added(flat_.parameters[p])
                     : found == weights.end() || !found->second)
      continue;
    made_.roles[p] = Role::Weight;
    if (tree.empty())
      made_.notes.push_back(
          fmt::format("'{}', which nothing but its place among the arguments tells from data, is a weight",
                      printable(argument(p).name)));
  }
}

void RoleFinder::find_dtype() {
  std::map<std::string, double> by_element;
  for (std::size_t i = 0; i < flat_.ops.size(); ++i)
    if (made_.needed[i] && flops_[i] > 0.0) by_element[type(flat_.ops[i].operands[0]).element] += flops_[i];
  const auto most = std::max_element(by_element.begin(), by_element.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == by_element.end()) return;
  made_.dtype = most->first == "f32"   ? DType::F32
                : most->first == "f64" ? DType::F64
                : most->first == "f16" ? DType::F16
                                       : DType::BF16;
}

}  // namespace

Roles roles_of(const Program& program, const FlatProgram& flat, const std::string& place) {
  return RoleFinder(program, flat, place).run();
}

}  // namespace meshwright::xla
