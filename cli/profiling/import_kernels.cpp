// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/import_kernels.h"

#include <algorithm>
#include <array>
#include <map>

#include "cli/profiling/import_trace.h"
#include "core/base/csv.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "costmodel/measured_kernels.h"
#include "costmodel/profile_db.h"
#include "costmodel/traces/kernel_table.h"

namespace meshwright {

namespace {

// The data sheets' names of the devices to import; empty: all.
std::vector<std::string> device_filter(const std::string& text) {
  std::vector<std::string> names, known;
  for (const DataSheet& sheet : data_sheets()) known.push_back(sheet.name);
  if (text.empty()) return names;
  for (const std::string& device : split(text, ',')) {
    const DataSheet* sheet = find_data_sheet(device);
    if (sheet == nullptr)
      throw InputError("--devices: " +
                       unknown_name("device", device, known, "costmodel/sheets/devices.json lists all."));
    names.push_back(sheet->name);
  }
  return names;
}

void read_kernels(const std::string& file, const std::vector<std::string>& devices, ImportedKernels& imported) {
  KernelRows read = read_kernel_rows(CsvTable::read(file));
  std::move(read.rejected.begin(), read.rejected.end(), std::back_inserter(imported.wrong));
  imported.not_used += read.unused.size();
  for (KernelRow& row : read.rows) {
    if (!devices.empty() && std::find(devices.begin(), devices.end(), row.device) == devices.end())
      ++imported.not_used;
    else if (find_data_sheet(row.device) == nullptr)
      imported.wrong.push_back({row.place, fmt::format("{}: no data sheet has a device '{}'.", row.place, row.device)});
    else
      imported.rows.push_back(std::move(row));
  }
}

void leave_out_outliers(ImportedKernels& imported) {
  const std::vector<std::size_t> odd = outliers(imported.rows);
  for (const std::size_t i : odd) {
    const KernelRow& row = imported.rows[i];
    imported.wrong.push_back({row.place, fmt::format("{}: {} is more than ten times off what rows near in shape say.",
                                                     row.place, human_seconds(row.time))});
  }
  // From the last, so that the places of the others stay.
  for (auto i = odd.rbegin(); i != odd.rend(); ++i)
    imported.rows.erase(imported.rows.begin() + static_cast<std::ptrdiff_t>(*i));
}

// Rows by term, device and type.
std::map<std::array<std::string, 3>, int> counts_of(const std::vector<KernelRow>& rows) {
  std::map<std::array<std::string, 3>, int> counts;
  for (const KernelRow& row : rows) ++counts[{term_name(row), row.device, row.dtype}];
  return counts;
}

}  // namespace

bool is_kernel_table(const std::string& file) { return file.ends_with(".csv") || file.ends_with(".csv.gz"); }

ImportedKernels import_kernels(const KernelImport& request) {
  for (const std::string& file : request.files)
    require(is_kernel_table(file),
            "{}: not a table (.csv or .csv.gz) like the first file; import recordings one by one.", file);
  require(!request.source.empty(), "--source is missing; say where the measurements come from.");
  require(!request.licence.empty(), "--licence is missing; give the licence of the measurements, such as MIT.");
  const std::vector<std::string> devices = device_filter(request.devices);
  ImportedKernels imported;
  for (const std::string& file : request.files) read_kernels(file, devices, imported);
  leave_out_outliers(imported);
  std::optional<Cluster> cluster;
  if (!request.cluster.empty()) {
    cluster = recorded_cluster(request.cluster);
    imported.profile = profile_of_kernels(imported.rows, request.files.front());
  }
  ProfileDb db(request.db, ProfileDb::Mode::ReadWrite);
  imported.added = db.put_kernels({request.source, request.licence}, imported.rows);
  if (imported.profile) {
    const TraceImport& profile = *imported.profile;
    store_profile(db, recorded_session(profile.device, "", "", "", std::move(*cluster), request.command), profile);
  }
  return imported;
}

std::string to_text(const ImportedKernels& imported, const KernelImport& request) {
  constexpr std::size_t kShown = 5;
  TextTable table({{"term", ""}, {"device", ""}, {"type", ""}, {"rows", ""}});
  for (const auto& [set, count] : counts_of(imported.rows))
    table.add_row({set[0], set[1], set[2], fmt::format("{}", count)});
  std::string text = fmt::format("# meshwright {}  import  {} files  source {}  licence {}\n", MESHWRIGHT_VERSION,
                                 request.files.size(), request.source, request.licence);
  if (!imported.rows.empty()) text += table.to_text();
  for (std::size_t i = 0; i < std::min(imported.wrong.size(), kShown); ++i)
    text += fmt::format("# wrong: {}\n", imported.wrong[i].reason);
  if (imported.wrong.size() > kShown) text += fmt::format("# wrong: {} more\n", imported.wrong.size() - kShown);
  if (imported.not_used > 0)
    text += fmt::format("# not used: {} rows of other devices, or of kinds that no term predicts\n", imported.not_used);
  text += fmt::format("# {} rows stored in {}, {} of them new\n", imported.rows.size(), request.db, imported.added);
  if (imported.profile)
    text += shares_line(*imported.profile) + fmt::format("# {} ops and {} collectives stored for --profile\n",
                                                         imported.profile->ops.size(),
                                                         imported.profile->collectives.size());
  return text;
}

Json to_json(const ImportedKernels& imported, const KernelImport& request) {
  Json sets = Json::array(), wrong = Json::array();
  for (const auto& [set, count] : counts_of(imported.rows))
    sets.push_back({{"term", set[0]}, {"device", set[1]}, {"dtype", set[2]}, {"rows", count}});
  for (const RejectedRow& row : imported.wrong) wrong.push_back({{"place", row.place}, {"reason", row.reason}});
  Json document = {{"program", "meshwright"},      {"version", MESHWRIGHT_VERSION}, {"verb", "import"},
                   {"files", request.files},       {"source", request.source},      {"licence", request.licence},
                   {"sets", std::move(sets)},      {"wrong", std::move(wrong)},     {"not_used", imported.not_used},
                   {"rows", imported.rows.size()}, {"new_rows", imported.added},    {"db", request.db}};
  if (imported.profile) {
    document["ops"] = imported.profile->ops.size();
    document["collectives"] = imported.profile->collectives.size();
  }
  return document;
}

}  // namespace meshwright
