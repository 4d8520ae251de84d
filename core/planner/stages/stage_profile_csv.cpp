// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/stage_profile_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::string_view kTitle = "# meshwright-stage-profile 1";
constexpr std::string_view kKey = "# key: ";

// In the order in which they are written.
enum class Column : std::size_t {
  FirstLayer,
  LastLayer,
  Hosts,
  DevicesPerHost,
  HostGroup,
  LogicalShape,
  BatchAxis,
  Option,
  Sharding,
  Forward,
  Backward,
  Step,
  Resident,
  Saved,
  Recomputed,
  Repeated,
  Working,
  BoundaryIn,
  BoundaryOut,
  Basis,
  Samples,
  ForwardSpread,
  BackwardSpread,
  StepSpread,
};
constexpr std::array<std::string_view, 24> kColumns = {"first_layer",        "last_layer",     "hosts",
                                                       "devices_per_host",   "host_group",     "logical_shape",
                                                       "batch_axis",         "option",         "sharding",
                                                       "forward_s",          "backward_s",     "step_s",
                                                       "resident_bytes",     "saved_bytes",    "recomputed_bytes",
                                                       "repeated_bytes",     "working_bytes",  "boundary_in_bytes",
                                                       "boundary_out_bytes", "basis",          "samples",
                                                       "forward_mad_s",      "backward_mad_s", "step_mad_s"};
constexpr long kMaxInteger = 1 << 20;

// One line of entries while it is read.
class Row {
 public:
  Row(std::vector<std::string> cells, std::string place) : cells_(std::move(cells)), place_(std::move(place)) {}

  [[nodiscard]] std::string at(Column column) const {
    return fmt::format("{}, column '{}'", place_, kColumns[static_cast<std::size_t>(column)]);
  }
  [[nodiscard]] bool empty(Column column) const { return cell(column).empty(); }
  [[nodiscard]] const std::string& text(Column column) const {
    require(!empty(column), "{}: the cell is empty; every entry needs one.", at(column));
    return cell(column);
  }
  [[nodiscard]] int integer(Column column, long low) const {
    return static_cast<int>(parse_integer(text(column), at(column), low, kMaxInteger));
  }
  // From 0 upwards.
  [[nodiscard]] double number(Column column) const {
    const std::string& written = text(column);
    double value = 0.0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
    require(
        error == std::errc() && end == written.data() + written.size() && std::isfinite(value) && !std::signbit(value),
        "{}: '{}' is not a finite number from 0 upwards.", at(column), written);
    return value;
  }
  void expect_empty(Column column, std::string_view why) const {
    require(empty(column), "{}: '{}' stands there, but {}; leave the cell empty.", at(column), cell(column), why);
  }
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  [[nodiscard]] const std::string& cell(Column column) const { return cells_[static_cast<std::size_t>(column)]; }

  std::vector<std::string> cells_;  // [Column]
  std::string place_;
};

std::vector<int> shape_of(const Row& row) {
  std::vector<int> shape;
  for (const std::string& part : split(row.text(Column::LogicalShape), 'x'))
    shape.push_back(static_cast<int>(parse_integer(part, row.at(Column::LogicalShape), 1, kMaxInteger)));
  require(shape.size() <= 8, "{}: {} axes; at most 8 were expected.", row.at(Column::LogicalShape), shape.size());
  return shape;
}

StageProfileName name_of_row(const Row& row) {
  StageProfileName name{
      {row.integer(Column::FirstLayer, 0),
       row.integer(Column::LastLayer, 0),
       {row.integer(Column::Hosts, 1), row.integer(Column::DevicesPerHost, 1), row.integer(Column::HostGroup, 0)},
       shape_of(row)}};
  if (row.empty(Column::Sharding)) {
    name.option = row.integer(Column::Option, 0);
    if (!row.empty(Column::BatchAxis)) name.place.batch_axis = row.integer(Column::BatchAxis, 0);
    return name;
  }
  name.sharding = row.text(Column::Sharding);
  const bool hex =
      name.sharding.size() == 16 && name.sharding.find_first_not_of("0123456789abcdef") == std::string::npos;
  require(hex, "{}: '{}' is not a fingerprint of 16 digits 0-9a-f.", row.at(Column::Sharding), name.sharding);
  row.expect_empty(Column::Option, "the entry is of a sharding");
  row.expect_empty(Column::BatchAxis, "the entry is of a sharding");
  return name;
}

std::optional<StageMemory> memory_of(const Row& row) {
  constexpr std::array kMemory = {Column::Resident, Column::Saved, Column::Recomputed, Column::Repeated,
                                  Column::Working};
  // Without any of these cells the entry has times alone. Else it needs all of them.
  if (std::all_of(kMemory.begin(), kMemory.end(), [&](Column column) { return row.empty(column); }))
    return std::nullopt;
  return StageMemory{Bytes(row.number(Column::Resident)), Bytes(row.number(Column::Saved)),
                     Bytes(row.number(Column::Recomputed)), Bytes(row.number(Column::Repeated)),
                     Bytes(row.number(Column::Working))};
}

std::optional<StageProfile::Measured> measured_of(const Row& row) {
  const std::string& basis = row.text(Column::Basis);
  if (basis == "modelled") {
    for (const Column column : {Column::Samples, Column::ForwardSpread, Column::BackwardSpread, Column::StepSpread})
      row.expect_empty(column, "the entry is modelled");
    return std::nullopt;
  }
  require(basis == "measured", "{}: unknown name '{}'; expected modelled or measured.", row.at(Column::Basis), basis);
  return StageProfile::Measured{row.integer(Column::Samples, 1), Seconds(row.number(Column::ForwardSpread)),
                                Seconds(row.number(Column::BackwardSpread)), Seconds(row.number(Column::StepSpread))};
}

