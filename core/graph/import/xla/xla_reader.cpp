// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/xla_reader.h"

#include <algorithm>
#include <cctype>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/names.h"
#include "core/graph/import/primitive/emit/file_sharding.h"
#include "core/graph/import/xla/accumulated_program.h"
#include "core/graph/import/xla/argument_names.h"
#include "core/graph/import/xla/lowering.h"
#include "core/graph/import/xla/sampled_program.h"
#include "core/graph/import/xla/xla_roles.h"
#include "core/graph/import/xla/xla_summary.h"

namespace meshwright::xla {

namespace {

using primitive::Builder;
using primitive::kBatchProbe;
using primitive::Shape;

// The numbered part of a module's path in the framework's name: "h.3" of "jit(step)/jvp(GPT)/h_3/attn/dot_general".
std::string block_of_path(const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
    const std::string& part = parts[k];
    std::size_t digits = part.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(part[digits - 1])) != 0) --digits;
    if (digits == part.size() || digits < 2 || part.size() - digits > 6) continue;
    if (part[digits - 1] != '_' && part[digits - 1] != '.') continue;
    return printable(part.substr(0, digits - 1)) + "." + part.substr(digits);
  }
  return {};
}

class ProgramReader {
 public:
  ProgramReader(const Program& program, std::string place, Samples samples)
      : program_(program), place_(std::move(place)), samples_(samples), builder_(made_.module) {}

  ImportedProgram read() {
    expect_plannable();
    FlatProgram flat = flattened(program_, place_);
    expect_sane(flat);
    Roles roles = roles_of(program_, flat, place_);
    const std::optional<AccumulatedProgram> step = one_micro_batch(flat, roles);
    made_.dtype = roles.dtype;
    expect_known(flat, roles.needed, primitive::elements_of(type_of(flat, roles.result).sizes) == 1);
    SampledProgram several;
    made_.default_batch = (samples_ == Samples::AsWritten ? roles.batch : 1) * (step ? step->parts : 1);
    if (samples_ == Samples::OneOfSeveral) {
      several = one_of_several(flat, roles);
      flat = several.flat;
    }
    made_.module.batch = roles.batch;
    made_.module.notes = roles.notes;
    made_.module.file_ops = summary_of(program_).opcodes;
    Lowering lowering(program_, flat, builder_);
    add_arguments(flat, roles, lowering);
    for (std::size_t i = 0; i < flat.ops.size(); ++i)
      if (roles.needed[i]) lower(flat, flat.ops[i], lowering);
    builder_.name = "result";
    builder_.block.clear();
    const Lowered& result = lowering.of(roles.result);
    require(!result.random, "{}: the module's result is made of random numbers alone; give the module of a model.",
            place_);
    int node = lowering.whole(result);
    if (several.has_samples && result.shape.size() == 1)
      node = builder_.reduce(primitive::Kind::ReduceMean, node, {0}, false);
    if (primitive::elements_of(builder_.shape(node)) == 1) node = builder_.reshape(node, {});
    made_.module.result = node;
    return std::move(made_);
  }

  [[nodiscard]] bool may_have_one_sample() const {
    expect_plannable();
    FlatProgram flat = flattened(program_, place_);
    Roles roles = roles_of(program_, flat, place_);
    const std::optional<AccumulatedProgram> step = one_micro_batch(flat, roles);
    if (roles.batch == 1) return true;
    for (std::size_t p = 0; p < roles.roles.size(); ++p)
      if (roles.roles[p] == Role::Batch && type_of(flat, flat.parameters[p]).sizes.size() > 1) return false;
    return true;
  }

 private:
  [[nodiscard]] static const Type& type_of(const FlatProgram& flat, int value) {
    return *flat.values[static_cast<std::size_t>(value)].type;
  }

  // Makes the program and the roles those of one micro-batch, where the step adds several up.
  std::optional<AccumulatedProgram> one_micro_batch(FlatProgram& flat, Roles& roles) const {
    std::optional<AccumulatedProgram> step = of_one_micro_batch(program_, flat, roles);
    if (!step) return step;
    flat = step->flat;
    roles.result = step->result;
    roles.needed.assign(flat.ops.size(), true);
    roles.batch = step->samples;
    const auto samples = fmt::format("{} sample{}", step->samples, step->samples == 1 ? "" : "s");
    roles.notes.push_back(
        step->of_one_part
            ? fmt::format(
                  "the loss of the file is that of one of its {} micro-batches of {}: how many there are is the "
                  "plan's choice",
                  step->parts, samples)
            : fmt::format(
                  "the step of the file adds up {} micro-batches of {}: how many there are is the plan's choice",
                  step->parts, samples));
    return step;
  }

