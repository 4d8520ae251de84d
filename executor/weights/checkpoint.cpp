// SPDX-License-Identifier: Apache-2.0
#include "executor/weights/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/errors.h"
#include "core/base/safetensors.h"
#include "core/base/text.h"
#include "executor/base/element_type.h"

namespace meshwright {

namespace {

namespace fs = std::filesystem;

constexpr const char *kManifest = "checkpoint.json", *kFormat = "meshwright-checkpoint", *kPrefix = "step-";
constexpr int kVersion = 1;

std::string name_of_step(int step) { return fmt::format("{}{:08}", kPrefix, step); }
fs::path part_folder(const CheckpointOptions& options, int step) {
  return fs::path(options.folder) / (name_of_step(step) + ".part");
}

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw SystemError(fmt::format("{}: the checkpoint cannot be written ({}).", path.string(), why));
}

std::string hash_of(std::string_view bytes) { return fmt::format("{:016x}", stable_hash(bytes)); }

// A renamed folder is on disk once the folder around it is.
void sync_folder(const fs::path& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail(path, "it cannot be opened");
  const bool synced = fsync(folder) == 0;
  close(folder);
  if (!synced) fail(path, "it cannot be flushed");
}

// The folders of whole checkpoints, the newest first.
std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string digits = name.starts_with(kPrefix) ? name.substr(std::string_view(kPrefix).size()) : "";
    if (!digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

std::string name_of_tile(const StateTile& tile) {
  std::vector<std::string> offsets;
  for (const std::int64_t at : tile.offset) offsets.push_back(fmt::format("{}", at));
  return tile.tensor + "@" + join(offsets, ",");
}

}  // namespace

void begin_checkpoint(const CheckpointOptions& options, int step) {
  const fs::path part = part_folder(options, step);
  std::error_code error;
  fs::remove_all(part, error);  // what an interrupted run left
  fs::create_directories(part, error);
  if (error) fail(part, error.message());
}

void write_checkpoint_part(const CheckpointOptions& options, int step, int device,
                           const std::vector<StateTile>& tiles) {
  std::vector<StoredTensor> stored;
  for (const StateTile& tile : tiles) stored.push_back({name_of_tile(tile), stored_type_of(tile.type), tile.extent});
  std::string bytes = safetensors_header(stored, {});
  for (const StateTile& tile : tiles)
    for (const double value : tile.values) append_number(bytes, value, tile.type);
  write_file((part_folder(options, step) / fmt::format("device-{:05}.safetensors", device)).string(), bytes);
}

void finish_checkpoint(const CheckpointOptions& options, const CheckpointHead& head) {
  const fs::path part = part_folder(options, head.step), whole = fs::path(options.folder) / name_of_step(head.step);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(part, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail(part, error.message());
  std::sort(names.begin(), names.end());
  Json files = Json::array();
  for (const std::string& name : names) {
    const MappedFile file((part / name).string());
    files.push_back({{"name", name}, {"bytes", file.bytes().size()}, {"hash", hash_of(file.bytes())}});
  }
  const Json manifest = {{"format", kFormat},
                         {"version", kVersion},
                         {"step", head.step},
                         {"seed", fmt::format("{}", head.seed)},
                         {"precision", name_of(head.precision)},
                         {"plan", head.plan},
                         {"files", files}};
  write_file((part / kManifest).string(), manifest.dump(1) + "\n");
  sync_folder(part);
  fs::remove_all(whole, error);  // of an earlier run
  fs::rename(part, whole, error);
  if (error) fail(whole, error.message());
  sync_folder(options.folder);
  const std::vector<fs::path> there = checkpoints_in(options.folder);
  for (std::size_t i = static_cast<std::size_t>(options.keep); options.keep > 0 && i < there.size(); ++i)
    fs::remove_all(there[i], error);
}

std::shared_ptr<const Checkpoint> Checkpoint::newest(const std::string& folder, std::vector<std::string>& passed_over) {
  std::error_code error;
  require(fs::is_directory(folder, error), "{}: there is no such folder; give that of an earlier run's --checkpoint.",
          folder);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().ends_with(".part"))
      passed_over.push_back(fmt::format("{}: the checkpoint was not finished", entry->path().string()));
  for (const fs::path& path : checkpoints_in(folder)) {
    try {
      return std::make_shared<const Checkpoint>(path.string());
    } catch (const std::runtime_error& broken) {
      passed_over.emplace_back(broken.what());
    }
  }
  throw InputError(fmt::format("{}: the folder has no whole checkpoint{}.", folder,
                               passed_over.empty() ? "" : fmt::format("; {}", passed_over.front())));
}

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  const std::string path = (fs::path(folder) / kManifest).string();
  const Json json = read_json_file(path);
  require(json.is_object() && json.contains("format") && json["format"] == kFormat,
          "{}: the file does not describe a checkpoint.", path);
  require(get<int>(json, "version", path) == kVersion, "{}: the checkpoint is of another version of this program.",
          path);
  head_.step = get<int>(json, "step", path);
  const auto seed = get<std::string>(json, "seed", path);
  require(!seed.empty() && seed.size() <= 20 && seed.find_first_not_of("0123456789") == std::string::npos,
          "{}: 'seed' must be a whole number.", path);
  head_.seed = std::strtoull(seed.c_str(), nullptr, 10);
  head_.precision = dtype_from_name(get<std::string>(json, "precision", path));
  head_.plan = member(json, "plan", path);
  const Json& files = member(json, "files", path);
  require(files.is_array() && !files.empty() && head_.step >= 0, "{}: the checkpoint has no files.", path);
  files_.reserve(files.size());
  for (const Json& entry : files) read_part(entry);
}

