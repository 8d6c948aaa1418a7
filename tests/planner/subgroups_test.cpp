// SPDX-License-Identifier: Apache-2.0
#include "planner/subgroups.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "base/common_sizes.hpp"
#include "requests.hpp"
#include "shape/cutter.hpp"
#include "shape/owners.hpp"

namespace dos::planner::subgroups_test {
namespace {

TEST(Subgroups, OfThePublishedSampleRun) {
  // 130 subgroups at 10 M: embedding, 4 a layer of 16.78, 20.97, 90.18, 45.09 M, LM head; stride 2
  // puts 3.629 B parameters, 61 %, on the GPU.
  const auto subgroups = cut_as_published(test::preset("llama-7b"), 1, 10'000'000);
  ASSERT_EQ(subgroups.size(), 130U);
  EXPECT_NEAR(static_cast<double>(subgroups[0].params), 206.05e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[1].params), 16.78e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[2].params), 20.97e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[3].params), 90.18e6, 1e4);
  EXPECT_NEAR(static_cast<double>(subgroups[4].params), 45.09e6, 1e4);
  double odd = 0;
  for (std::size_t i = 1; i < subgroups.size(); i += 2)
    odd += static_cast<double>(subgroups[i].params);
  EXPECT_NEAR(odd, 3.629e9, 1e6);
}

TEST(Subgroups, HaveTheRoomThatGpusHaveForThem) {
  const auto subgroups = cut_for_rank(test::preset("llama-7b"), 1, 42'900'000);
  std::vector<Index> sizes;
  std::vector<Index> rooms;
  for (const sched::Subgroup& each : subgroups) {
    sizes.push_back(each.params);
    rooms.push_back(each.room);
  }
  EXPECT_EQ(rooms, common_sizes(sizes));
  const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  EXPECT_EQ(filled(subgroups), all / std::accumulate(rooms.begin(), rooms.end(), 0.0));
  EXPECT_LT(filled(subgroups), 0.85);
  EXPECT_EQ(filled({{.params = 3}, {.params = 1, .room = 3}}), 4.0 / 6);
}

// What is not filled holds no states: three quarters would be, of subgroups as large as workers ask
// for.
TEST(Subgroups, FillTheirRoomUnlessASizeIsSet) {
  Request request = test::request("h200", "llama-13b", 1);
  const Forecast chosen = forecast(request);
  EXPECT_GT(filled(chosen.problem.subgroups), 0.9);
  request.settings.subgroup_params = subgroup_params(request, chosen.problem.rates);
  EXPECT_GE(request.settings.subgroup_params, chosen.problem.largest());
  EXPECT_LE(request.settings.subgroup_params, 2 * chosen.problem.largest() + 1'000'000);
  const Forecast set = forecast(request);
  EXPECT_LT(filled(set.problem.subgroups), 0.8);
  EXPECT_GT(set.step, chosen.step);
}

TEST(Subgroups, AreThoseOfTrainGpt) {
  for (const std::string& name : shape::preset_names()) {
    SCOPED_TRACE(name);
    shape::ModelConfig config = test::preset(name).config;
    // All layers are alike, and the largest models have millions of subgroups.
    config.layers = std::min<Index>(config.layers, 3);
    const shape::Model model = shape::model_of(name, config);
    for (const Index size : {model.params(), model.params() / 7, 5 * config.width}) {
      const Index limit = std::max(size, 20 * config.width);
      const shape::Layout layout = shape::cut_into_subgroups(model.parameters, limit, {});
      const auto alone = cut_for_rank(model, 1, limit);
      ASSERT_EQ(alone.size(), layout.subgroups.size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(alone[i].params, layout.subgroups[i].count);
        EXPECT_EQ(alone[i].depth, layout.subgroups[i].depth);
      }
      // Of three ranks none has more than the one that is planned.
      std::vector<Index> counts;
      for (const shape::Subgroup& subgroup : layout.subgroups) counts.push_back(subgroup.count);
      const std::vector<double> equal(3, 1.0);
      const std::vector<Index> owners = shape::assign_owners(counts, equal);
      Index most = 0;
      for (Index rank = 0; rank < 3; ++rank) {
        Index owned = 0;
        for (std::size_t i = 0; i < counts.size(); ++i) owned += owners[i] == rank ? counts[i] : 0;
        most = std::max(most, owned);
      }
      Index planned = 0;
      for (const sched::Subgroup& subgroup : cut_for_rank(model, 3, limit))
        planned += subgroup.params;
      EXPECT_EQ(planned, most);
    }
  }
}

}  // namespace
}  // namespace dos::planner::subgroups_test