  // Makes the roles those of the program of several samples, too.
  SampledProgram one_of_several(const FlatProgram& flat, Roles& roles) const {
    std::vector<bool> data;
    for (std::size_t p = 0; p < roles.roles.size(); ++p)  // not the state of random numbers
      data.push_back(roles.roles[p] == Role::Batch && !type_of(flat, flat.parameters[p]).sizes.empty());
    SampledProgram several = with_samples(flat, roles.needed, data, roles.result, place_);
    require(several.has_samples, "{}: the module's result is made of weights alone; give the module of a model.",
            place_);
    roles.result = several.result;
    roles.needed.assign(several.flat.ops.size(), true);
    roles.batch = kSamples;
    roles.notes.emplace_back(
        "the module has one sample: each argument of data gets a dimension of samples in front, and the loss is the "
        "mean "
        "of theirs");
    return several;
  }

  void expect_plannable() const {
    require(
        !program_.cut_off && program_.entry >= 0,
        "{}: the text ends inside a computation, so that the module is not whole; `meshwright models FILE` describes "
        "what is there, give the whole module to plan it.",
        place_);
    require(
        program_.partitions <= 1,
        "{}: the module is already split for {} devices and holds their collectives; give the module before the "
        "SPMD partitioner (in XLA's dumps: before_optimizations; in JAX: lower().as_text(\"hlo\")), and `meshwright "
        "models FILE` to describe this one.",
        place_, program_.partitions);
  }

