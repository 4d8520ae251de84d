// SPDX-License-Identifier: Apache-2.0
// Algorithms of products between a profile database and the GPUs that take them: timed once by `meshwright profile`,
// the same ever after.
#pragma once

#include <initializer_list>
#include <string>

#include "cli/machine/machine.h"
#include "costmodel/profile_db.h"
#include "kernels/cuda/products/product_choices.h"

namespace meshwright {

// Puts those that the database has for such a device and this version of the library beside the ones that are there.
void import_product_algorithms(const ProfileDb& db, const std::string& device, const std::string& library,
                               kernels::cuda::ProductChoices& choices);

// The same of a machine that takes algorithms, from each of the databases (null: none), what the first have first.
void take_product_algorithms(const Machine& machine, std::initializer_list<const ProfileDb*> databases);
// After a run: tells of those that were refused, and returns how many are left.
std::size_t count_usable_algorithms(const Machine& machine);

// Stores those that the database has not, or has otherwise.
void store_product_algorithms(ProfileDb& db, std::int64_t session, const std::string& device,
                              const std::string& library, const kernels::cuda::ProductChoices& choices);

// On stderr, where the library took some of them for none of its own.
void tell_refused(const std::string& library, const kernels::cuda::ProductChoices& choices);

}  // namespace meshwright
