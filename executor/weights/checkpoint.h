// SPDX-License-Identifier: Apache-2.0
// Training state on disk: FOLDER/step-00000012 holds the state after 12 steps, a safetensors file for each device with
// those tiles that no device before it has, and checkpoint.json with the step, the plan, the seed, and the sizes and
// hashes of the files. The folder is written under another name and renamed when all of it is on disk, so that one of
// the right name is whole unless it was damaged later.
//
// Tiles are of whole tensors: a run under another plan of the same training takes its own tiles out of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "executor/base/checkpoint_options.h"
#include "executor/base/given_values.h"
#include "executor/weights/mapped_file.h"
#include "executor/weights/stored_numbers.h"

namespace meshwright {

struct StateTile {
  std::string tensor;
  std::vector<std::int64_t> offset, extent;  // in the whole tensor
  std::vector<double> values;
  DType type;  // as stored: F32 for I32
};

struct CheckpointHead {
  int step = 0;  // steps that were done
  std::uint64_t seed = 1;
  DType precision = DType::F32;
  Json plan;
};

// Writing, in this order: by one thread, by each device, by one thread. Throws SystemError.
void begin_checkpoint(const CheckpointOptions& options, int step);
void write_checkpoint_part(const CheckpointOptions& options, int step, int device, const std::vector<StateTile>& tiles);
// Also removes those beyond `options.keep`.
void finish_checkpoint(const CheckpointOptions& options, const CheckpointHead& head);

class Checkpoint : public GivenStart {
 public:
  // The newest whole one in a folder. `passed_over`: a sentence for each damaged or half one that is newer. Throws
  // InputError where there is none.
  [[nodiscard]] static std::shared_ptr<const Checkpoint> newest(const std::string& folder,
                                                                std::vector<std::string>& passed_over);
  // Throws InputError for a folder that is damaged.
  explicit Checkpoint(const std::string& folder);

  [[nodiscard]] const CheckpointHead& head() const { return head_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // Throws InputError naming a parameter or a state that it lacks in whole or in part.
  void expect_state_of(const Graph& graph) const;
  [[nodiscard]] bool fill(const Tensor& tensor, std::span<const std::int64_t> offset,
                          std::span<const std::int64_t> shape, DType precision, void* out) const override;

 private:
  struct Tile {
    std::vector<std::int64_t> offset, extent;
    const char* bytes;
    ReadNumber read;
  };
  void read_part(const Json& entry);

  std::string folder_;
  CheckpointHead head_;
  std::vector<MappedFile> files_;
  std::map<std::string, std::vector<Tile>> tiles_;  // by tensor
};

}  // namespace meshwright
