// SPDX-License-Identifier: Apache-2.0
// Programs with one fault. Where a fault provably changes nothing that lasts, the reason is given with it; it is found
// in the program alone, never from what the program computes.
#pragma once

#include <string>

#include "core/plan/program/program.h"

namespace meshwright {

struct Mutant {
  std::string kind, what;
  Program program;
  std::string equivalent;  // why it computes the same; empty: it must not
};

}  // namespace meshwright
