// SPDX-License-Identifier: Apache-2.0
#include "report/charts/palette.h"

#include "core/base/errors.h"

namespace meshwright {

Shade shade_of(Hue hue) {
  switch (hue) {
    case Hue::Forward:
      return {"#1c5089", "#609fd9", 'F'};
    case Hue::Backward:
      return {"#3b8e6e", "#92d289", 'B'};
    case Hue::WeightGradient:
      return {"#8d9a1f", "#cefd3c", 'W'};
    case Hue::Update:
      return {"#a64f00", "#bd8a0b", 'U'};
    case Hue::Message:
      return {"#914ec8", "#9049dd", ' '};
    case Hue::Collective:
      return {"#813c49", "#c0446a", ' '};
    case Hue::Recompute:
      return {"#14a3bc", "#71f5fc", 'R'};
    case Hue::Idle:
      return {"#e9edf1", "#23292f", ' '};
  }
  throw InternalError("a hue without a shade");
}

}  // namespace meshwright
