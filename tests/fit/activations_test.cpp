// SPDX-License-Identifier: Apache-2.0
#include "fit/activations.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "fit/estimate.hpp"
#include "planner/activation_choice.hpp"
#include "shape/model.hpp"
#include "small_runs.hpp"

namespace dos::fit::activations_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Activations, ActivationsAreKeptWhereAllFits) {
  const config::TrainConfig config = with_activations(config_of(6), "auto");
  for (const char* how : {"error", "auto"})
    EXPECT_EQ(fit(config, needed(config_of(6)), how).train.activations, "keep");
}

const shape::ModelConfig kDeep{"gpt2", 12, 64, 4, 1024, 1000};

train::Run deep_run(const config::TrainConfig& config) {
  return train::make_run(config, kDeep);
}

double deep_need(const config::TrainConfig& config) {
  return estimate_run(deep_run(config), room_with(1e15)).devices.front().total().value();
}

/// A GPU of few FLOP: what it computes again takes longer than such a link or disk.
Room slow_room(double bytes, double link, double disk) {
  const auto per_second = [](double rate) { return units::BytesPerSecond(rate); };
  Room room = room_with(bytes);
  room.measured.compute = units::FlopsPerSecond(1e11);
  room.measured.link = planner::CopyRates{per_second(link), per_second(link), per_second(link)};
  room.measured.disk = planner::DiskRates{per_second(disk), per_second(disk)};
  return room;
}

/// The model of a run's forward and backward on one GPU of the room, and what it forecasts.
double passes_of(const config::TrainConfig& config, const Room& room) {
  const shape::Model model = shape::model_of("", kDeep);
  const planner::PassModel passes(model, pass_rates(config, room),
                                  static_cast<double>(config.train.batch * kDeep.context),
                                  DType::kF32);
  const planner::PhaseTimes times = passes.times(config.activation_plan());
  return (times.forward + times.backward).value();
}

// With links and disks of each kind, in ever less memory: what is taken fits, no fixed plan that
// fits takes less time, and what moves nothing is taken where it takes as long.
TEST(Activations, AutoTakesThePlanForActivationsThatTakesLeastTime) {
  std::set<std::string> taken;
  for (const auto& [link, disk] : {std::pair{1e15, 0.0}, {1e15, 1e15}, {1e6, 0.0}}) {
    config::TrainConfig base = config_of(6, 2);
    if (disk > 0) base.train.activation_disks = "disk";
    const double least = deep_need(with_activations(base, "recompute"));
    const double most = deep_need(base);
    for (const double part : {0.0, 0.2, 0.5, 0.8, 0.999}) {
      SCOPED_TRACE(testing::Message() << link << " " << disk << " " << part);
      Room room = slow_room(least + part * (most - least), link, disk);
      // A disk is for what the host has no room for.
      if (disk > 0)
        room.host_bytes = static_cast<Index>(
            estimate_run(deep_run(with_activations(base, "disk")), room).host.total().value() + 1);
      const train::Run run = deep_run(with_activations(base, "auto"));
      const config::TrainConfig result = fit_to(run, room).config;
      EXPECT_TRUE(estimate_run(deep_run(result), room).fits());
      for (const char* plan : {"keep", "selective", "recompute", "host", "disk"}) {
        const config::TrainConfig fixed = with_activations(base, plan);
        if (fixed.activation_plan().moved > 0 && disk == 0) continue;
        if (estimate_run(deep_run(fixed), room).fits()) {
          EXPECT_LE(passes_of(result, room), passes_of(fixed, room) * (1 + planner::kSameTime))
              << plan << " instead of " << result.train.activations;
        }
      }
      taken.insert(result.train.activations.substr(0, result.train.activations.find(':')));
      EXPECT_THAT(describe_activations(run.with(result), room),
                  AllOf(HasSubstr(result.train.activations), HasSubstr("GFLOP/s")));
    }
  }
  EXPECT_THAT(taken, testing::IsSupersetOf({"selective", "host", "disk", "recompute"}));
}

TEST(Activations, AutoFailsWhereTheLeastDoesNotFit) {
  for (const bool has_disk : {false, true}) {
    config::TrainConfig base = with_activations(config_of(6, 2), "auto");
    if (has_disk) base.train.activation_disks = "disk";
    const double least = least_needed(with_activations(base, "recompute"));
    EXPECT_NO_THROW(fit(base, least, "error"));
    EXPECT_THAT(error_of(base, least - 1),
                AllOf(HasSubstr("the run needs " + size_text(units::Bytes(least)) +
                                " of memory on CUDA 0 even with train.activations=recompute"),
                      HasSubstr(size_text(units::Bytes(least - 1)) + " are available")));
    const config::TrainConfig smaller = fit(base, least - 1);
    EXPECT_LT(smaller.train.batch, 6);
    EXPECT_LE(least_needed(smaller), least - 1);
  }
}

// What goes to host memory must fit there, too.
TEST(Activations, AutoMovesNoMoreThanTheHostHolds) {
  const config::TrainConfig base = with_activations(config_of(6, 2), "auto");
  Room room = slow_room(deep_need(with_activations(base, "host")), 1e15, 0);
  const auto host_of = [&](const char* plan) {
    return estimate_run(deep_run(with_activations(base, plan)), room).host.total().value();
  };
  EXPECT_EQ(fit_to(deep_run(base), room).config.train.activations, "host:12");
  room.host_bytes = static_cast<Index>(host_of("host:3,recompute:9")) + 1'000'000;
  const config::TrainConfig result = fit_to(deep_run(base), room).config;
  EXPECT_TRUE(estimate_run(deep_run(result), room).fits());
  EXPECT_EQ(result.train.activations, "host:3,recompute:9");
}

}  // namespace
}  // namespace dos::fit::activations_test