void Checkpoint::read_part(const Json& entry) {
  const std::string place = (fs::path(folder_) / kManifest).string();
  const auto name = get<std::string>(entry, "name", place);
  require(name.find('/') == std::string::npos, "{}: '{}' is no file of the folder.", place, name);
  const MappedFile& file = files_.emplace_back((fs::path(folder_) / name).string());
  const std::string_view bytes = file.bytes();
  require(bytes.size() == get<std::uint64_t>(entry, "bytes", place) &&
              hash_of(bytes) == get<std::string>(entry, "hash", place),
          "{}: the file is damaged: its bytes are not those that were written.", file.path());
  for (const StoredTensor& stored : read_safetensors_header(bytes, file.path()).tensors) {
    const std::size_t at = stored.name.rfind('@');
    require(at != std::string::npos, "{}: '{}' is no tile of a state.", file.path(), stored.name);
    Tile tile{{}, stored.shape, bytes.data() + stored.begin, number_reader(stored.type)};
    for (const std::string& offset : split(stored.name.substr(at + 1), ','))
      if (!offset.empty()) tile.offset.push_back(parse_integer(offset, file.path(), 0, 1L << 62));
    require(tile.read != nullptr && tile.offset.size() == tile.extent.size(), "{}: '{}' is no tile of a state.",
            file.path(), stored.name);
    tiles_[stored.name.substr(0, at)].push_back(std::move(tile));
  }
}

void Checkpoint::expect_state_of(const Graph& graph) const {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter && tensor.kind != TensorKind::OptimizerState &&
        tensor.kind != TensorKind::StepState)
      continue;
    const auto found = tiles_.find(tensor.name);
    require(found != tiles_.end(), "{}: the checkpoint has no '{}', which the plan trains with.", folder_, tensor.name);
    std::int64_t elements = 0;
    for (const Tile& tile : found->second) {
      std::int64_t product = 1;
      for (std::size_t d = 0; d < tile.extent.size(); ++d) {
        product *= tile.extent[d];
        require(tile.extent.size() == tensor.dims.size() && tile.offset[d] <= tensor.dims[d].size - tile.extent[d],
                "{}: '{}' is of another shape than the plan's.", folder_, tensor.name);
      }
      elements += product;
    }
    require(elements == tensor.elements(), "{}: '{}' has {} elements, but the plan's has {}.", folder_, tensor.name,
            elements, tensor.elements());
  }
}

bool Checkpoint::fill(const Tensor& tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
                      DType precision, void* out) const {
  const auto found = tiles_.find(tensor.name);
  if (found == tiles_.end()) return false;
  const std::size_t rank = shape.size();
  for (const Tile& tile : found->second) {
    // What both have, in the whole tensor.
    std::vector<std::int64_t> begin(rank), count(rank);
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      begin[d] = std::max(offset[d], tile.offset[d]);
      count[d] = std::max<std::int64_t>(0, std::min(offset[d] + shape[d], tile.offset[d] + tile.extent[d]) - begin[d]);
      elements *= count[d];
    }
    with_element_type(precision, [&](auto zero) {
      using T = decltype(zero);
      for (std::int64_t i = 0; i < elements; ++i) {
        std::int64_t to = 0, from = 0, rest = i, to_stride = 1, from_stride = 1;
        for (std::size_t d = rank; d-- > 0;) {
          const std::int64_t at = begin[d] + rest % count[d];
          rest /= count[d];
          to += (at - offset[d]) * to_stride;
          from += (at - tile.offset[d]) * from_stride;
          to_stride *= shape[d];
          from_stride *= tile.extent[d];
        }
        static_cast<T*>(out)[to] = static_cast<T>(tile.read(tile.bytes, from));
      }
    });
  }
  return true;
}

}  // namespace meshwright
