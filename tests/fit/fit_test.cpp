// SPDX-License-Identifier: Apache-2.0
#include "fit/fit.hpp"
#include "fit/spare_memory.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "fit/estimate.hpp"
#include "message_of.hpp"
#include "small_runs.hpp"

namespace dos::fit::fit_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Fit, WhatFitsStaysAsItIs) {
  const config::TrainConfig config = config_of(6, 2);
  for (const char* how : {"error", "auto"}) {
    const config::TrainConfig result = fit(config, needed(config), how);
    EXPECT_EQ(result.train.batch, 6);
    EXPECT_EQ(result.train.accumulate, 2);
    EXPECT_FALSE(result.train.recompute);
  }
}

// 1024 tokens a sequence: two sequences are enough for a lane.
TEST(Fit, AutoTakesSmallerMicroBatchesOfTheSameProductWhileTheyAreLarge) {
  const config::TrainConfig config = config_of(12, 3);
  for (const Index batch : {6, 4, 3, 2}) {
    const config::TrainConfig expected = config_of(batch, 36 / batch);
    const config::TrainConfig result = fit(config, needed(expected));
    EXPECT_EQ(result.train.batch, batch);
    EXPECT_EQ(result.train.accumulate, 36 / batch);
    EXPECT_FALSE(result.train.recompute) << batch;
  }
}

TEST(Fit, AutoRecomputesBeforeMicroBatchesBecomeSmall) {
  const config::TrainConfig config = config_of(12, 3);
  // Between what two sequences need and what they need with recomputation.
  const double room = needed(config_of(2, 18)) - 1;
  const config::TrainConfig result = fit(config, room);
  EXPECT_TRUE(result.train.recompute);
  EXPECT_EQ(result.train.batch * result.train.accumulate, 36);
  EXPECT_LE(needed(result), room);
  const config::TrainConfig least = fit(config, needed(recomputing(config_of(1, 36))));
  EXPECT_TRUE(least.train.recompute);
  EXPECT_EQ(least.train.batch, 1);
  // Weights pass only where nothing else is left.
  const config::TrainConfig passing = fit(config, needed(recomputing(config_of(1, 36))) - 1);
  EXPECT_EQ(passing.train.batch * passing.train.accumulate, 36);
  EXPECT_THROW(fit(config, least_needed(recomputing(config_of(1, 36))) - 1), Error);
}

TEST(Fit, AutoLeavesNoLaneWithoutASequence) {
  config::TrainConfig config = config_of(8);
  config.train.lanes = 4;
  config::TrainConfig least = recomputing(config_of(1, 8));
  const config::TrainConfig result = fit(config, needed(least));
  EXPECT_EQ(result.train.batch, 1);
  EXPECT_EQ(result.train.lanes, 1);
}

TEST(Fit, AutoLooksAtHostMemoryToo) {
  config::TrainConfig config = config_of(8);
  config.train.fit = "auto";
  Room room{.host_bytes = Index{1} << 50, .workers = 2, .cpu_workers = 2, .devices = {}};
  const auto host = [&](const config::TrainConfig& c) {
    return estimate_run(run_of(c), room).host.total().value();
  };
  config::TrainConfig half = config_of(4, 2);
  const double enough = host(half);
  EXPECT_LT(enough, host(config));
  room.host_bytes = static_cast<Index>(enough);
  const config::TrainConfig result = fit_to(run_of(config), room).config;
  EXPECT_EQ(result.train.batch, 4);
  EXPECT_EQ(result.train.accumulate, 2);
}

TEST(Fit, DevicesShareTheLanes) {
  // Accumulated gradients cannot leave during backward.
  const config::TrainConfig config = config_of(8, 2);
  EXPECT_EQ(room_with(1, 4).lane_workers().count, 4);
  EXPECT_LT(needed(config, 4), needed(config, 2));
  EXPECT_LT(needed(config, 2), needed(config, 1));
  EXPECT_EQ(fit(config, needed(config, 2), "error", 2).train.batch, 8);
  EXPECT_EQ(fit(config, least_needed(config, 2), "error", 2).train.batch, 8);
  EXPECT_THROW(fit(config, least_needed(config, 2) - 1, "error", 2), Error);
}

