// SPDX-License-Identifier: Apache-2.0
// What plan says of memory beside what train_gpt would take.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "config/plan_model.hpp"
#include "fit/spare_memory.hpp"
#include "offload/home_plan.hpp"
#include "planner/tier_uses.hpp"
#include "sanitized.hpp"
#include "sched/plan.hpp"
#include "shape/model.hpp"
#include "small_runs.hpp"

namespace dos::fit::plan_agreement_test {
namespace {

/// A run, and the machine that is planned for.
struct Case {
  std::string model;
  perfmodels::Machine machine;
  Index ranks = 1;
  config::TrainConfig config;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} on {} with {} GPUs, {} ranks, zero {}, batch {}, {}, gradients {}, {}",
                       model, machine.name, machine.gpus.value, ranks, config.dist.zero,
                       config.train.batch, config.train.precision, config.train.gradient_precision,
                       config.train.activations);
  }
  [[nodiscard]] shape::ModelConfig shape() const {
    return shape::find_preset(model, "model", shape::preset_names());
  }
  [[nodiscard]] planner::Request request() const {
    planner::Request request{.machine = machine,
                             .model = shape::model_of(model, shape()),
                             .ranks = ranks,
                             .ranks_per_node = ranks,
                             .micro_batch = config.train.batch,
                             .settings = {}};
    config::take_keys(config, request.settings);
    return request;
  }
  /// One rank's; memory of the host is what `host` says of it.
  [[nodiscard]] Room room(double host) const {
    Room room = room_with(machine.gpu_memory.value.value(), machine.gpus.value / ranks);
    room.host_bytes = static_cast<Index>(host);
    room.cpu_workers = machine.cpu_workers.value / ranks;
    room.workers = room.cpu_workers + std::ssize(room.devices);
    room.policy = "dos";
    return room;
  }
  [[nodiscard]] train::Run run(Index rank) const {
    const train::Run alone = train::make_run(config, shape());
    const std::vector<double> even(static_cast<std::size_t>(ranks), 1.0);
    return ranks == 1 ? alone
                      : alone.with(ranks::share_of(alone.layout, rank, even, config.dist.zero));
  }
};

perfmodels::Machine machine_of(const std::string& name) {
  const bool has_gpus = name != "cpu";
  perfmodels::Machine machine =
      perfmodels::find_machine(has_gpus ? name : "h100",
                               std::string(std::getenv("DOS_SOURCE_DIR")) + "/perfmodels/machines");
  if (!has_gpus) machine.gpus.value = 0;
  return machine;
}

Case random_case(std::mt19937_64& random) {
  const auto one_of = [&](const auto& choices) { return choices[random() % std::size(choices)]; };
  Case c;
  c.model = one_of(std::vector<std::string>{"gpt2-124m", "gpt2-1.5b", "llama-3b", "llama-7b"});
  c.machine = machine_of(one_of(std::vector<std::string>{"cpu", "h100", "rtx4090", "h100-4x"}));
  const bool may_share = c.machine.gpus.value != 1;
  c.ranks = may_share ? one_of(std::vector<Index>{1, 2, 4}) : 1;
  config::TrainConfig& config = c.config;
  config.train.batch = one_of(std::vector<Index>{1, 3, 8});
  config.train.precision = one_of(std::vector<std::string>{"fp32", "bf16"});
  config.train.gradient_precision = config.train.precision;
  config.train.activations =
      one_of(std::vector<std::string>{"keep", "recompute", "host:5,recompute:7"});
  config.train.checkpoint_every = 0;
  config.dist.zero = one_of(std::vector<Index>{1, 2, 3});
  config.sched.subgroup_params = one_of(std::vector<Index>{5'000'000, 20'000'000});
  return c;
}

/// Without records, programs, buffers of checkpoints, tokens and work space.
double bytes_of_run(const planner::MemoryUse& use) {
  using enum MemoryCategory;
  double sum = 0;
  for (const MemoryCategory category : {kParameters, kWorking, kGradients, kStates, kActivations})
    sum += use.of(category).value();
  return sum;
}
double bytes_of_plan(const planner::MemoryUse& use) {
  using enum MemoryCategory;
  return (use.total() - use.of(kRuntime) - use.of(kCheckpoints) - use.of(kProgram)).value();
}

/// What ranks take beside their buffers and programs.
double unregistered_of(const planner::MemoryUse& use) {
  using enum MemoryCategory;
  return (use.of(kRuntime) + use.of(kCheckpoints) + use.of(kTokensAhead)).value();
}

