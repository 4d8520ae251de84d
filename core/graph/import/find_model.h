// SPDX-License-Identifier: Apache-2.0
// A model as the user names it: built in, or a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/models/models.h"

namespace meshwright {

// A file whose name ends in ".json" (core/graph/import/hf/hf_config.h), with other sizes where a colon and these follow
// ("config.json:layers=2"), or in what is_model_file says (core/graph/import/model_file.h), else as find_builtin_model.
// `dims`: sizes of what a file leaves open; throws InputError where the model takes none.
[[nodiscard]] ModelConfig find_model(const std::string& name, const std::map<std::string, std::int64_t>& dims = {});

// The config.json that such a name begins with; empty: none.
[[nodiscard]] std::string config_file_of_model(const std::string& name);

// What the model's file says, may change the model, and is left out of it; empty for any other kind of model.
[[nodiscard]] std::vector<std::string> left_out_of_model(const std::string& name);

// What is taken for granted of the model where its file does not say it, one phrase each.
[[nodiscard]] std::vector<std::string> assumed_of_model(const std::string& name);

// The model of a plan file. One made from a file is read from it again: throws SystemError where it cannot be read,
// InputError where it has changed.
[[nodiscard]] ModelConfig model_of_plan(const Json& json, const std::string& place);

}  // namespace meshwright
