// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/loops.h"

#include <algorithm>
#include <set>

#include "core/base/errors.h"

namespace meshwright::onnx {

namespace {

constexpr std::size_t kMaxUnrolledNodes = 1'000'000;
constexpr double kMaxLoopTurns = 512;

using Names = std::map<std::string, std::string>;

TensorValue whole_number(const std::string& name, std::int64_t value) {
  TensorValue tensor;
  tensor.name = name;
  tensor.type = 7;  // INT64
  tensor.single = {static_cast<double>(value)};
  return tensor;
}

class Loop {
 public:
  Loop(const OnnxNode& node, OnnxFile body, OnnxFile& file, std::size_t number, const std::string& place)
      : node_(node), body_(std::move(body)), file_(file), called_(fmt::format("loop{}", number)), place_(place) {}

  // The nodes of all turns; nothing where the loop stays.
  std::optional<std::vector<OnnxNode>> unrolled(const NumberOf& number_of) {
    if (node_.inputs.size() < 2 || node_.inputs[0].empty() || !fits()) return std::nullopt;
    const std::optional<double> turns = number_of(file_, node_.inputs[0]);
    const std::optional<double> begins = node_.inputs[1].empty() ? 1.0 : number_of(file_, node_.inputs[1]);
    if (!turns || !(*turns >= 0.0) || *turns > kMaxLoopTurns || begins != 1.0 || !goes_on(number_of))
      return std::nullopt;
    const auto count = static_cast<std::int64_t>(*turns);
    if (count == 0 && node_.outputs.size() > carried()) return std::nullopt;  // nothing to stack
    keep_initializers();
    std::vector<std::string> now(node_.inputs.begin() + 2, node_.inputs.end());
    std::vector<std::vector<std::string>> stacked(node_.outputs.size() - carried());
    for (std::int64_t turn = 0; turn < count; ++turn) add_turn(turn, now, stacked);
    for (std::size_t k = 0; k < carried(); ++k) add("Identity", {now[k]}, node_.outputs[k]);
    for (std::size_t j = 0; j < stacked.size(); ++j) add_stack(stacked[j], node_.outputs[carried() + j], j);
    return std::move(nodes_);
  }

 private:
  [[nodiscard]] std::size_t carried() const { return node_.inputs.size() - 2; }

  [[nodiscard]] bool fits() const {
    const auto has_graph = [](const OnnxNode& inner) {
      return std::any_of(inner.attributes.begin(), inner.attributes.end(),
                         [](const auto& of) { return of.second.graph; });
    };
    return body_.inputs.size() == node_.inputs.size() && body_.outputs.size() == node_.outputs.size() + 1 &&
           node_.outputs.size() >= carried() && std::none_of(body_.nodes.begin(), body_.nodes.end(), has_graph);
  }

  // Whether the condition that a turn makes is always true: the one it was given, or a constant.
  [[nodiscard]] bool goes_on(const NumberOf& number_of) const {
    std::string name = body_.outputs[0].name;
    for (std::size_t steps = 0; steps <= body_.nodes.size(); ++steps) {
      if (name == body_.inputs[1].name) return true;
      for (const TensorValue& tensor : body_.initializers)
        if (tensor.name == name) return is_true(tensor);
      const auto maker = std::find_if(body_.nodes.begin(), body_.nodes.end(), [&](const OnnxNode& inner) {
        return std::find(inner.outputs.begin(), inner.outputs.end(), name) != inner.outputs.end();
      });
      if (maker == body_.nodes.end()) return number_of(file_, name) == 1.0;
      if (maker->op == "Constant") {
        const auto value = maker->attributes.find("value");
        return value != maker->attributes.end() && value->second.tensor && is_true(*value->second.tensor);
      }
      if ((maker->op != "Identity" && maker->op != "Cast") || maker->inputs.size() != 1) return false;
      name = maker->inputs[0];
    }
    return false;
  }
  [[nodiscard]] bool is_true(const TensorValue& tensor) const {
    const auto values = values_of(tensor, 1, place_);
    return values && values->size() == 1 && values->front() == 1.0;
  }

