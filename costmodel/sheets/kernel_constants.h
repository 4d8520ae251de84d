// SPDX-License-Identifier: Apache-2.0
// The shipped constants of the kernel terms, as `meshwright calibrate` wrote them (constants.json).
#pragma once

#include <optional>
#include <string>

#include "core/base/json.h"
#include "costmodel/sheets/data_sheet.h"
#include "costmodel/terms/attention.h"
#include "costmodel/terms/collective_protocols.h"
#include "costmodel/terms/products.h"

namespace meshwright {

class KernelConstants {
 public:
  [[nodiscard]] static const KernelConstants& shipped();
  // Throws InputError for a file of another format or version.
  [[nodiscard]] static KernelConstants from_json(const Json& json, const std::string& place);

  // Those of the device and type; else of a device of its generation, the one of the nearest peak, with the same type
  // or, for products, the other type of 16 bits; else the defaults of the terms.
  [[nodiscard]] ProductConstants products(const DataSheet& device, const std::string& dtype) const;
  // Whether there are any of the device itself.
  [[nodiscard]] bool has_products(const DataSheet& device, const std::string& dtype) const;
  [[nodiscard]] AttentionConstants attention(const DataSheet& device, bool causal) const;
  // Within a host, where measured; no other device stands in for it.
  [[nodiscard]] std::optional<CollectiveProtocols> collectives(const DataSheet& device, CollectiveKind kind) const;

 private:
  struct Set {
    std::string term, device, what;
    Json constants;
    int rows;
  };
  // The set of `term` for which `fits(what)` holds, of the device or of its generation; of several, that of most rows.
  template <class Fits>
  [[nodiscard]] const Set* find(std::string_view term, const DataSheet& device, bool generation,
                                const Fits& fits) const;

  std::vector<Set> sets_;
};

}  // namespace meshwright