// A plan counts no tokens ahead and takes pieces of matrices by their size, where a run cuts rows:
// less than a fiftieth. Of several ranks it knows the subgroups of one, and takes the others' to be
// as many: a rank may have one in 20 more or fewer.
TEST(PlanAgreement, RecordsAndCheckpointsAreThoseOfARun) {
  std::mt19937_64 random(3);
  const auto expect_agreement = [](const Case& c) {
    SCOPED_TRACE(c.text());
    planner::Request request = c.request();
    request.policy = "zero-offload";
    const planner::MemoryUse planned = planner::forecast(request).host;
    const planner::MemoryUse taken = estimate_run(c.run(0), c.room(1e15)).host;
    const double of_run = unregistered_of(taken);
    const double tolerance = c.ranks == 1 ? 0.02 : 0.05;
    EXPECT_NEAR(unregistered_of(planned) / static_cast<double>(c.ranks), of_run, tolerance * of_run)
        << memory_table(planned) << "\n"
        << memory_table(taken);
  };
  for (int i = 0; i < 40; ++i) expect_agreement(random_case(random));
  // Sizes for which no one figure holds: 11 MiB to 4 GiB.
  for (const char* model : {"tiny", "llama-70b"}) {
    Case c{.model = model, .machine = machine_of("cpu"), .config = {}};
    c.config.train.precision = c.config.train.gradient_precision = "bf16";
    c.config.train.activations = "recompute";
    expect_agreement(c);
    c.config.train.checkpoint_memory = 1;
    expect_agreement(c);
  }
}

// All states in host memory: a plan with residents has none of theirs there.
TEST(PlanAgreement, AHostHoldsWhatIsPlanned) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const Case c = random_case(random);
    SCOPED_TRACE(c.text());
    planner::Request request = c.request();
    request.policy = "zero-offload";
    const planner::MemoryUse planned = planner::forecast(request).host;
    double taken = 0;
    Index largest = 0;
    for (Index rank = 0; rank < c.ranks; ++rank) {
      const train::Run run = c.run(rank);
      taken += bytes_of_run(estimate_run(run, c.room(1e15)).host);
      for (const shape::Subgroup& subgroup : run.layout.subgroups)
        largest = std::max(largest, subgroup.count);
    }
    // Plan knows the fullest rank alone, whose subgroups may be smaller than another's: gradients
    // of other ranks take four buffers of the largest. Or they are larger; and of ZeRO-3's slots it
    // does not know those that a rank leaves out as it owns all that uses them.
    const double received = 16.0 * static_cast<double>((c.ranks - 1) * largest);
    const double slots = c.ranks > 1 ? 0.015 * taken : 0;
    EXPECT_LE(taken, bytes_of_plan(planned) + 0.002 * taken + received) << memory_table(planned);
    EXPECT_GE(taken, bytes_of_plan(planned) - 0.002 * taken - slots) << memory_table(planned);
  }
}

// In FP32 forward reads the parameters: only the rest of a state goes to a disk, or stays on a GPU.
TEST(PlanAgreement, ARunWithDisksFitsIntoWhatIsPlanned) {
  for (const char* precision : {"fp32", "bf16"})
    for (const double gigabytes : {70, 90}) {
      Case c{.model = "llama-7b", .machine = machine_of("h100-4x-nvme"), .config = {}};
      c.machine.gpus.value = 0;
      c.machine.dram_capacity.value = units::gigabytes(gigabytes);
      c.config = with_activations(config_of(1), "recompute");
      c.config.train.precision = c.config.train.gradient_precision = precision;
      c.config.train.checkpoint_every = 0;
      c.config.sched.subgroup_params = 20'000'000;
      SCOPED_TRACE(testing::Message() << c.text() << " " << gigabytes);
      const planner::Forecast planned = planner::forecast(c.request());
      EXPECT_TRUE(sched::lives_behind_host(planned.problem, planned.plan));
      EXPECT_TRUE(planned.host.fits()) << memory_table(planned.host);
      c.config.sched.disks = "/disk";
      const RunMemory taken =
          estimate_run(choose_homes(c.run(0), c.room(1e9 * gigabytes)), c.room(1e9 * gigabytes));
      EXPECT_TRUE(taken.fits()) << memory_table(taken.host);
    }
}

// Of second banks, and with what memory leaves them.
TEST(PlanAgreement, AsManyGoAheadAsArePlanned) {
  for (const double part : {0.3, 0.8, 2.0}) {
    Case c{.model = "llama-3b", .machine = machine_of("h100"), .config = {}};
    c.config = with_activations(config_of(1), "recompute");
    c.config.train.precision = c.config.train.gradient_precision = "bf16";
    c.config.train.checkpoint_every = 0;
    c.config.sched.subgroup_params = 20'000'000;
    // All states and banks in host memory.
    c.config.sched.resident = false;
    const train::Run run = c.run(0);
    const double states = 12.0 * static_cast<double>(run.layout.trained_count());
    c.machine.dram_capacity.value =
        estimate_run(run, c.room(1e15)).host.total() + units::Bytes(part * states);
    c.config.optim.speculate = "auto";
    SCOPED_TRACE(fmt::format("{}, {} of the states' bytes are left", c.text(), part));
    const planner::Forecast planned = planner::forecast(c.request());
    const Room room = c.room(c.machine.dram_capacity.value.value());
    const train::Run taken = choose_ahead(c.run(0), room);
    EXPECT_GT(planned.ahead.subgroups, 0);
    // Records of a run are 0.4 GB, to a fiftieth; and a subgroup.
    EXPECT_NEAR(planned.ahead.banks.value(),
                static_cast<double>(train::bank_bytes(taken, taken.ahead).total()),
                0.75 * 0.02 * 0.4e9 + 12 * 20e6);
  }
}

