// SPDX-License-Identifier: Apache-2.0
#include "executor/base/scratch.h"

#include <utility>

namespace meshwright {

Scratch::~Scratch() {
  for (const Level& level : levels_)
    if (level.data != nullptr) storage_.release(level.data);
}

Scratch::Taken::Taken(Scratch& scratch, std::size_t size) : scratch_(scratch) {
  if (scratch.depth_ == scratch.levels_.size()) scratch.levels_.emplace_back();
  Level& level = scratch.levels_[scratch.depth_];
  if (level.size < size) {
    if (level.data != nullptr) scratch.storage_.release(std::exchange(level, Level{}).data);
    level = {static_cast<std::byte*>(scratch.storage_.allocate(size)), size};
  }
  data_ = level.data;
  ++scratch.depth_;
}

Scratch::Taken::~Taken() { --scratch_.depth_; }

}  // namespace meshwright
