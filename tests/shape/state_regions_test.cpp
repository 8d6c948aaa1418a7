// SPDX-License-Identifier: Apache-2.0
#include "shape/state_regions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "shape/model.hpp"

namespace dos::shape::state_regions_test {
namespace {

TEST(StateRegions, AreOneForEachSubgroupAndThoseThatAreWrittenTo) {
  const std::vector<Index> sizes(100, 4096);
  for (const Index disks : {1, 3}) {
    const StateRegions regions = regions_for(sizes, 40, disks);
    EXPECT_EQ(regions.bytes, std::vector<Index>{4096});
    EXPECT_EQ(regions.counts, std::vector<Index>{100 + 2 * disks});
    EXPECT_EQ(regions.total_bytes(), (100 + 2 * disks) * 4096);
  }
  EXPECT_EQ(regions_for(sizes, 2, 3).counts, std::vector<Index>{102});
  const std::vector<Index> one{4096};
  EXPECT_EQ(regions_for(one, 8, 1).counts, std::vector<Index>{2});
}

TEST(StateRegions, HoldTheSubgroupsThatHaveTheirSize) {
  const std::vector<Index> sizes{100, 7, 95, 100, 8, 60, 7};
  const StateRegions regions = regions_for(sizes, 8, 1);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_LE(sizes[i], regions.bytes[static_cast<std::size_t>(regions.size_of[i])]);
}

// Whatever sizes subgroups have: a model's largest ones are parts of tables, its smallest norms.
TEST(StateRegions, TakeLittleMoreThanStatesAndSlots) {
  for (const char* name : {"gpt2-124m", "smollm2-135m", "gpt2-1.5b", "llama-7b"})
    for (const Index most : {1'000'000, 5'000'000, 100'000'000}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(most));
      const ModelConfig config = find_preset(name, "model", preset_names());
      const Layout layout =
          cut_into_subgroups(find_family(config.architecture).parameters(config), most, {});
      std::vector<Index> sizes;
      for (const Subgroup& subgroup : layout.subgroups) sizes.push_back(12 * subgroup.count + 8192);
      const Index states = std::accumulate(sizes.begin(), sizes.end(), Index{0});
      const Index slots = 8 * *std::ranges::max_element(sizes);
      // Of what is rounded up each size is filled to kLeastFilled.
      const StateRegions regions = regions_for(sizes, 8, 1);
      EXPECT_LE(static_cast<double>(regions.total_bytes()),
                1.3 * static_cast<double>(states) + static_cast<double>(slots));
    }
}

}  // namespace
}  // namespace dos::shape::state_regions_test
