// SPDX-License-Identifier: Apache-2.0
#include "train/rank_place.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "platform/node_topology.hpp"

namespace dos::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
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

}  // namespace
}  // namespace dos::train