StageProfile entry_of(const Row& row) {
  StageProfile entry;
  entry.forward = Seconds(row.number(Column::Forward));
  entry.backward = Seconds(row.number(Column::Backward));
  entry.step = Seconds(row.number(Column::Step));
  entry.memory = memory_of(row);
  entry.boundary_in = Bytes(row.number(Column::BoundaryIn));
  entry.boundary_out = Bytes(row.number(Column::BoundaryOut));
  entry.measured = measured_of(row);
  return entry;
}

// [position in the file] -> Column.
std::vector<std::size_t> columns_of(const std::string& header, const std::string& place) {
  const std::vector<std::string> known(kColumns.begin(), kColumns.end());
  std::vector<std::size_t> columns;
  for (const std::string& name : split(header, ',')) {
    const auto at = std::find(known.begin(), known.end(), name);
    require(at != known.end(), "{}: unknown column '{}'; the nearest known are {}.", place, name,
            join(nearest_names(name, known), ", "));
    const auto column = static_cast<std::size_t>(at - known.begin());
    require(std::find(columns.begin(), columns.end(), column) == columns.end(),
            "{}: column '{}' stands there twice; give every column once.", place, name);
    columns.push_back(column);
  }
  for (std::size_t column = 0; column < known.size(); ++column)
    require(
        std::find(columns.begin(), columns.end(), column) != columns.end(),
        "{}: column '{}' is missing; every column must be there, its cells may be empty where that means something.",
        place, known[column]);
  return columns;
}

// 17 digits give every double back exactly.
std::string number_text(double value) { return fmt::format("{:.17g}", value); }

std::string row_text(const StageProfileName& name, const StageProfile& entry) {
  const StagePlace& place = name.place;
  const bool numbered = name.sharding.empty();
  std::string text = fmt::format("{},{},{},{},{},{},{},{},{},", place.first, place.last, place.submesh.hosts,
                                 place.submesh.devices_per_host, place.submesh.group, fmt::join(place.shape, "x"),
                                 place.batch_axis ? fmt::format("{}", *place.batch_axis) : "",
                                 numbered ? fmt::format("{}", name.option) : "", name.sharding);
  for (const Seconds time : {entry.forward, entry.backward, entry.step}) text += number_text(time.si()) + ',';
  if (entry.memory) {
    const StageMemory& memory = *entry.memory;
    for (const Bytes bytes :
         {memory.resident, memory.saved, memory.recomputed, memory.recomputed_at_once, memory.working})
      text += number_text(bytes.si()) + ',';
  } else {
    text += ",,,,,";
  }
  for (const Bytes bytes : {entry.boundary_in, entry.boundary_out}) text += number_text(bytes.si()) + ',';
  if (!entry.measured) return text + "modelled,,,,\n";
  const StageProfile::Measured& measured = *entry.measured;
  return text + fmt::format("measured,{},{},{},{}\n", measured.samples, number_text(measured.forward_spread.si()),
                            number_text(measured.backward_spread.si()), number_text(measured.step_spread.si()));
}

std::vector<std::string> lines_of(const std::string& text, const std::string& place) {
  require(!text.empty(), "{}: the file is empty; `meshwright plan ... --write-stage-profile {}` fills it.", place,
          place);
  require(text.find('\r') == std::string::npos, "{}: lines end with a carriage return; save with Unix line ends.",
          place);
  require(text.back() == '\n', "{}: the last line does not end; the file has been cut, export it again.", place);
  std::vector<std::string> lines = split(text, '\n');
  // The text behind the last line end is empty.
  lines.pop_back();
  return lines;
}

}  // namespace

std::string to_csv(const StageProfileTable& table) {
  std::string text = fmt::format("{}\n{}{}\n{}\n", kTitle, kKey, to_text(table.key()), fmt::join(kColumns, ","));
  for (const auto& [name, entry] : table.entries()) text += row_text(name, entry);
  return text;
}

StageProfileTable stage_profile_from_csv(const std::string& text, const std::string& place) {
  const std::vector<std::string> lines = lines_of(text, place);
  require(lines[0] == kTitle, "{}: line 1 is not '{}'; is it another kind of file, or of a newer meshwright?", place,
          kTitle);
  require(lines.size() >= 3, "{}: after line {} the key and the columns are missing; export the file again.", place,
          lines.size());
  require(lines[1].starts_with(kKey), "{}: line 2 does not begin with '{}'; keep the key that was exported.", place,
          kKey);
  StageProfileTable table(
      stage_profile_key_from_text(lines[1].substr(kKey.size()), fmt::format("{}: line 2: key", place)));
  const std::vector<std::size_t> columns = columns_of(lines[2], fmt::format("{}: line 3", place));
  std::map<StageProfileName, std::size_t> line_of;
  for (std::size_t number = 4; number <= lines.size(); ++number) {
    const std::string at = fmt::format("{}: line {}", place, number);
    const std::vector<std::string> read = split(lines[number - 1], ',');
    require(read.size() == columns.size(), "{}: {} cells, but line 3 names {} columns.", at, read.size(),
            columns.size());
    std::vector<std::string> cells(columns.size());
    // A file may have its columns in any order.
    for (std::size_t i = 0; i < read.size(); ++i) cells[columns[i]] = read[i];
    const Row row(std::move(cells), at);
    const StageProfileName name = name_of_row(row);
    const auto [first, fresh] = line_of.emplace(name, number);
    require(fresh, "{}: {} stands in line {} already; give every entry once.", at, to_text(name), first->second);
    const StageProfile entry = entry_of(row);
    // The table knows nothing of files: its errors get their place here.
    try {
      table.add(name, entry);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", at, error.what()));
    }
  }
  return table;
}

}  // namespace meshwright
