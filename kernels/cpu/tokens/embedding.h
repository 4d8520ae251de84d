// SPDX-License-Identifier: Apache-2.0
// Rows of a table by number. A table split by rows holds numbers first..first+vocab; other numbers give zero rows, and
// the sum over the pieces is the whole.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void embedding(const std::int32_t* ids,  // (rows)
               const T* table,           // (vocab, width)
               T* out,                   // (rows, width)
               std::int64_t rows, std::int64_t vocab, std::int64_t width, std::int64_t first);

// Adds the rows of dy in their order: repeated numbers are summed the same way every time.
template <class T>
void embedding_backward(const std::int32_t* ids,  // (rows)
                        const T* dy,              // (rows, width)
                        T* dtable,                // (vocab, width)
                        std::int64_t rows, std::int64_t vocab, std::int64_t width, std::int64_t first);

}  // namespace meshwright::kernels
