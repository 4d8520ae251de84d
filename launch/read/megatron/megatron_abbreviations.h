// SPDX-License-Identifier: Apache-2.0
// Beginnings of Megatron-LM's flags, which argparse takes for the whole one where its parser allows abbreviations.
#pragma once

#include "launch/read/readers.h"

namespace meshwright {

// "--tensor-model-parallel 4" as --tensor-model-parallel-size. That Megatron-LM's parser takes no abbreviations is said
// as a broken rule, and so is what several flags begin with, which stays as it is.
void name_abbreviations(ReadingJob& job);

}  // namespace meshwright