TEST(Fit, DevicesThatOnlyUpdateNeedNothing) {
  Room room = room_with(1);
  room.devices[0].runs_model = false;
  EXPECT_EQ(room.lane_workers().count, 1);
  const config::TrainConfig config = config_of(4);
  EXPECT_TRUE(estimate_run(run_of(config), room).devices.empty());
  EXPECT_NO_THROW(fit_to(run_of(config), room));
}

// Where devices run the model, the CPUs never need theirs.
TEST(Fit, HostMemoryHasWorkSpaceOnlyWithoutDevicesThatRunTheModel) {
  const shape::ModelConfig model{"gpt2", 1, 2 * 144, 2, 1024, 1000};
  const config::TrainConfig config = config_of(1);
  const train::Run run = train::make_run(config, model);
  const auto work_space = [&](const Room& room) {
    return estimate_run(run, room).host.of(MemoryCategory::kWorkspace).value();
  };
  // One head's keys, values and their gradients, and blocks of 64 queries, for each worker.
  constexpr double kOfCpus = 2.0 * (4 * 1032 * 144 + 5 * 64 * 144 + 2 * 64 * 64 + 3 * 64 + 16) * 4;
  Room room = room_with(1e9);
  EXPECT_EQ(work_space(room), 0);
  room.devices.front().runs_model = false;
  EXPECT_EQ(work_space(room), kOfCpus);
  room.devices.clear();
  EXPECT_EQ(work_space(room), kOfCpus);
}

// Four updates at once is what keeps a GPU and its link at work.
TEST(Fit, ActivationsGiveWayToUpdatesWhereTheRestHoldsFewerThanFour) {
  const config::TrainConfig config = config_of(6);
  const auto update = static_cast<double>(update_bytes(run_of(config), room_with(1)));
  const auto needs = [&](const Room& room) { return needs_dead_activations(run_of(config), room); };
  EXPECT_TRUE(needs(room_with(needed(config) + 4 * update - 1)));
  EXPECT_FALSE(needs(room_with(needed(config) + 4 * update)));
  Room updates_only = room_with(needed(config));
  updates_only.devices.front().runs_model = false;
  EXPECT_FALSE(needs(updates_only)) << "no activations there";
}

TEST(Fit, TheErrorNamesTheDeviceTheCategoryAndWhatHelps) {
  const config::TrainConfig config = config_of(8);
  const std::string message =
      error_of(config, std::max(needed(config_of(4, 2)), needed(recomputing(config))));
  const std::string line = message.substr(0, message.find('\n'));
  EXPECT_THAT(line, AllOf(HasSubstr("memory on CUDA 0"), HasSubstr("activations take most"),
                          HasSubstr("train.batch=4 with train.accumulate=2"),
                          HasSubstr("train.recompute=true"), HasSubstr("train.precision=bf16"),
                          HasSubstr("train.fit=auto")));
  EXPECT_THAT(message, HasSubstr("\n  weights "));
}

TEST(Fit, TheErrorOffersOnlyWhatHelps) {
  const config::TrainConfig config = config_of(8);
  // With recomputation and a smaller batch, but with neither alone.
  const double room = needed(recomputing(config_of(1, 8)));
  ASSERT_LT(room, needed(config_of(1, 8)));
  ASSERT_LT(room, needed(recomputing(config)));
  EXPECT_THAT(error_of(config, room),
              HasSubstr("use train.recompute=true and train.batch=1 with train.accumulate=8"));
  EXPECT_THAT(error_of(config, 1e6),
              AllOf(HasSubstr("a smaller model.*"), Not(HasSubstr("train.fit=auto"))));
}

