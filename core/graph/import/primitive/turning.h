// SPDX-License-Identifier: Apache-2.0
// Which rotation a file's cosines and sines are of.
#pragma once

#include <optional>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// The tables' last dimension has one element for each pair of the `dims` that turn, or all of these twice (`doubled`:
// each twice in a row), and `axis` is that of the positions, from the tables' end (1: the last but one). Where
// positions are an input, they are counted from 0; tables whose values the file does not hold are taken for plain ones
// of base 10,000. nullopt: these tables are not those of a rotation from position 0 on.
[[nodiscard]] std::optional<Turning> turning_of_tables(const Builder& b, int cosines, int sines, std::int64_t dims,
                                                       std::size_t axis, bool doubled = false);

}  // namespace meshwright::primitive
