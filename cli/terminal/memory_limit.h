// SPDX-License-Identifier: Apache-2.0
// `ulimit -v`: libraries that are refused memory may write to where there is none.
#pragma once

namespace meshwright {

// Where the address space is limited, an access to no memory ends the process with a sentence that names the limit and
// the exit code of a system error. Without a limit it ends as any process does.
void blame_memory_limit();

}  // namespace meshwright
