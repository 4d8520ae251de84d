// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/product_algorithms.h"

#include "cli/terminal/output.h"
#include "core/base/text.h"

namespace meshwright {

void import_product_algorithms(const ProfileDb& db, const std::string& device, const std::string& library,
                               kernels::cuda::ProductChoices& choices) {
  for (const auto& [product, algorithm] : db.product_algorithms(device, library)) choices.keep(product, algorithm);
}

void take_product_algorithms(const Machine& machine, std::initializer_list<const ProfileDb*> databases) {
  if (machine.product_choices == nullptr) return;
  for (const ProfileDb* db : databases)
    if (db != nullptr)
      import_product_algorithms(*db, machine.device, machine.product_library, *machine.product_choices);
}

std::size_t count_usable_algorithms(const Machine& machine) {
  if (machine.product_choices == nullptr) return 0;
  tell_refused(machine.product_library, *machine.product_choices);
  return machine.product_choices->all().size();
}

void store_product_algorithms(ProfileDb& db, std::int64_t session, const std::string& device,
                              const std::string& library, const kernels::cuda::ProductChoices& choices) {
  std::map<std::string, std::string> fresh = choices.all();
  for (const auto& [product, algorithm] : db.product_algorithms(device, library))
    if (const auto same = fresh.find(product); same != fresh.end() && same->second == algorithm) fresh.erase(same);
  if (!fresh.empty()) db.put_product_algorithms(session, device, library, fresh);
}

void tell_refused(const std::string& library, const kernels::cuda::ProductChoices& choices) {
  const auto refused = choices.refused();
  if (refused.empty()) return;
  tell(
      fmt::format("meshwright: {} stored product algorithms were ignored because {} does not accept them on this GPU; "
                  "the first is for {}",
                  refused.size(), library, *refused.begin()));
}

}  // namespace meshwright
