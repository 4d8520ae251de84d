// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/processes.h"

#include <CLI/CLI.hpp>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/peers/peer_tags.h"
#include "executor/runner/device_threads.h"

#ifdef MESHWRIGHT_WITH_MPI
#include "executor/peers/mpi/mpi_peers.h"
#endif

namespace meshwright {

void add_patience_option(CLI::App& verb, std::string& patience) {
  verb.add_option("--patience", patience,
                  "with --transport mpi: seconds for which nothing may be heard of another process before it counts as "
                  "lost and the run ends")
      ->capture_default_str();
}

Seconds patience_from_text(const std::string& patience) {
  constexpr long kDay = 24 * 3600;
  return Seconds(static_cast<double>(parse_integer(patience, "--patience", 1, kDay)));
}

#ifdef MESHWRIGHT_WITH_MPI

namespace {

constexpr int kSpeaker = 0;

// Sleeps, so that the first process has the machine for its remaining work.
void wait_for_first(Peers& peers, const Abort& abort) {
  const std::uint64_t tag = peer_tag(PeerTag::Done, 0);
  if (peers.rank() != kSpeaker) {
    static_cast<void>(peers.receive(kSpeaker, tag, abort));
    return;
  }
  for (int other = 0; other < peers.size(); ++other)
    if (other != kSpeaker) peers.send(other, tag, {});
}

void work_and_wait(Peers& peers, const std::function<void(Peers& peers)>& work) {
  try {
    work(peers);
    Abort abort;
    const PeerWatch watched(peers, abort);
    wait_for_first(peers, abort);
  } catch (const Aborted&) {
    throw_failure_of_peer(peers);
  }
}

}  // namespace

bool knows_mpi() { return true; }

void work_together(Context& context, Seconds patience, const std::function<void(Peers& peers)>& work) {
  const std::unique_ptr<Peers> peers = join_mpi(patience);
  context.quiet = peers->rank() != kSpeaker;
  try {
    work_and_wait(*peers, work);
  } catch (const PeerLost&) {
    context.quiet = false;  // the one that speaks may be the one that was lost
    context.say_error();
    throw;
  } catch (const std::exception& error) {
    context.say_error();  // before the others leave, and whoever started them ends all
    peers->fail(error.what());
    throw;
  }
}

#else

bool knows_mpi() { return false; }
void work_together(Context&, Seconds, const std::function<void(Peers& peers)>&) {
  throw InternalError("this build has no MPI support");
}

#endif

}  // namespace meshwright
