// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_place.hpp"

#include <gmock/gmock.h>
#include <pthread.h>

#include <future>
#include <thread>

#include "base/error.hpp"
#include "platform/node_topology.hpp"
#include "rt/device.hpp"

namespace dos::launch::rank_place_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::vector<Index> bound_cores() {
  return platform::NodeTopology::of_this_machine().bound_cores();
}

/// On a part of this machine's cores, without GPUs; the test gives all of them back.
class RankPlaceTest : public testing::Test {
 protected:
  ~RankPlaceTest() override { platform::NodeTopology::of_this_machine().bind_process(before_); }

  RankPlace on_first_core(platform::Origin origin) const {
    RankPlace place = find_rank_place();
    place.binding.origin = origin;
    place.binding.cores = {before_.front()};
    return place;
  }

  std::vector<Index> before_ = bound_cores();
  rt::SessionConfig session_;
};

TEST_F(RankPlaceTest, AloneHasEverything) {
  const RankPlace place = find_rank_place();
  EXPECT_EQ(place.binding.cores, before_);
  EXPECT_EQ(place.position.size, 1);
  EXPECT_THAT(describe(place), HasSubstr("rank 0 of 1 on "));
  EXPECT_EQ(topology_text(place), describe(place) + "\n");
  apply(place, 0, session_);
  EXPECT_EQ(bound_cores(), before_);
  EXPECT_EQ(session_.reserved_cores, 0);
}

TEST_F(RankPlaceTest, APartOfTheNodeIsBoundTo) {
  RankPlace place = on_first_core(platform::Origin::kDivided);
  place.binding.has_progress_core = true;
  apply(place, 0, session_);
  EXPECT_THAT(bound_cores(), ElementsAre(before_.front()));
  EXPECT_EQ(session_.reserved_cores, 1);
}

TEST_F(RankPlaceTest, MoreWorkersThanThePartStayUnbound) {
  apply(on_first_core(platform::Origin::kDivided), 2, session_);
  EXPECT_EQ(bound_cores(), before_);
}

TEST_F(RankPlaceTest, MoreWorkersThanTheLauncherGaveAreRefused) {
  EXPECT_THAT(
      [&] { apply(on_first_core(platform::Origin::kLauncher), 2, session_); },
      ThrowsMessage<Error>(HasSubstr("train.workers = 2, but this rank is bound to 1 cores")));
  apply(on_first_core(platform::Origin::kLauncher), 1, session_);
  EXPECT_EQ(bound_cores(), before_) << "the launcher has bound it";
}

/// The cores that a thread may run on.
std::vector<Index> cores_of(pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(thread, sizeof set, &set), 0);
  std::vector<Index> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cores.push_back(cpu);
  return cores;
}

// One worker: the other cores, where there are any, are for the thread; none is taken from it else.
TEST_F(RankPlaceTest, AThreadBesideTheWorkersHasTheSpareCores) {
  const RankPlace place = find_rank_place();
  std::promise<void> end;
  std::thread thread([&] { end.get_future().wait(); });
  const std::vector<Index> all = cores_of(thread.native_handle());
  {
    const rt::Session session({.scheduler = "", .cpu_workers = 1});
    const std::vector<Index> taken = rt::worker_cores();
    EXPECT_EQ(taken.size(), 1U);
    keep_from_workers(place, thread.native_handle());
    const std::vector<Index> cores = cores_of(thread.native_handle());
    if (before_.size() == 1) {
      EXPECT_EQ(cores, all);
    } else {
      EXPECT_THAT(cores, Not(Contains(taken.front())));
    }
    RankPlace full = place;
    full.binding.cores = taken;
    keep_from_workers(full, thread.native_handle());
    EXPECT_EQ(cores_of(thread.native_handle()), cores);
  }
  end.set_value();
  thread.join();
}

}  // namespace
}  // namespace dos::launch::rank_place_test
