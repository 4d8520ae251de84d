// SPDX-License-Identifier: Apache-2.0
// Rows of a table by number, on the device: the twin of kernels/cpu/tokens/embedding.h. A table split by rows holds
// numbers first..first+vocab; other numbers give zero rows, and the sum over the pieces is the whole.
//
// REQUIRES: fewer than 2^31 - 1 rows of each kind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tokens/embedding.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

template <class T>
void embedding(Stream stream,
               const std::int32_t* ids,  // (rows)
               const T* table,           // (vocab, width)
               T* out,                   // (rows, width)
               const TableShape& shape);

// Each row of dtable is the sum, kept in Wide<T> and rounded once, of the rows of dy with its number, in an order that
// depends on the ids alone. dy is read once and dtable written once, its zero rows included.
//
// What it costs beside: the places of dy's rows are sorted by number, 9 bits of it in each pass of two kernels (two
// passes for 50257 numbers), which reads and writes 8 bytes a row and pass. A number that many rows have is summed by
// many blocks, in pieces of 64 rows; the pieces are written and read as Wide<T>.
template <class T>
void embedding_backward(Stream stream,
                        const std::int32_t* ids,  // (rows)
                        const T* dy,              // (rows, width)
                        T* dtable,                // (vocab, width)
                        const TableShape& shape,
                        void* workspace);  // 16-byte aligned
// Bytes: about 16 a row, 4 a number and width sizeof(Wide<T>) / 64 a row.
template <class T>
std::size_t embedding_backward_workspace(const TableShape& shape);

}  // namespace meshwright::kernels::cuda
