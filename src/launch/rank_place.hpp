// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <string>

#include "platform/binding.hpp"
#include "platform/neighbours.hpp"
#include "rt/session.hpp"

namespace dos::launch {

/// Where a rank runs.
struct RankPlace {
  std::string host;
  platform::RankPosition position;
  platform::Node node;
  platform::Binding binding;
  Index visible_gpus = 0;  ///< CUDA devices that the ranks of the node see, each counted once
};

/// Reads the machine and what each rank of the node was given, and decides (platform/binding.hpp).
/// Collective. Throws Error when the machine cannot be read.
RankPlace find_rank_place();

/// "rank 1 of 2 on node7 (1 of 2 there): cores 2-3 (2 for workers), NUMA node 0, divided ..."
std::string describe(const RankPlace& place);

/// One line a rank, on rank 0; warnings on the first rank of each node. Collective.
std::string topology_text(const RankPlace& place);

/// Lets a thread beside StarPU's workers (std::thread::native_handle()) run where no worker is
/// bound to, of this rank's cores: it does not take turns with one. Anywhere when all are taken.
/// After the session has started.
void keep_from_workers(const RankPlace& place, pthread_t thread);

/// Binds this process and its memory, and tells the session what it may use. `workers` is
/// train.workers: more of them than the rank's part of undivided cores leave the process unbound,
/// with a warning. Throws Error when the system refuses, or when they are more than the launcher
/// has given.
void apply(const RankPlace& place, Index workers, rt::SessionConfig& session);

}  // namespace dos::launch
