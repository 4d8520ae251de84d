// SPDX-License-Identifier: Apache-2.0
// Measured kernels as corrections of the terms with their shipped constants (costmodel/sheets/kernel_constants.h): the
// time of a product, of fused attention or of a collective within a host, by what was measured on the same device in
// the same type near its shape (costmodel/calibration/neighbours.h).
//
// Nothing is told from one device to another, or from one type to another; but devices whose names and data sheets
// differ in the size of the memory alone count as one for products and attention. Where several implementations were
// measured for one kind of kernel, one of them speaks for all shapes, so that times of neighbouring shapes can be
// compared: the fastest, by the mean of log(measured / modelled), among those with at least half as many rows as the
// largest. Rows whose time includes what the host does are left out, as are rows whose device has no data sheet or
// lacks their type.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "costmodel/calibration/kernel_rows.h"
#include "costmodel/calibration/neighbours.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright {

// A look-up takes some microseconds. Safe to use from several threads.
class MeasuredKernels {
 public:
  MeasuredKernels() = default;  // none: every estimate is the modelled time
  explicit MeasuredKernels(const std::vector<KernelRow>& rows);

  // `modelled` is the term's time with the shipped constants. Measured: rows of the very shape; Interpolated: rows near
  // it count at least as much as the model; else Modelled, with what little the farther rows say.
  [[nodiscard]] TimeEstimate product(const DataSheet& device, const std::string& dtype, const ProductShape& shape,
                                     Seconds modelled) const;
  [[nodiscard]] TimeEstimate attention(const DataSheet& device, const std::string& dtype, const AttentionShape& shape,
                                       Seconds modelled) const;
  // The ranks are in one host; `size` as in collective_time.
  [[nodiscard]] TimeEstimate collective(const DataSheet& device, CollectiveKind kind, Bytes size, int ranks,
                                        Seconds modelled) const;

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // device, type ("" for collectives), family
  [[nodiscard]] TimeEstimate corrected(const Key& key, const ShapePoint& point, Seconds modelled) const;

  std::map<Key, Neighbours> neighbours_;
};

// The time of a row by its term with the shipped constants; nullopt where there is no term with constants for it, no
// data sheet, or no peak for its type.
[[nodiscard]] std::optional<Seconds> modelled_time(const KernelRow& row);

// Rows that took more than ten times as long, or less than a tenth, of what the model says with the other rows of their
// implementation near in shape; indices into `rows`.
[[nodiscard]] std::vector<std::size_t> outliers(const std::vector<KernelRow>& rows);

}  // namespace meshwright
