// SPDX-License-Identifier: Apache-2.0
#include "fit/activation_fit.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "base/error.hpp"
#include "config/plan_model.hpp"
#include "fit/estimate.hpp"
#include "fit/stated_limits.hpp"
#include "planner/activation_choice.hpp"
#include "sanitized.hpp"
#include "shape/model.hpp"
#include "small_runs.hpp"

namespace dos::fit::activation_fit_test {
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

// A disk is taken until checkpoints have it busy for longer than all computing.
TEST(Activations, AutoTakesNoDiskThatCheckpointsKeepBusy) {
  config::TrainConfig config = with_activations(config_of(6), "auto");
  config.train.activation_disks = "disk";
  constexpr double kRate = 1e10;
  Room room = slow_room(deep_need(with_activations(config, "disk")), 1e15, kRate);
  room.host_bytes = static_cast<Index>(
      estimate_run(deep_run(with_activations(config, "disk")), room).host.total().value() + 1);
  const double checkpoint = 12.0 * static_cast<double>(deep_run(config).layout.parameter_count());
  const double longer = 3 * passes_of(with_activations(config, "recompute"), room);
  const auto moved = [&](Index every, double busy) {
    config.train.checkpoint_every = every;
    room.shared.checkpoints = busy * kRate / checkpoint;
    return fit_to(deep_run(config), room).config.activation_plan().moved;
  };
  EXPECT_GT(moved(0, longer), 0) << "none";
  EXPECT_GT(moved(1, 0), 0) << "elsewhere";
  EXPECT_EQ(moved(1, longer), 0);
  EXPECT_GT(moved(100, longer), 0) << "seldom";
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

/// The shortest forward and backward of all plans without disks that fit.
double best_of_all(const config::TrainConfig& base, const Room& room) {
  double best = std::numeric_limits<double>::infinity();
  for (Index hosted = 0; hosted <= kDeep.layers; hosted += 2)
    for (Index recomputed = 0; hosted + recomputed <= kDeep.layers; recomputed += 2)
      for (Index selective = 0; hosted + recomputed + selective <= kDeep.layers; selective += 2) {
        const shape::ActivationPlan plan{
            .hosted = hosted, .recomputed = recomputed, .selective = selective};
        const config::TrainConfig fixed =
            with_activations(base, shape::activation_plan_text(plan, kDeep.layers));
        if (estimate_run(deep_run(fixed), room).fits())
          best = std::min(best, passes_of(fixed, room));
      }
  return best;
}

// Mixed plans, too, with a host that has little to spare: what stays on a GPU takes none of it.
TEST(Activations, AutoIsNoSlowerThanAnyPlanThatFitsBothMemories) {
  const config::TrainConfig base = config_of(6, 2);
  const double least = deep_need(with_activations(base, "recompute"));
  const double most = deep_need(base);
  for (const double link : {1e15, 3e8})
    for (const double part : {0.2, 0.5, 0.8})
      for (const char* on_host : {"recompute", "host:2,recompute:10", "host:6,recompute:6"}) {
        SCOPED_TRACE(testing::Message() << link << " " << part << " " << on_host);
        Room room = slow_room(least + part * (most - least), link, 0);
        const RunMemory needed = estimate_run(deep_run(with_activations(base, on_host)), room);
        // Records of buffers and tasks, which differ from plan to plan, are far less than that.
        constexpr double kRecords = 0.02;
        room.host_bytes = static_cast<Index>(needed.host.total().value() * (1 + kRecords));
        Room tighter = room;
        tighter.host_bytes = static_cast<Index>(needed.host.total().value());
        tighter.devices.front().bytes =
            static_cast<Index>(static_cast<double>(room.devices.front().bytes) * (1 - kRecords));
        const train::Run run = deep_run(with_activations(base, "auto"));
        const config::TrainConfig result = fit_to(run, room).config;
        EXPECT_LE(passes_of(result, room), best_of_all(base, tighter) * (1 + planner::kSameTime))
            << result.train.activations;
      }
}

/// One H100 of so much memory, calibrated.
Room calibrated_room(double gigabytes) {
  const perfmodels::Machine machine = perfmodels::find_machine(
      "h100", std::string(std::getenv("DOS_SOURCE_DIR")) + "/perfmodels/machines");
  Room room = room_with(1e9 * gigabytes);
  room.host_bytes = static_cast<Index>(machine.dram_capacity.value.value());
  const planner::PassRates rates = planner::pass_rates_of(machine, {}, DType::kBF16);
  room.measured.compute = rates.compute;
  room.measured.link = rates.link;
  room.measured.dram = rates.dram;
  room.measured.whole =
      planner::Request{.machine = machine, .model = {}, .ranks_per_node = 1, .settings = {}};
  return room;
}

// What a GPU keeps of activations it does not keep of states: a step of both is shortest where plan
// says so, too, whose estimates of memory are not quite those of a run.
TEST(Activations, AutoWeighsTheUpdateAsPlanDoes) {
  config::TrainConfig config = with_activations(config_of(2), "auto");
  config.train.precision = config.train.gradient_precision = "bf16";
  config.sched.subgroup_params = 50'000'000;
  const shape::ModelConfig model = shape::find_preset("llama-7b", "model", shape::preset_names());
  const train::Run run = train::make_run(config, model);
  bool differs = false;
  for (const double gigabytes : {40, 60, 80}) {
    SCOPED_TRACE(gigabytes);
    if (!test::tries(static_cast<int>(gigabytes), 60)) continue;
    Room room = calibrated_room(gigabytes);
    planner::Request request = *room.measured.whole;
    request.model = shape::model_of("", model);
    request.micro_batch = 2;
    config::take_keys(config, request.settings);
    request.machine.gpu_memory.value = units::gigabytes(gigabytes);
    const auto step = [&](const std::string& plan) {
      planner::set_activations(request.settings, plan);
      return planner::forecast(request).step.value();
    };
    const std::string weighed = fit_to(run, room).config.train.activations;
    EXPECT_NEAR(step(weighed) / step("auto"), 1, 0.02) << weighed;
    EXPECT_THAT(describe_activations(run.with(fit_to(run, room).config), room),
                HasSubstr(", the update "));
    room.measured.whole.reset();
    const std::string passes = fit_to(run, room).config.train.activations;
    EXPECT_GE(step(passes), step(weighed) * (1 - planner::kSameTime)) << passes;
    differs = differs || step(passes) > step(weighed) * 1.02;
  }
  EXPECT_TRUE(differs);
}

// What cannot be forecast is left out for all plans.
TEST(Activations, AutoWeighsWhatIsKnown) {
  config::TrainConfig config = with_activations(config_of(8), "auto");
  config.train.precision = "bf16";
  const train::Run run =
      train::make_run(config, shape::find_preset("llama-7b", "model", shape::preset_names()));
  Room room = calibrated_room(60);
  room.measured.whole.reset();
  const std::string passes = fit_to(run, room).config.train.activations;
  room = calibrated_room(60);
  room.measured.whole->ranks_per_node = 5;
  EXPECT_EQ(fit_to(run, room).config.train.activations, passes);
  room = calibrated_room(60);
  room.measured.whole->policy = "dmdas";
  EXPECT_EQ(fit_to(run, room).config.train.activations, passes);
}

/// A room without devices, in which a program that has `taken` bytes may have train.host_memory.
Room limited_room(const config::TrainConfig& config, Index taken, Index there = Index{1} << 40) {
  Room room{.host_bytes = there, .workers = 1, .cpu_workers = 1, .devices = {}};
  limit_host(config, taken, room);
  return room;
}

constexpr Index kTaken = 100'000'000;

TEST(HostMemory, OfARankHasAllThatItNeedsOrNothingStarts) {
  config::TrainConfig config = config_of(64);
  const double need = estimate_run(deep_run(config), limited_room(config, 0)).host.total().value();
  config.train.host_memory = (need + kTaken + 1) / 1e9;
  EXPECT_EQ(fit_to(deep_run(config), limited_room(config, kTaken)).config.train.activations,
            "keep");
  config.train.host_memory = (need + kTaken) / 1e9 - 0.001;
  const auto message = [&] {
    return test::message_of<Error>([&] { fit_to(deep_run(config), limited_room(config, kTaken)); });
  };
  EXPECT_THAT(message(),
              AllOf(HasSubstr("needs " + size_text(units::Bytes(need)) + " of host"),
                    HasSubstr(fmt::format("train.host_memory = {}, in which the program "
                                          "has 95.4 MiB already",
                                          config.train.host_memory)),
                    HasSubstr("activations=auto"), HasSubstr("raise train.host_memory")));
  const std::string text = message();
  const auto figure = text.find("raise train.host_memory to ") + 27;
  config.train.host_memory = std::stod(text.substr(figure));
  EXPECT_NEAR(config.train.host_memory, (need + kTaken) / 1e9, 0.01);
  EXPECT_NO_THROW(fit_to(deep_run(config), limited_room(config, kTaken)));
}

// Where the machine has less, its limit is what counts, and no remedy is to raise the other one.
TEST(HostMemory, IsNeverMoreThanTheMachines) {
  config::TrainConfig config = config_of(64);
  config.train.host_memory = 1000;
  const Room room = limited_room(config, kTaken, 1'000'000);
  EXPECT_EQ(room.host_bytes, 1'000'000);
  EXPECT_EQ(room.host_limit, "");
  EXPECT_THAT(test::message_of<Error>([&] { fit_to(deep_run(config), room); }),
              testing::Not(HasSubstr("train.host_memory")));
}

TEST(HostMemory, IsWhatActivationsAreChosenBy) {
  config::TrainConfig config = with_activations(config_of(64), "auto");
  const auto need = [&](const char* plan) {
    return estimate_run(deep_run(with_activations(config, plan)), limited_room(config, 0))
        .host.total()
        .value();
  };
  for (const double part : {0.0, 0.3, 0.6, 1.0}) {
    const double limit = need("recompute") + part * (need("keep") - need("recompute"));
    config::TrainConfig asked = config;
    asked.train.host_memory = (limit + kTaken + 1) / 1e9;
    const train::Run run = fit_to(deep_run(asked), limited_room(asked, kTaken));
    EXPECT_LE(estimate_run(run, limited_room(config, 0)).host.total().value(), limit + 1);
    EXPECT_EQ(run.config.train.activations == "keep", part == 1.0);
  }
}

// Nobody knows what the device has beyond it.
TEST(HostMemory, OfAGpuIsSaidToBeRaised) {
  config::TrainConfig config = config_of(6);
  const double need = needed(config);
  config.train.gpu_memory = 0.9 * need / 1e9;
  EXPECT_THAT(error_of(config, 0.9 * need),
              HasSubstr(fmt::format("raise train.gpu_memory to {}", std::ceil(need / 1e7) / 1e2)));
}

}  // namespace
}  // namespace dos::fit::activation_fit_test
