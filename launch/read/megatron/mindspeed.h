// SPDX-License-Identifier: Apache-2.0
// MindSpeed-LLM (c77308a1): Megatron-LM with flags of its own.
#pragma once

#include "launch/read/readers.h"

namespace meshwright {

// --moe-intermediate-size -> --moe-ffn-hidden-size, and so on: what its older scripts call Megatron-LM's flags; and
// what it means by flags of its own where Megatron-LM can say the same. Does nothing to scripts without such flags.
void name_mindspeed_as_megatron(ReadingJob& job);

// --noop-layers 61,62,63: of --num-layers, these do nothing; they even out the stages. In rising order, each once;
// empty: none. Throws InputError for a list of anything else.
[[nodiscard]] std::vector<std::int64_t> noop_layers(ReadingJob& job);

// The blocks of each stage by --num-layer-list and --noop-layers, of a model with `layers` that do something, and
// --schedules-method dualpipev: LaunchSetup::stage_blocks and the schedule. True: the stages are known.
// REQUIRES: pp and the chunks are read.
bool read_mindspeed_stages(ReadingJob& job, std::int64_t layers);

}  // namespace meshwright