TEST(Fit, TheErrorNamesAContextThatFits) {
  const shape::ModelConfig llama = shape::find_preset("llama-tiny", "model", shape::preset_names());
  const config::TrainConfig config = config_of(1);
  const auto run = [&](Index context, const config::TrainConfig& chosen) {
    shape::ModelConfig model = llama;
    model.layers = 48;
    model.context = context;
    return train::make_run(chosen, model);
  };
  const auto need = [&](const train::Run& each) {
    return estimate_run(each, room_with(1e15)).devices.front().total().value();
  };
  const auto error = [&](double room) {
    config::TrainConfig chosen = config;
    chosen.train.fit = "error";
    return test::message_of<Error>([&] { fit_to(run(65'536, chosen), room_with(room)); });
  };
  for (const Index context : {4096, 2048})
    EXPECT_THAT(error(need(run(context, config))),
                HasSubstr(fmt::format("model.context={}", context)));
  // Not even the shortest fits as it is.
  const double least = need(run(128, recomputing(config)));
  ASSERT_LT(least, need(run(128, config)));
  EXPECT_THAT(error(least), HasSubstr("use train.recompute=true and model.context="));
  EXPECT_THAT(error_of(config_of(1), 1e6), Not(HasSubstr("model.context="))) << "GPT-2";
}

TEST(Fit, TheReportSaysWhatIsLeftForStates) {
  const config::TrainConfig config = config_of(2, 2);
  const std::string roomy = memory_report(run_of(config), room_with(1e9));
  EXPECT_THAT(roomy,
              AllOf(HasSubstr("host memory of the run:"), HasSubstr("memory of CUDA 0:"),
                    HasSubstr("total with train.recompute=true: "), HasSubstr("left for states"),
                    Not(HasSubstr("DOES NOT FIT")), Not(HasSubstr("the CPU updates it"))));
  const std::string passing = memory_report(run_of(config), room_with(needed(config) - 1e5));
  EXPECT_THAT(passing, AllOf(Not(HasSubstr("DOES NOT FIT")), Not(HasSubstr("the CPU updates it")),
                             HasSubstr("come for the layer at work, and go: 97.7 KiB")));
  EXPECT_THAT(roomy, Not(HasSubstr("layer at work")));
  const std::string tight = memory_report(run_of(config), room_with(least_needed(config) - 1));
  EXPECT_THAT(tight, AllOf(HasSubstr("DOES NOT FIT"), HasSubstr("the CPU updates it")));
}

units::Bytes host_need(const config::TrainConfig& config) {
  return estimate_run(run_of(config), room_with(1e15)).host.total();
}

/// Where there is a part of what the run needs.
std::string host_error_of(const config::TrainConfig& config, double part) {
  Room room = room_with(1e15);
  room.host_bytes = static_cast<Index>(part * host_need(config).value());
  return test::message_of<Error>([&] { fit_to(run_of(config), room); });
}

TEST(Fit, TokensOfStepsToComeTakeHostMemory) {
  config::TrainConfig config = config_of(8);
  const units::Bytes before = host_need(config);
  config.train.accumulate = 10'000;
  // Of two steps to come and the one that is submitted.
  EXPECT_GT(host_need(config) - before, units::Bytes(3.0 * 10'000 * 8 * 1025 * 4));
  EXPECT_THAT(host_error_of(config, 0.8),
              AllOf(HasSubstr("tokens ahead take most"), HasSubstr("train.run_ahead=1")));
  EXPECT_THAT(host_error_of(config, 0.1),
              AllOf(HasSubstr("a smaller train.accumulate"), Not(HasSubstr("run_ahead"))));
  config.train.batch = 1;
  EXPECT_THAT(host_error_of(config, 0.1),
              AllOf(HasSubstr("runtime take most"), HasSubstr("a smaller train.accumulate")));
}

// Two checkpoints may be under way, and rank 0 copies a third: docs/checkpoints.md.
TEST(Fit, BuffersOfCheckpointsTakeWhatIsGivenUpToWhatThereIs) {
  config::TrainConfig config = config_of(1);
  const shape::ModelConfig large{"gpt2", 4, 1024, 4, 64, 1000};
  const auto buffers = [&](const shape::ModelConfig& model) {
    const train::Run run = train::make_run(config, model);
    return estimate_run(run, room_with(1e15)).host.of(MemoryCategory::kCheckpoints).value();
  };
  const auto part = [&](const shape::ModelConfig& model) {
    const train::Run run = train::make_run(config, model);
    return 12 * static_cast<double>(run.layout.parameter_count());
  };
  constexpr double kOfEngine = 32 << 20;
  constexpr double kLeast = 32 << 20;
  constexpr double kPieces = 8 << 20;  // one of each checkpoint
  EXPECT_EQ(buffers(large), kLeast + kOfEngine);
  config.train.checkpoint_memory = 0.5;
  EXPECT_NEAR(buffers(large), 0.5e9 + kOfEngine, kPieces);
  // Norms and the clip factor are counted among the states.
  constexpr double kScalars = 1e4;
  EXPECT_NEAR(buffers(kModel), 2 * part(kModel), kScalars);
  config.train.checkpoint_memory = 1000;
  EXPECT_NEAR(buffers(large), 2 * part(large), kScalars);
  config.train.checkpoint_local = "somewhere";
  // Checkpoints may go to the other device as well.
  config.train.checkpoint_memory = 0;
  EXPECT_EQ(buffers(large), kLeast + 2 * kOfEngine + (16 << 20));
  config.train.checkpoint_memory = 1000;
  EXPECT_NEAR(buffers(kModel), 3 * part(kModel), kScalars);
  EXPECT_NEAR(buffers(large), 2 * part(large) + (16 << 20), kScalars);
}

TEST(Fit, BuffersOfCheckpointsThatDoNotFitAreNamed) {
  config::TrainConfig config = config_of(1);
  config.train.checkpoint_memory = 1;
  const train::Run run = train::make_run(config, {"gpt2", 4, 1024, 4, 64, 1000});
  Room room = room_with(1e15);
  room.host_bytes = 100'000'000;
  EXPECT_THAT(test::message_of<Error>([&] { fit_to(run, room); }),
              AllOf(HasSubstr("checkpoint buffers take most"),
                    HasSubstr("use a smaller train.checkpoint_memory\n")));
}

TEST(Fit, StepsThatDoNotComeTakeNoMemory) {
  config::TrainConfig config = config_of(8, 100);
  config.train.steps = 2;
  const units::Bytes two = host_need(config);
  config.train.run_ahead = 1000;
  // Places for losses and norms.
  EXPECT_LT(host_need(config), two + units::Bytes(0x1p16));
  config.train.steps = 1000;
  EXPECT_GT(host_need(config), two + units::Bytes(0x1p20));
}

config::TrainConfig speculating(const char* choice) {
  config::TrainConfig config = config_of(1);
  config.train.precision = "bf16";
  config.optim.speculate = choice;
  return config;
}

/// Depths of the subgroups that go ahead.
std::vector<Index> depths_ahead(const train::Run& run) {
  std::vector<Index> depths;
  for (const Index i : run.ahead)
    depths.push_back(run.layout.subgroups[static_cast<std::size_t>(i)].depth);
  return depths;
}

TEST(Fit, UpdatesGoAheadWhereTheyMayAndSomethingIsGained) {
  Room room = room_with(1e15);
  const auto ahead = [&](const config::TrainConfig& config) {
    return std::ssize(choose_ahead(run_of(config), room).ahead);
  };
  const auto all = std::ssize(run_of(speculating("auto")).layout.subgroups);
  EXPECT_EQ(ahead(speculating("auto")), all);
  EXPECT_EQ(ahead(speculating("on")), all);
  EXPECT_EQ(ahead(speculating("off")), 0);
  config::TrainConfig unclipped = speculating("auto");
  unclipped.optim.clip = 0;
  EXPECT_EQ(ahead(unclipped), 0);
  EXPECT_EQ(ahead(config_of(1)), 0) << "FP32";
  config::TrainConfig frozen = speculating("on");
  frozen.optim.freeze = "blocks.*";
  EXPECT_LT(ahead(frozen), all);
  EXPECT_GT(ahead(frozen), 0);
  room.devices.clear();
  EXPECT_EQ(ahead(speculating("auto")), 0) << "CPUs alone gain nothing";
  EXPECT_EQ(ahead(speculating("on")), all);
}

TEST(Fit, BanksTakeTheMemoryThatIsLeftTheLastLayersFirst) {
  config::TrainConfig config = speculating("auto");
  config.sched.subgroup_params = 20'000;
  const train::Run run = run_of(config);
  const double without = estimate_run(run, room_with(1e15)).host.total().value();
  const double banks = 12 * static_cast<double>(run.layout.parameter_count());
  Room room = room_with(1e15);
  std::size_t before = 0;
  for (const double part : {0.1, 0.5, 1.0, 1.4}) {
    room.host_bytes = static_cast<Index>(without + part * banks);
    const train::Run chosen = choose_ahead(run, room);
    const std::vector<Index> depths = depths_ahead(chosen);
    EXPECT_TRUE(std::ranges::is_sorted(depths, std::ranges::greater{})) << part;
    EXPECT_GE(depths.size(), before) << part;
    before = depths.size();
    const double taken = estimate_run(chosen, room).host.total().value() - without;
    // What is left over is less than a subgroup.
    EXPECT_LE(taken, 0.75 * part * banks + 1) << part;
    EXPECT_GT(taken, std::min(0.75 * part, 1.0) * banks - 12 * 20'000.0) << part;
  }
  EXPECT_EQ(before, run.layout.subgroups.size());
  config.optim.speculate = "on";
  room.host_bytes = static_cast<Index>(without + 0.9 * banks);
  EXPECT_THAT(test::message_of<Error>([&] { choose_ahead(run_of(config), room); }),
              AllOf(HasSubstr("optim.speculate = on needs"), HasSubstr("use auto")));
  EXPECT_NO_THROW(choose_ahead(run_of(config), room, /*may_exceed=*/true));
}

// An update ahead reads one bank and writes the other.
TEST(Fit, UpdatesGoAheadWhereDevicesHoldBothBanks) {
  const train::Run run = run_of(speculating("auto"));
  Room room = room_with(1e15);
  room.devices = {{.name = "OpenCL 0", .bytes = update_bytes(run, room)}};
  const train::Run some = choose_ahead(run, room);
  EXPECT_GT(some.ahead.size(), 0U);
  EXPECT_LT(some.ahead.size(), run.layout.subgroups.size());
  EXPECT_EQ(update_bytes(some, room), update_bytes(run, room));
  EXPECT_NO_THROW(expect_room_for_updates(some, room, "dos"));
  const train::Run all = choose_ahead(run_of(speculating("on")), room);
  EXPECT_THAT(test::message_of<Error>([&] { expect_room_for_updates(all, room, "dos"); }),
              AllOf(HasSubstr("with the second bank"), HasSubstr("use optim.speculate=off")));
}

// Activations that are kept would take what the second banks need.
TEST(Fit, ActivationsLeaveRoomForBanksThatAreAskedFor) {
  config::TrainConfig config = speculating("on");
  config.train.activations = "auto";
  Room room = room_with(1e15);
  room.devices.clear();
  const auto needed = [&](const char* activations) {
    config::TrainConfig fixed = config;
    fixed.train.activations = activations;
    return estimate_run(choose_ahead(run_of(fixed), room), room).host.total().value();
  };
  ASSERT_LT(needed("recompute"), needed("keep"));
  room.host_bytes = static_cast<Index>((needed("recompute") + needed("keep")) / 2);
  const train::Run chosen = choose_ahead(fit_to(run_of(config), room), room);
  EXPECT_EQ(chosen.ahead.size(), chosen.layout.subgroups.size());
  EXPECT_TRUE(estimate_run(chosen, room).fits());
}

}  // namespace
}  // namespace dos::fit::fit_test