  // Sizes that can be multiplied, numbers of attributes that can be added.
  void expect_sane(const FlatProgram& flat) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    for (const FlatValue& value : flat.values) (void)primitive::elements_of(value.type->sizes);
    for (const FlatOp& op : flat.ops) {
      const Attributes& a = op.instruction->attributes;
      for (const std::vector<std::int64_t>* list : lists_of(a))
        for (const std::int64_t number : *list)
          require(number <= kMost && number >= -kMost,
                  "{}:{}: '{}' has an attribute of {}; give the text that XLA printed, "
                  "unchanged.",
                  place_, op.instruction->line, op.instruction->name, number);
      for (const std::int64_t number : {a.feature_groups, a.batch_groups, a.index_vector_dim})
        require(number >= 0 && number <= kMost,
                "{}:{}: '{}' has an attribute of {}; give the text that XLA printed, "
                "unchanged.",
                place_, op.instruction->line, op.instruction->name, number);
      for (const auto* list : {&a.window.size, &a.window.stride})
        for (const std::int64_t number : *list)
          require(number >= 1, "{}:{}: '{}' has a window of {}; give the text that XLA printed, unchanged.", place_,
                  op.instruction->line, op.instruction->name, number);
    }
  }

  // A scatter of a forward writes over what is there; those of gradients add.
  [[nodiscard]] bool overwrites(const Instruction& scatter) const {
    if (scatter.calls.empty()) return false;
    const Computation& called = program_.computations[static_cast<std::size_t>(scatter.calls.back())];
    return called.parameters.size() == 2 && called.root == called.parameters[1];
  }

  void expect_known(const FlatProgram& flat, const std::vector<bool>& needed, bool returns_loss) const {
    std::map<std::string, std::int64_t> unknown;
    for (std::size_t i = 0; i < flat.ops.size(); ++i) {
      const Instruction& of = *flat.ops[i].instruction;
      const bool told = flat.ops[i].results.size() == 1 &&
                        flat.values[static_cast<std::size_t>(flat.ops[i].results[0])].number.has_value();
      const bool counts = !of.type.is_tuple() && (of.type.element.front() == 's' || of.type.element.front() == 'u');
      const bool known = of.opcode == "scatter" ? counts || overwrites(of) : rule_of(of) != nullptr;
      if (needed[i] && !told && of.opcode != "parameter" && !known) ++unknown[printable(called(of))];
    }
    std::vector<std::string> texts;
    for (const auto& [name, count] : unknown) {
      const char* why = name == "conditional" ? ", whose branch the data decide"
                        : name == "scatter"   ? ", which adds to what is there"
                                              : "";
      texts.push_back(fmt::format("{} ({}{})", name, count, why));
    }
    // What only gradients need, in a module that returns no loss.
    bool gradients = false;
    if (!returns_loss)
      for (const char* of_backward : {"scatter", "select-and-scatter", "batch-norm-grad"})
        gradients = gradients || unknown.contains(of_backward);
    require(unknown.empty(), "{}: operations that have no equal here (with their number): {}; {}.", place_,
            join(texts, ", "),
            gradients
                ? "of a backward alone no model can be made: give the module of the forward, or of a whole training "
                  "step that returns its loss"
                : "see docs/models.md");
  }

  void add_arguments(const FlatProgram& flat, const Roles& roles, Lowering& lowering) {
    const std::vector<std::vector<int>> readers = readers_of(flat, roles.needed);
    for (std::size_t p = 0; p < flat.parameters.size(); ++p) {
      const int value = flat.parameters[p];
      const Type& type = *flat.values[static_cast<std::size_t>(value)].type;
      const FlatOp& op = flat.ops[static_cast<std::size_t>(flat.values[static_cast<std::size_t>(value)].op)];
      const Instruction& of = *op.instruction;
      builder_.name = name_of_argument(of);
      // All arguments may be elements of one tuple.
      const auto element =
          static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), value) - op.results.begin());
      if (op.results.size() > 1) builder_.name += fmt::format(".{}", element);
      builder_.block = block_of(builder_.name);
      Shape shape = type.sizes;
      switch (roles.roles[p]) {
        case Role::Unused:
          break;
        case Role::Key:
          lowering.set(value, {.shape = shape, .random = true});
          break;
        case Role::Mask:
          lowering.set(value, {builder_.constant(shape, false, std::nullopt), shape});
          break;
        case Role::Number:
          lowering.set(value, {builder_.scalar(1.0), shape});
          break;
        case Role::Batch:
          if (!shape.empty() && shape[0] == roles.batch) shape[0] = kBatchProbe;
          lowering.learn(type.sizes, shape);
          lowering.set(value, {builder_.input(builder_.name, shape, lowering.is_integer(value)), shape});
          break;
        case Role::Weight:
          lowering.set(value, {weight(primitive::element_sharding(of.attributes.sharding, op.results.size(), element),
                                      shape, stacked_axis(flat, roles.needed, readers, value)),
                               shape});
          break;
      }
    }
  }

  // A stack of layers' weights is put together of them, and comes apart again where each is read.
  int weight(const std::string& sharding, const Shape& shape, int axis) {
    const std::string name = builder_.name;
    const std::int64_t layers = axis < 0 ? 1 : shape[static_cast<std::size_t>(axis)];
    const auto keep_sharding = [&](const std::string& called, auto change) {
      if (sharding.empty()) return;
      made_.module.shardings[called] = change(primitive::file_sharding(sharding, shape.size()));
    };
    if (axis < 0 || shape.size() < 2) {
      keep_sharding(name, [](auto whole) { return whole; });
      return builder_.parameter(name, shape);
    }
    Shape one = shape;
    one.erase(one.begin() + axis);
    std::vector<int> pieces;
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string called = fmt::format("{}.{}", name, i);
      keep_sharding(
          called, [&](auto whole) { return primitive::without_dim(std::move(whole), static_cast<std::size_t>(axis)); });
      pieces.push_back(builder_.unsqueeze(builder_.parameter(called, one), {axis}));
    }
    return builder_.concat(pieces, axis);
  }

  void lower(const FlatProgram& flat, const FlatOp& op, Lowering& lowering) {
    const Instruction& of = *op.instruction;
    if (of.opcode == "parameter") return;
    builder_.name = of.name;
    builder_.block =
        op.turn >= 0 ? flat.turns[static_cast<std::size_t>(outermost(flat, op.turn))].name : block_of_path(of.op_name);
    try {
      const auto number =
          op.results.size() == 1 ? flat.values[static_cast<std::size_t>(op.results[0])].number : std::nullopt;
      if (number) {
        const int value = op.results[0];
        const int node = builder_.constant({}, lowering.is_integer(value), std::vector<double>{*number});
        return lowering.set(value, {node, lowering.type(value).sizes});
      }
      builder_.expect(!op.results.empty(), "it makes nothing");
      if (lower_random(lowering, op)) return;
      rule_of(of)(lowering, op);
      for (const int result : op.results) lowering.expect_sizes(result);
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("{}:{}: {} {}", place_, of.line, printable(called(of)), refusal_sentence(error.what())));
    }
  }

  const Program& program_;
  const std::string place_;
  const Samples samples_;
  ImportedProgram made_;
  Builder builder_;
};

}  // namespace

ImportedProgram module_of(const Program& program, const std::map<std::string, std::int64_t>& dims,
                          const std::string& place, Samples samples) {
  for (const auto& [name, size] : dims)
    throw InputError(
        fmt::format("--dim: '{}' leaves no dimension open, '{}' neither; leave the option out.", place, name));
  return ProgramReader(program, place, samples).read();
}

bool may_have_one_sample(const Program& program, const std::string& place) {
  return ProgramReader(program, place, Samples::AsWritten).may_have_one_sample();
}

}  // namespace meshwright::xla
