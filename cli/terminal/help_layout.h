// SPDX-License-Identifier: Apache-2.0
// The text of --help, the same with every version of CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace meshwright {

// CLI11 2.4 and 2.6 changed how its own lays out defaults, columns and headings.
class HelpLayout : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace meshwright
