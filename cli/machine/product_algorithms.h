// SPDX-License-Identifier: Apache-2.0
// The algorithms of matrix products in a profile database: timed once by `meshwright profile`, and used by all later
// runs on such GPUs.
#pragma once

#include <initializer_list>
#include <string>

#include "cli/machine/machine.h"
#include "costmodel/profile_db.h"
#include "kernels/cuda/products/product_choices.h"

namespace meshwright {

// Adds the algorithms that the database has for such a device and this version of the library.
void import_product_algorithms(const ProfileDb& db, const std::string& device, const std::string& library,
                               kernels::cuda::ProductChoices& choices);

// The same for a machine that takes algorithms, from each of the databases (null: none); the first databases win.
void take_product_algorithms(const Machine& machine, std::initializer_list<const ProfileDb*> databases);
// After a run: reports the refused algorithms, and returns the number of the others.
std::size_t count_usable_algorithms(const Machine& machine);

// Stores the algorithms that are new to the database, or differ from its own.
void store_product_algorithms(ProfileDb& db, std::int64_t session, const std::string& device,
                              const std::string& library, const kernels::cuda::ProductChoices& choices);

// Warns on stderr if the library did not recognise some of them.
void tell_refused(const std::string& library, const kernels::cuda::ProductChoices& choices);

}  // namespace meshwright
