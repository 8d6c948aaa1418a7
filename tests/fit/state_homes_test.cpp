// SPDX-License-Identifier: Apache-2.0
// Where states live that host memory has no room for.
#include <gmock/gmock.h>

#include <algorithm>

#include "fit/spare_memory.hpp"
#include "offload/home_plan.hpp"
#include "small_runs.hpp"

namespace dos::fit::state_homes_test {
namespace {

using testing::HasSubstr;

TEST(StateHomes, StatesStayInTheMemoryThatIsLeft) {
  config::TrainConfig config = config_of(1);
  config.sched.disks = "/disk";
  config.sched.subgroup_params = 20'000;
  const train::Run run = run_of(config);
  Room much = room_with(1e15);
  much.host_bytes = Index{1} << 50;
  const double least = estimate_run(run, much).host.total().value();
  const train::Run in_memory = choose_homes(run, much);
  EXPECT_TRUE(train::plan_homes(in_memory, much.workers).are_all_in_host_memory());
  const double most = estimate_run(in_memory, much).host.total().value();
  std::size_t before = run.layout.subgroups.size();
  for (const double part : {-0.5, 0.0, 0.3, 0.6, 1.0, 1.4}) {
    SCOPED_TRACE(part);
    Room room = much;
    room.host_bytes = static_cast<Index>(least + part * (most - least));
    const train::Run chosen = choose_homes(run, room);
    const double taken = estimate_run(chosen, room).host.total().value() - least;
    const double may_take = std::clamp(0.75 * part, 0.0, 1.0) * (most - least);
    EXPECT_LE(taken, may_take + 1);
    // What is left over is less than a subgroup.
    EXPECT_GE(taken, may_take - 8 * 20'000.0 - 4096);
    const std::size_t on_disks = train::plan_homes(chosen, room.workers).on_disks().size();
    EXPECT_LE(on_disks, before);
    before = on_disks;
  }
  config.sched.host_memory = 0;
  EXPECT_EQ(train::plan_homes(choose_homes(run_of(config), much), much.workers).on_disks().size(),
            run.layout.subgroups.size());
}

/// One GPU beside a host with so many bytes.
Room small_host(double host, const char* policy) {
  Room room = room_with(1e10);
  room.host_bytes = static_cast<Index>(host);
  room.policy = policy;
  return room;
}

TEST(StateHomes, DevicesKeepStatesThatTheHostHasNoRoomFor) {
  config::TrainConfig config = config_of(1);
  config.train.precision = "bf16";
  config.sched.subgroup_params = 20'000;
  const train::Run run = run_of(config);
  const double all = estimate_run(run, room_with(1e10)).host.total().value();
  const double states = 12 * static_cast<double>(run.layout.trained_count());
  EXPECT_TRUE(choose_homes(run, small_host(all + 1, "dos")).device_state_memory.empty());
  const Room room = small_host(all - states / 2, "dos");
  const train::Run kept = choose_homes(fit_to(run, room), room);
  const offload::HomePlan homes = train::plan_homes(kept, room.workers);
  EXPECT_EQ(homes.on_devices().size(), run.layout.subgroups.size());
  const RunMemory memory = estimate_run(kept, room);
  EXPECT_TRUE(memory.fits());
  EXPECT_NEAR(memory.host.total().value(), all - states + static_cast<double>(homes.memory()),
              0.02 * states);
  EXPECT_GE(memory.devices[0].of(MemoryCategory::kStates).value(), states);
  EXPECT_THAT(memory_report(kept, room), HasSubstr("on devices for good: states of"));
  for (const char* policy : {"zero-offload", "lws"})
    EXPECT_THAT(test::message_of<Error>([&] { fit_to(run, small_host(all - states / 2, policy)); }),
                HasSubstr("of host memory"));
  config.sched.resident = false;
  EXPECT_THAT(test::message_of<Error>([&] { fit_to(run_of(config), room); }),
              HasSubstr("of host memory"));
}

TEST(StateHomes, DevicesAndDisksShareWhatTheHostHasNoRoomFor) {
  config::TrainConfig config = config_of(1);
  config.train.precision = "bf16";
  config.sched.subgroup_params = 20'000;
  config.sched.disks = "/disk";
  const train::Run run = run_of(config);
  Room room = room_with(0);
  room.policy = "dos";
  const auto kept_of = [&](double bytes) {
    room.devices.front().bytes = static_cast<Index>(bytes);
    return train::plan_homes(choose_homes(run, room), room.workers);
  };
  // Slots, and next to nothing more.
  room.host_bytes = 1 + static_cast<Index>(estimate_run(run, room).host.total().value());
  const double model = needed(config);
  std::size_t before = 0;
  for (const double part : {0.0, 0.3, 0.6, 1.0, 2.0}) {
    SCOPED_TRACE(part);
    const double states = 12 * static_cast<double>(run.layout.trained_count());
    const auto window = 8 * static_cast<double>(update_bytes(run, room));
    const offload::HomePlan homes = kept_of((model + window + part * states) / 0.97 + 1);
    const std::size_t kept = homes.on_devices().size();
    EXPECT_GE(kept, before);
    EXPECT_TRUE(part < 1 || homes.on_disks().empty());
    // Between them what slots would take may hold the rest.
    EXPECT_TRUE(part > 0.3 || !homes.on_disks().empty());
    before = kept;
    const RunMemory memory = estimate_run(choose_homes(run, room), room);
    EXPECT_TRUE(memory.host.fits()) << memory_table(memory.host);
    EXPECT_TRUE(memory.devices[0].fits()) << memory_table(memory.devices[0]);
  }
  EXPECT_EQ(before, run.layout.subgroups.size());
}

// They wait for the norm, and take longest.
TEST(StateHomes, OnDisksLeaveNothingToGainAheadOfTheNorm) {
  config::TrainConfig config = config_of(1);
  config.train.precision = "bf16";
  config.optim.speculate = "auto";
  config.sched.subgroup_params = 20'000;
  config.sched.disks = "/disk";
  Room room = room_with(1e10);
  EXPECT_FALSE(choose_ahead(choose_homes(run_of(config), room), room).ahead.empty())
      << "host memory has all";
  config.sched.host_memory = 2e-3;
  EXPECT_TRUE(choose_ahead(choose_homes(run_of(config), room), room).ahead.empty());
  config.optim.speculate = "on";
  EXPECT_FALSE(choose_ahead(choose_homes(run_of(config), room), room).ahead.empty());
}

}  // namespace
}  // namespace dos::fit::state_homes_test
