// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/hlo_text.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/names.h"
#include "core/graph/import/xla/hlo_attributes.h"
#include "core/graph/import/xla/hlo_cursor.h"
#include "core/graph/import/xla/library_calls.h"
#include "core/graph/import/xla/xla_order.h"
#include "core/graph/import/xla/xla_summary.h"

namespace meshwright::xla {

namespace {

constexpr std::string_view kHeader = "HloModule";
constexpr std::size_t kMaxPreamble = 1 << 12;  // bytes before the module

bool is_collective(std::string_view opcode) {
  for (const std::string_view name : {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
                                      "ragged-all-to-all", "collective-broadcast"})
    if (opcode.starts_with(name)) return true;
  return false;
}

class HloReader {
 public:
  HloReader(std::string_view text, const std::string& place) : cursor_(text, place) {}
  Program read();

 private:
  void read_header();
  void read_aliases(std::string_view list);
  void read_donors(std::string_view list);
  void read_computation();
  bool read_instruction(Computation& into);
  void read_operands(Computation& into, Instruction& instruction, std::string_view list);
  void read_attributes(Instruction& instruction, std::size_t computation);
  void resolve_calls();
  void match_donors();
  void count_partitions(std::int64_t of_header);

  HloCursor cursor_;
  Program program_;
  std::unordered_map<std::string_view, int> computations_;
  std::unordered_map<std::string_view, int> instructions_;  // of the computation that is read
  struct Call {
    std::size_t computation, instruction;
    std::vector<std::string_view> names;
  };
  std::vector<Call> calls_;
  std::vector<std::int64_t> donors_;
  std::int64_t partitions_ = 1;
};

// "{0}: (18, {}, may-alias), {1}: (53, {}, may-alias)"
void HloReader::read_aliases(std::string_view list) {
  for (const std::string_view piece : pieces_of(list)) {
    const std::size_t open = piece.find('('), close = piece.find('}');
    if (open == std::string_view::npos || close == std::string_view::npos || !piece.starts_with("{"))
      cursor_.fail("input_output_alias is no list of {result}: (parameter, ...)");
    const std::vector<std::int64_t> result = integers_of(piece.substr(0, close + 1));
    const std::size_t comma = piece.find_first_of(",)", open);
    std::int64_t parameter = 0;
    if (comma == std::string_view::npos || !integer_of(trimmed(piece.substr(open + 1, comma - open - 1)), parameter))
      cursor_.fail("input_output_alias is no list of {result}: (parameter, ...)");
    if (result.size() <= 1) program_.aliases.emplace(result.empty() ? 0 : result[0], parameter);
  }
}

// "(0, {}), (1, {})"
void HloReader::read_donors(std::string_view list) {
  for (const std::string_view piece : pieces_of(list)) {
    const std::size_t comma = piece.find_first_of(",)");
    std::int64_t parameter = 0;
    if (comma == std::string_view::npos || !piece.starts_with("(") ||
        !integer_of(trimmed(piece.substr(1, comma - 1)), parameter))
      cursor_.fail("buffer_donor is no list of (parameter, ...)");
    donors_.push_back(parameter);
  }
}

void HloReader::read_header() {
  cursor_.skip_space();
  program_.name = printable(cursor_.name());
  while (cursor_.take(",")) {
    while (cursor_.peek() == ' ') cursor_.advance(1);
    const std::string_view key = cursor_.name();
    if (!cursor_.take("=")) cursor_.fail(fmt::format("'{}' of the module lacks its value", printable(key)));
    const std::string_view value = cursor_.value();
    const std::string_view inner =
        value.size() >= 2 && value.front() == '{' ? value.substr(1, value.size() - 2) : value;
    if (key == "input_output_alias") read_aliases(inner);
    if (key == "buffer_donor") read_donors(inner);
    if (key == "num_partitions" && (!integer_of(value, partitions_) || partitions_ < 1 || partitions_ > 1 << 24))
      cursor_.fail("num_partitions is no number of devices");
  }
  cursor_.skip_line();
}

// "[type] %name": the name
std::string_view operand_name(std::string_view piece) {
  const std::size_t space = piece.find_last_of(" %");
  return space == std::string_view::npos ? piece : piece.substr(space + 1);
}

void HloReader::read_operands(Computation& into, Instruction& instruction, std::string_view list) {
  if (instruction.opcode == "constant") {
    instruction.attributes.values = constant_values(list);
    if (instruction.attributes.values && instruction.attributes.values->empty()) instruction.attributes.values.reset();
    return;
  }
  if (instruction.opcode == "parameter") {
    std::int64_t number = 0;
    if (!integer_of(trimmed(list), number) || number < 0 || number > 1 << 24)
      cursor_.fail(fmt::format("parameter '{}' has no number", printable(instruction.name)));
    instruction.attributes.index = number;
    if (into.parameters.size() <= static_cast<std::size_t>(number))
      into.parameters.resize(static_cast<std::size_t>(number) + 1, -1);
    into.parameters[static_cast<std::size_t>(number)] = static_cast<int>(into.instructions.size());
    return;
  }
  for (const std::string_view piece : pieces_of(list)) {
    const std::string_view name = operand_name(piece);
    const auto found = instructions_.find(name);
    if (found == instructions_.end())
      cursor_.fail(
          fmt::format("'{}' reads '{}', which nothing before it makes", printable(instruction.name), printable(name)));
    instruction.operands.push_back(found->second);
  }
}

void HloReader::read_attributes(Instruction& instruction, std::size_t computation) {
  std::vector<std::string_view> called;
  while (cursor_.take(",")) {
    cursor_.skip_space();
    const std::string_view key = cursor_.name();
    if (!cursor_.take("="))
      cursor_.fail(fmt::format("'{}' of '{}' lacks its value", printable(key), printable(instruction.name)));
    const std::string_view value = cursor_.value();
    if (!read_attribute(key, value, instruction, called))
      cursor_.fail(fmt::format("'{}' of '{}' cannot be '{}'", printable(key), printable(instruction.name),
                               printable(value.substr(0, 80))));
  }
  if (!called.empty()) calls_.push_back({computation, program_.computations[computation].instructions.size(), called});
}

// False where the computation ends.
bool HloReader::read_instruction(Computation& into) {
  cursor_.skip_space();
  if (cursor_.take("}")) return false;
  Instruction instruction;
  instruction.line = cursor_.line();
  const bool root = cursor_.take("ROOT ");
  cursor_.skip_space();
  const std::string_view name = cursor_.name();
  instruction.name = printable(name);
  while (cursor_.peek() == ' ') cursor_.advance(1);
  if (name.empty() || !cursor_.take("=")) cursor_.fail("an instruction is expected: %name = type opcode(operands)");
  instruction.type = cursor_.type();
  while (cursor_.peek() == ' ') cursor_.advance(1);
  instruction.opcode = printable(cursor_.name());
  if (instruction.opcode.empty() || cursor_.peek() != '(')
    cursor_.fail(fmt::format("'{}' lacks its operands in brackets", instruction.name));
  read_operands(into, instruction, cursor_.balanced());
  while (cursor_.peek() == ' ') cursor_.advance(1);
  read_attributes(instruction, program_.computations.size() - 1);
  if (instruction.opcode == "get-tuple-element" && instruction.operands.size() != 1)
    cursor_.fail(fmt::format("'{}' takes an element of nothing", instruction.name));
  if (!instructions_.emplace(name, static_cast<int>(into.instructions.size())).second)
    cursor_.fail(fmt::format("'{}' is made twice", instruction.name));
  if (root) into.root = static_cast<int>(into.instructions.size());
  into.instructions.push_back(std::move(instruction));
  return true;
}

void HloReader::read_computation() {
  const bool entry = cursor_.take("ENTRY ");
  cursor_.skip_space();
  const std::string_view name = cursor_.name();
  const std::string_view line = cursor_.rest_of_line();
  const std::size_t open = line.rfind('{');
  if (name.empty() || open == std::string_view::npos || !trimmed(line.substr(open + 1)).empty()) {
    if (line.size() == cursor_.rest().size()) {  // the last line of the text
      cursor_.skip_line();
      program_.cut_off = true;
      return;
    }
    cursor_.fail("a computation is expected: %name (parameters) -> type {");
  }
  cursor_.advance(open + 1);
  if (!computations_.emplace(name, static_cast<int>(program_.computations.size())).second)
    cursor_.fail(fmt::format("computation '{}' is there twice", printable(name)));
  if (entry) {
    if (program_.entry >= 0) cursor_.fail("a second ENTRY begins");
    program_.entry = static_cast<int>(program_.computations.size());
  }
  program_.computations.push_back({printable(name)});
  instructions_.clear();
  for (bool more = true; more;) {
    Computation& into = program_.computations.back();
    cursor_.skip_space();
    const std::string_view rest = cursor_.rest();
    try {
      if (cursor_.at_end()) cursor_.fail("the text ends");
      more = read_instruction(into);
    } catch (const InputError&) {
      // Only the last instruction of a text is cut off.
      if (rest.find("\n}") != std::string_view::npos || !cursor_.at_end()) throw;
      program_.cut_off = true;
      if (!calls_.empty() && calls_.back().computation + 1 == program_.computations.size() &&
          calls_.back().instruction == into.instructions.size())
        calls_.pop_back();
      for (int& parameter : into.parameters)
        if (parameter == static_cast<int>(into.instructions.size())) parameter = -1;
      return;
    }
  }
  Computation& made = program_.computations.back();
  if (made.instructions.empty()) cursor_.fail(fmt::format("computation '{}' is empty", made.name));
  if (made.root < 0) made.root = static_cast<int>(made.instructions.size()) - 1;
  cursor_.skip_line();
}

void HloReader::resolve_calls() {
  for (const Call& call : calls_) {
    Instruction& caller = program_.computations[call.computation].instructions[call.instruction];
    for (const std::string_view name : call.names) {
      const auto found = computations_.find(name);
      if (found == computations_.end() && program_.cut_off) continue;
      require(found != computations_.end(), "{}:{}: '{}' calls '{}', which the module lacks; give the whole module.",
              cursor_.place(), caller.line, caller.name, printable(name));
      caller.calls.push_back(found->second);
    }
  }
}

// What is given away is written over by the first result of its type that nothing else is written to.
void HloReader::match_donors() {
  if (program_.entry < 0 || donors_.empty()) return;
  const Computation& entry = program_.computations[static_cast<std::size_t>(program_.entry)];
  if (entry.root < 0) return;
  const Type& result = entry.instructions[static_cast<std::size_t>(entry.root)].type;
  const std::vector<Type> results = result.is_tuple() ? result.parts : std::vector<Type>{result};
  std::sort(donors_.begin(), donors_.end());
  std::map<std::string, std::vector<std::int64_t>> free;  // results by type, the first one last
  for (std::size_t k = results.size(); k-- > 0;)
    if (!results[k].is_tuple() && !program_.aliases.contains(static_cast<std::int64_t>(k)))
      free[text_of(results[k])].push_back(static_cast<std::int64_t>(k));
  for (const std::int64_t donor : donors_) {
    if (donor < 0 || static_cast<std::size_t>(donor) >= entry.parameters.size()) continue;
    const int at = entry.parameters[static_cast<std::size_t>(donor)];
    if (at < 0) continue;
    const Type& type = entry.instructions[static_cast<std::size_t>(at)].type;
    std::vector<std::int64_t>& same = free[text_of(type)];
    if (same.empty()) continue;
    program_.aliases.emplace(same.back(), donor);
    same.pop_back();
  }
}

// A module for several devices that holds no collectives is not split yet; groups of one device split nothing.
void HloReader::count_partitions(std::int64_t of_header) {
  std::int64_t devices = 1;
  for (const Computation& computation : program_.computations)
    for (const Instruction& instruction : computation.instructions) {
      if (!is_collective(instruction.opcode)) continue;
      const auto groups = instruction.attributes.other.find("replica_groups");
      const GroupSizes sizes =
          groups == instruction.attributes.other.end() ? GroupSizes{} : group_sizes(groups->second);
      const std::int64_t one = std::max(instruction.attributes.group_size, sizes.one);
      if (one == 1) continue;
      devices = std::max({devices, one == 0 ? std::int64_t{2} : one, sizes.all, of_header});
    }
  program_.partitions = devices;
}

Program HloReader::read() {
  const std::string_view all = cursor_.rest();
  const std::size_t begin = all.find(kHeader);
  require(begin != std::string_view::npos, "{}: the text holds no HloModule; give the text that XLA printed.",
          cursor_.place());
  cursor_.advance(begin + kHeader.size());
  read_header();
  std::string_view table;  // of source files, of stack frames
  for (cursor_.skip_space(); !cursor_.at_end(); cursor_.skip_space()) {
    const std::string_view line = trimmed(cursor_.rest_of_line());
    const bool is_table =
        line == "FileNames" || line == "FunctionNames" || line == "FileLocations" || line == "StackFrames";
    if (is_table) table = line;
    if (is_table || (!table.empty() && line.front() >= '0' && line.front() <= '9')) {
      cursor_.skip_line();
      continue;
    }
    table = {};
    if (line.starts_with("`") || line.starts_with("HloModule")) break;  // behind the module
    read_computation();
  }
  require(program_.entry >= 0 || program_.cut_off || program_.computations.size() == 1,
          "{}: no computation of the module is the ENTRY; give the whole module.", cursor_.place());
  if (program_.entry < 0 && !program_.cut_off) program_.entry = 0;
  resolve_calls();
  order_computations(program_, cursor_.place());
  match_donors();
  count_partitions(partitions_);
  expand_library_calls(program_);
  return std::move(program_);
}

}  // namespace

bool is_hlo_text(std::string_view text) {
  const std::size_t at = text.substr(0, kMaxPreamble).find(kHeader);
  return at != std::string_view::npos &&
         (at == 0 || text[at - 1] == '\n' || text[at - 1] == '`' || text[at - 1] == ' ');
}

Program read_hlo_text(std::string_view text, const std::string& place) { return HloReader(text, place).read(); }

}  // namespace meshwright::xla
