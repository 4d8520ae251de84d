// SPDX-License-Identifier: Apache-2.0
// Constants of the kernel terms from measured rows: few per device and type, by a robust fit, judged on rows kept back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "costmodel/calibration/kernel_rows.h"
#include "costmodel/calibration/residuals.h"
#include "costmodel/terms/attention.h"
#include "costmodel/terms/collective_protocols.h"
#include "costmodel/terms/memory_pass.h"
#include "costmodel/terms/products.h"

namespace meshwright {

struct FittedConstant {
  std::string name;
  double value = 0.0;  // SI
  // By how much the loss grows when the constant alone is moved by a tenth, as a share of the loss: near 0, the rows do
  // not determine it.
  double sensitivity = 0.0;
  bool at_bound = false;
};

// One set of constants.
struct KernelFit {
  std::string term;    // products, attention, network, memory
  std::string device;  // name of a data sheet
  std::string what;    // a dtype; "all-reduce"; "layernorm backward f16"
  std::vector<FittedConstant> constants;
  ErrorSummary fitted, held_back;
  // Errors on the rows kept back when fitted rows near in shape correct the model (neighbours.h); passes: held_back.
  ErrorSummary held_back_near;
};

// All rows of a device and term that were kept back.
struct DeviceErrors {
  std::string term, device;
  ErrorSummary held_back, held_back_near;
};

struct KernelFits {
  std::vector<KernelFit> fits;          // by term, device, what
  std::vector<DeviceErrors> by_device;  // by term, device
  std::vector<RejectedRow> impossible;  // sets of a type for which their device has no peak
  std::vector<RejectedRow> unused;      // rows of devices without a data sheet, and sets of too few rows
};

struct KernelFitOptions {
  std::vector<std::string> terms = {"matmul", "attention", "network", "memory"};
  double holdout = 0.3;
  std::uint64_t seed = 1;
};

// Every set of rows with one device and type (products, attention), kind and number of ranks (collectives) or kind and
// type (passes) is fitted alone. Throws InputError for an unknown term or a share outside 0..0.9.
[[nodiscard]] KernelFits fit_kernels(const std::vector<KernelRow>& rows, const KernelFitOptions& options);

}  // namespace meshwright
