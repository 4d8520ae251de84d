// SPDX-License-Identifier: Apache-2.0
// --html of run: the measured timeline beside what was predicted.
#pragma once

#include <string>

#include "cli/documents/run/measured_run.h"

namespace meshwright {

inline constexpr const char* kRunHtmlHelp =
    "write a report to this HTML file: the measured timeline of the last step, and what was predicted";

struct RunPageOptions {
  std::string html;  // the file
  ProfileSource profile;
  std::string command_line;
};
void write_run_page(const MeasuredRun& run, const RunFiles& files, const RunPageOptions& options);

}  // namespace meshwright
