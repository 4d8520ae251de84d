// SPDX-License-Identifier: Apache-2.0
// Rows of a table by number. A table split by rows holds numbers first..first+vocab; other numbers give zero rows, and
// the sum over the pieces is the whole.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct TableShape {
  std::int64_t rows;          // numbers that are looked up
  std::int64_t vocab, width;  // of the table, or of this piece of it
  std::int64_t first = 0;     // the number of the table's first row
};

template <class T>
void embedding(const std::int32_t* ids,  // (rows)
               const T* table,           // (vocab, width)
               T* out,                   // (rows, width)
               const TableShape& shape);

// Adds the rows of dy in their order: repeated numbers are summed the same way every time.
template <class T>
void embedding_backward(const std::int32_t* ids,  // (rows)
                        const T* dy,              // (rows, width)
                        T* dtable,                // (vocab, width)
                        const TableShape& shape);

}  // namespace meshwright::kernels
