// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/look.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr int kUnknownWidth = 80;  // of a terminal that does not tell
constexpr long kWidest = 10000;

// "" where it is not set.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) {
  const std::string value = variable(name);
  return !value.empty() && value != "0";
}

bool shows_colours(const std::string& color, bool terminal) {
  require(color == "auto" || color == "always" || color == "never",
          "--color: unknown choice '{}'; give auto, always or never.", color);
  if (color != "auto") return color == "always";
  if (!variable("NO_COLOR").empty()) return false;
  if (is_set("CLICOLOR_FORCE") || is_set("FORCE_COLOR")) return true;
  if (variable("CLICOLOR") == "0") return false;
  return terminal && variable("TERM") != "dumb";
}

int width_of_stdout() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string columns = variable("COLUMNS");
  const bool digits = !columns.empty() && columns.size() < 6 &&
                      columns.find_first_not_of("0123456789") == std::string::npos && columns != "0";
  return digits ? static_cast<int>(parse_integer(columns, "COLUMNS", 0, kWidest * 10)) : kUnknownWidth;
}

bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = lower_case(variable(name));
    if (!value.empty()) return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// Terminals that tell their colours write "15;0" for white on black.
Ground ground_of_terminal() {
  const std::string colours = variable("COLORFGBG");
  const std::string behind = colours.substr(colours.rfind(';') + 1);
  return behind == "7" || behind == "15" ? Ground::Light : Ground::Dark;
}

}  // namespace

void add_color_option(CLI::App& verb, std::string& color) {
  verb.add_option("--color", color,
                  "colours of --timeline: auto (on a terminal, and as NO_COLOR, FORCE_COLOR and CLICOLOR say), always "
                  "or never (default: auto)");
}

TerminalLook look_of_stdout(const std::string& color) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  TerminalLook look;
  if (terminal) look.width = width_of_stdout();
  if (!shows_colours(color, terminal)) return look;
  const std::string depth = variable("COLORTERM");
  look.colours = depth == "truecolor" || depth == "24bit" ? ColourDepth::True : ColourDepth::Of256;
  look.glyphs = is_utf8() ? Glyphs::Unicode : Glyphs::Ascii;
  look.ground = ground_of_terminal();
  return look;
}

}  // namespace meshwright
