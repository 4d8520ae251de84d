// SPDX-License-Identifier: Apache-2.0
// Reads the times of ops and collectives from an execution trace of MLCommons Chakra: protocol buffers, each message
// behind its length, first the metadata, then the nodes; plain or gzip.
//
// What counts are the nodes of the device (attribute is_cpu_op is false) with their duration_micros. A COMP_NODE
// belongs to the first known operator (torch_ops.h) among the operator nodes that it depends on by control and those
// around them; a COMM_COLL_NODE has its kind from comm_type, its bytes from comm_size, and its ranks from the process
// group (pg_name) as a node "process_group:init" lists it. comm_size counts what a rank hands in, so that an
// all-gather's size is comm_size times the ranks.
#pragma once

#include <string>
#include <string_view>

#include "costmodel/traces/trace_rows.h"

namespace meshwright {

// Whether bytes begin as such a trace does.
[[nodiscard]] bool is_chakra_trace(std::string_view bytes);

// `devices_per_host`: ranks follow one another host by host. Throws InputError naming the file where it is damaged or
// has nothing that finds a row.
[[nodiscard]] TraceImport read_chakra_trace(std::string_view bytes, const std::string& place, int devices_per_host);

}  // namespace meshwright
