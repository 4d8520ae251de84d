// SPDX-License-Identifier: Apache-2.0
// What a ProfileDb holds; for its own sources.
#pragma once

#include <memory>

#include "costmodel/profile_db.h"
#include "costmodel/sqlite.h"

namespace meshwright {

struct ProfileDb::Handle {
  Mode mode;
  std::unique_ptr<sqlite::Database> db;
};

// Throws InputError naming the database at `path` as damaged.
[[nodiscard]] CollectiveKind collective_from_name(const std::string& name, const std::string& path);

// The tables of stage_profile (profile_db_stages.cpp), which version 2 added.
extern const char* const kStageProfileSchema;
// The table of product_algorithm (profile_db_products.cpp), which version 3 added.
extern const char* const kProductAlgorithmSchema;
// The tables of measured kernels (profile_db_kernels.cpp), which version 4 added.
extern const char* const kKernelSchema;

}  // namespace meshwright