/// Bytes that a step reads from disks, and writes there.
double moved_by_run(const train::Run& run, const Room& room) {
  const offload::HomePlan homes = train::plan_homes(run, room.workers);
  double bytes = 0;
  for (const Index i : homes.on_disks())
    bytes += 4.0 * static_cast<double>(homes.buffers() *
                                       run.layout.subgroups[static_cast<std::size_t>(i)].count);
  return bytes;
}
double moved_by_plan(const planner::Forecast& forecast) {
  double bytes = 0;
  for (const planner::TierUse& use : planner::uses_of_tiers(forecast)) bytes += use.read.value();
  return bytes;
}

/// The machine holds all of the run but for this part of its states.
Case with_disk(const char* model, const char* precision, Index gpus, double part) {
  Case c{.model = model, .machine = machine_of("h100-4x-nvme"), .config = {}};
  c.machine.gpus.value = gpus;
  c.config = with_activations(config_of(1), "recompute");
  c.config.train.precision = c.config.train.gradient_precision = precision;
  c.config.train.checkpoint_every = 0;
  c.config.sched.resident = gpus == 0;
  const train::Run run = c.run(0);
  const double states = (run.config.train.precision == "fp32" ? 8.0 : 12.0) *
                        static_cast<double>(run.layout.trained_count());
  c.machine.dram_capacity.value =
      estimate_run(run, c.room(1e15)).host.total() - units::Bytes(part * states);
  return c;
}

TEST(PlanAgreement, DisksHaveWhatIsPlanned) {
  for (const char* model : {"gpt2-1.5b", "llama-3b", "llama-7b"})
    for (const char* precision : {"fp32", "bf16"})
      for (const Index gpus : {0, 1})
        for (const double memory : {-1.0, 0.0, 6.0}) {
          Case c = with_disk(model, precision, gpus, 0.6);
          c.config.sched.disks = "/disk";
          c.config.sched.host_memory = memory;
          SCOPED_TRACE(fmt::format("{}, {} GB for states", c.text(), memory));
          const planner::Forecast planned = planner::forecast(c.request());
          const Room room = c.room(c.machine.dram_capacity.value.value());
          const double moved = moved_by_run(choose_homes(c.run(0), room), room);
          EXPECT_GT(moved, 0);
          EXPECT_NEAR(moved_by_plan(planned), moved, 0.03 * moved);
        }
}

// Beside what a GPU keeps, of whose memory plan and a run have estimates of their own.
TEST(PlanAgreement, DisksHaveWhatIsPlannedBesideGpus) {
  for (const char* precision : {"fp32", "bf16"})
    for (const double memory : {-1.0, 0.0, 4.0}) {
      Case c = with_disk("llama-7b", precision, 1, 0.95);
      c.config.sched.resident = true;
      c.config.sched.disks = "/disk";
      c.config.sched.host_memory = memory;
      SCOPED_TRACE(fmt::format("{}, {} GB for states", c.text(), memory));
      Room room = c.room(c.machine.dram_capacity.value.value());
      const train::Run run = choose_homes(c.run(0), room);
      EXPECT_FALSE(train::plan_homes(run, room.workers).on_devices().empty());
      const double states = 12.0 * static_cast<double>(run.layout.trained_count());
      EXPECT_NEAR(moved_by_plan(planner::forecast(c.request())), moved_by_run(run, room),
                  0.03 * states);
    }
}

// States that GPUs keep for good included, where the host has no room for all.
TEST(PlanAgreement, ARunFitsIntoWhatIsPlanned) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 12; ++i) {
    Case c = random_case(random);
    if (!test::tries(i, 4)) continue;
    if (c.machine.gpus.value == 0) c.machine = machine_of("h100");
    c.ranks = 1;
    c.machine.gpu_memory.value = units::gigabytes(24 + static_cast<double>(random() % 57));
    const planner::Forecast planned = planner::forecast(c.request());
    if (!planned.gpu.fits()) continue;
    SCOPED_TRACE(
        fmt::format("{}, {} of GPU memory", c.text(), size_text(c.machine.gpu_memory.value)));
    // Records are estimated, and what a run keeps on a GPU leaves other room for updates.
    const RunMemory taken = estimate_run(c.run(0), c.room(1.01 * planned.host.total().value()));
    EXPECT_TRUE(taken.fits()) << memory_table(planned.host) << "\n"
                              << memory_table(taken.host) << "\n"
                              << memory_table(planned.gpu) << "\n"
                              << memory_table(taken.devices.front());
  }
}

}  // namespace
}  // namespace dos::fit::plan_agreement_test