  // Weights of the body, once for all turns.
  void keep_initializers() {
    std::set<std::string> taken;
    for (const TensorValue& tensor : file_.initializers) taken.insert(tensor.name);
    for (const OnnxValue& input : file_.inputs) taken.insert(input.name);
    for (const OnnxNode& other : file_.nodes) taken.insert(other.outputs.begin(), other.outputs.end());
    for (TensorValue tensor : body_.initializers) {
      const std::string name = taken.contains(tensor.name) ? fmt::format("{}.{}", tensor.name, called_) : tensor.name;
      shared_[tensor.name] = name;
      tensor.name = name;
      file_.initializers.push_back(std::move(tensor));
    }
    if (node_.inputs[1].empty()) file_.initializers.push_back(whole_number(called_ + ".goes_on", 1));
  }

  void add(const std::string& op, std::vector<std::string> inputs, const std::string& output, std::int64_t axis = -1) {
    if (output.empty()) return;
    OnnxNode made;
    made.inputs = std::move(inputs);
    made.outputs = {output};
    made.name = node_.name;
    made.op = op;
    made.scope = node_.scope;
    if (axis >= 0) made.attributes["axis"].number = axis;
    if (op == "Unsqueeze") made.attributes["axes"].numbers = {0};
    nodes_.push_back(std::move(made));
  }

  void add_turn(std::int64_t turn, std::vector<std::string>& now, std::vector<std::vector<std::string>>& stacked) {
    Names names = shared_;
    const std::string count = fmt::format("{}.turn{}", called_, turn);
    file_.initializers.push_back(whole_number(count, turn));
    names[body_.inputs[0].name] = count;
    names[body_.inputs[1].name] = node_.inputs[1].empty() ? called_ + ".goes_on" : node_.inputs[1];
    for (std::size_t k = 0; k < carried(); ++k) names[body_.inputs[k + 2].name] = now[k];
    for (const OnnxNode& inner : body_.nodes)
      for (const std::string& output : inner.outputs)
        if (!output.empty()) names[output] = fmt::format("{}.{}.{}", output, called_, turn);
    const auto called = [&](const std::string& name) {
      const auto known = names.find(name);
      return known == names.end() ? name : known->second;
    };
    require(file_.nodes.size() + nodes_.size() + body_.nodes.size() <= kMaxUnrolledNodes,
            "{}: its loops make more than {} nodes; export the model without them.", place_, kMaxUnrolledNodes);
    for (OnnxNode inner : body_.nodes) {
      for (std::vector<std::string>* of : {&inner.inputs, &inner.outputs})
        for (std::string& name : *of) name = called(name);
      if (inner.scope.empty()) inner.scope = node_.scope;
      nodes_.push_back(std::move(inner));
    }
    for (std::size_t k = 0; k < carried(); ++k) now[k] = called(body_.outputs[k + 1].name);
    for (std::size_t j = 0; j < stacked.size(); ++j)
      stacked[j].push_back(called(body_.outputs[carried() + 1 + j].name));
  }

  // What every turn makes, in a new first dimension.
  void add_stack(const std::vector<std::string>& pieces, const std::string& output, std::size_t j) {
    std::vector<std::string> wide;
    for (std::size_t turn = 0; turn < pieces.size() && !output.empty(); ++turn) {
      wide.push_back(fmt::format("{}.stacked{}.{}", called_, j, turn));
      add("Unsqueeze", {pieces[turn]}, wide.back());
    }
    if (!wide.empty()) add("Concat", wide, output, 0);
  }

  const OnnxNode& node_;
  const OnnxFile body_;
  OnnxFile& file_;
  const std::string called_, place_;
  Names shared_;
  std::vector<OnnxNode> nodes_;
};

}  // namespace

OnnxFile with_loops_unrolled(OnnxFile file, const NumberOf& number_of, const std::string& place) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    const OnnxNode node = file.nodes[i];
    const auto body = node.attributes.find("body");
    if (node.op != "Loop" || !node.domain.empty() || body == node.attributes.end()) continue;
    auto nodes = Loop(node, read_onnx_branch(body->second.branch, place), file, ++number, place).unrolled(number_of);
    if (!nodes) continue;
    const auto at = file.nodes.begin() + static_cast<std::ptrdiff_t>(i);
    file.nodes.insert(file.nodes.erase(at), nodes->begin(), nodes->end());
    i += nodes->size();
    --i;
  }
  return file;
}

}  // namespace meshwright::onnx
