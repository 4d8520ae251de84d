// SPDX-License-Identifier: Apache-2.0
// Samples out of files.
//
//   a name of an input and a .npy file   one row of the array for each sample: whole numbers for tokens and labels,
//                                        numbers for images, (samples, h, w, 3) or (samples, 3, h, w)
//   no name                              tokens, and the labels that follow them, of models that read nothing else: a
//                                        .npy of whole numbers, one long row or one row of seq + 1 for each sample; a
//                                        .bin of unsigned numbers, of 16 bits (32 where the vocabulary has more than
//                                        65536); any other file by its bytes
//
// A long row is cut into samples of seq tokens, each with the token after it. Behind the last sample comes the first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "executor/base/given_values.h"
#include "executor/weights/mapped_file.h"
#include "executor/weights/stored_numbers.h"

namespace meshwright {

struct InputFile {
  std::string input;  // empty: tokens and labels
  std::string path;
};

class GivenData : public GivenSamples {
 public:
  // `vocab`: of the model, 0 for one without. `samples`: how many the run takes, which are checked. Throws InputError
  // for files that do not fit the graph's inputs or have fewer samples than a step.
  GivenData(const std::vector<InputFile>& files, const Graph& graph, std::int64_t vocab, std::int64_t samples);

  [[nodiscard]] bool fill(const Tensor& input, std::int64_t first, std::span<const std::int64_t> offset,
                          std::span<const std::int64_t> shape, DType precision, void* out) const override;
  void check_bound(const Tensor& input, std::int64_t bound) const override;

  // The samples of the shortest file: after so many, some begin again.
  [[nodiscard]] std::int64_t samples() const;

 private:
  // Where an input's numbers lie in a file.
  struct Source {
    std::string input;
    std::shared_ptr<const MappedFile> file;
    const char* bytes;  // the first sample's first
    ReadNumber read;
    std::int64_t samples, sample_stride;
    std::vector<std::int64_t> strides;  // [dimension but the first]
  };
  void add_array(const InputFile& file, const Graph& graph);
  void add_tokens(const std::string& path, const Graph& graph, std::int64_t vocab);
  [[nodiscard]] const Source* find(const Tensor& input) const;

  std::vector<Source> sources_;
  std::int64_t samples_;
};

}  // namespace meshwright
