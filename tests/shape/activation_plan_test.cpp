// SPDX-License-Identifier: Apache-2.0
#include "shape/activation_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "message_of.hpp"

namespace dos::shape::activation_plan_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ActivationPlan, IsRead) {
  EXPECT_TRUE(parse_activation_plan("keep").keeps_all());
  EXPECT_TRUE(parse_activation_plan("auto").keeps_all());
  EXPECT_EQ(parse_activation_plan("recompute"), kRecomputeAll);
  EXPECT_EQ(parse_activation_plan("disk"), (ActivationPlan{.moved = ActivationPlan::kAll}));
  EXPECT_EQ(parse_activation_plan("host"), (ActivationPlan{.hosted = ActivationPlan::kAll}));
  EXPECT_EQ(parse_activation_plan("selective:6,disk:4"),
            (ActivationPlan{.moved = 4, .selective = 6}));
  EXPECT_EQ(parse_activation_plan("disk:1,host:3,recompute:2,selective"),
            (ActivationPlan{
                .moved = 1, .hosted = 3, .recomputed = 2, .selective = ActivationPlan::kAll}));
}

TEST(ActivationPlan, RefusesOtherTexts) {
  for (const char* text :
       {"", "kept", "disk:", "disk:0", "disk:-1", "disk:1.5", "disk:1x", "disk:4,", "disk:4,disk:1",
        "keep:3", "keep,disk", "Disk", " disk", "disk:9999999999999999999999", "4"})
    EXPECT_THAT(test::message_of<Error>([&] { parse_activation_plan(text); }),
                AllOf(HasSubstr("train.activations = '"),
                      HasSubstr("use keep, selective, recompute, host, disk")))
        << text;
}

TEST(ActivationPlan, IsWrittenForItsBlocks) {
  EXPECT_EQ(activation_plan_text({}, 12), "keep");
  EXPECT_EQ(activation_plan_text(kRecomputeAll, 12), "recompute:12");
  EXPECT_EQ(activation_plan_text({.moved = 2, .hosted = 1, .recomputed = 3, .selective = 100}, 12),
            "disk:2,host:1,recompute:3,selective:6");
}

/// Every plan of up to two blocks of each kind.
std::vector<ActivationPlan> small_plans() {
  std::vector<ActivationPlan> plans;
  for (Index moved = 0; moved < 3; ++moved)
    for (Index hosted = 0; hosted < 3; ++hosted)
      for (Index recomputed = 0; recomputed < 3; ++recomputed)
        for (Index selective = 0; selective < 3; ++selective)
          plans.push_back({moved, hosted, recomputed, selective});
  return plans;
}

TEST(ActivationPlan, IsReadAsItIsWritten) {
  for (const ActivationPlan& plan : small_plans())
    EXPECT_EQ(parse_activation_plan(activation_plan_text(plan, 9)), plan);
}

// Each kind of saving is that of the rank with more of it: of disks, of memory at all, of what
// products make on a device, of what is cheap there.
TEST(ActivationPlan, OfSeveralRanksSavesWhatAnyOfThemSaves) {
  const auto savings = [](const ActivationPlan& plan) {
    return std::array{plan.moved, plan.moved + plan.recomputed,
                      plan.moved + plan.hosted + plan.recomputed,
                      plan.moved + plan.hosted + plan.recomputed + plan.selective};
  };
  for (const ActivationPlan& one : small_plans())
    for (const ActivationPlan& other : small_plans()) {
      auto most = savings(one);
      for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], savings(other)[i]);
      EXPECT_EQ(savings(one.with_all_of(other)), most);
    }
}

// Forward writes blocks in order, backward reads them in the other one.
TEST(BufferSets, KnowWhatIsOverwrittenAndWhatIsUsedLast) {
  for (Index blocks = 1; blocks <= 7; ++blocks)
    for (Index shared = 0; shared <= 8; ++shared)
      for (Index ring = 1; ring <= 4; ++ring) {
        const BufferSets sets(blocks, shared, ring);
        std::vector<Index> last_writer(static_cast<std::size_t>(sets.count()), -1);
        for (Index b = 0; b < blocks; ++b) {
          ASSERT_LT(sets.of(b), sets.count());
          last_writer[static_cast<std::size_t>(sets.of(b))] = b;
        }
        EXPECT_EQ(std::ranges::count(last_writer, -1), 0) << "a set that nobody uses";
        EXPECT_LE(sets.count(), std::max<Index>(0, blocks - shared) + std::min(ring, shared));
        for (Index b = 0; b < blocks; ++b) {
          EXPECT_EQ(sets.is_lost(b), last_writer[static_cast<std::size_t>(sets.of(b))] != b);
          bool is_last = true;
          for (Index before = 0; before < b; ++before)
            is_last = is_last && sets.of(before) != sets.of(b);
          EXPECT_EQ(sets.is_last_use(b), is_last);
        }
      }
}

}  // namespace
}  // namespace dos::shape::activation_plan_test
