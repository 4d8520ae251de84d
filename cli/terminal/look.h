// SPDX-License-Identifier: Apache-2.0
// What stdout can show: how wide it is, whether it has colours and which characters.
#pragma once

#include <string>

#include "report/charts/terminal_timeline.h"

namespace CLI {
class App;
}

namespace meshwright {

// --color: "auto", "always" or "never".
void add_color_option(CLI::App& verb, std::string& color);

// Colours by the first of these that says anything: --color, NO_COLOR, CLICOLOR_FORCE or FORCE_COLOR, CLICOLOR=0, and
// whether stdout is a terminal. Off a terminal the width is not known, and without colours all characters are ASCII.
// Throws InputError for another word than the three.
[[nodiscard]] TerminalLook look_of_stdout(const std::string& color);

}  // namespace meshwright
