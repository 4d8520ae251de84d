// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/processes.h"

#include "core/base/errors.h"
#include "executor/peers/peer_tags.h"

#ifdef MESHWRIGHT_WITH_MPI
#include "executor/peers/mpi/mpi_peers.h"
#endif

namespace meshwright {

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
    const auto failure = peers.failure();
    MW_CHECK(failure, "all processes stopped, but none reported why");
    throw SystemError(fmt::format("process {}: {}", failure->rank, failure->why));
  }
}

}  // namespace

bool knows_mpi() { return true; }

void work_together(Context& context, const std::function<void(Peers& peers)>& work) {
  const std::unique_ptr<Peers> peers = join_mpi();
  context.quiet = peers->rank() != kSpeaker;
  try {
    work_and_wait(*peers, work);
  } catch (const std::exception& error) {
    context.say_error();  // before the others leave, and whoever started them ends all
    peers->fail(error.what());
    throw;
  }
}

#else

bool knows_mpi() { return false; }
void work_together(Context&, const std::function<void(Peers& peers)>&) {
  throw InternalError("this build has no MPI support");
}

#endif

}  // namespace meshwright
