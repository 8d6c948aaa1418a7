// SPDX-License-Identifier: Apache-2.0
// Forward, backward and updates on two devices with memories of their own, beside a CPU worker: the
// bits of a run on CPUs. Lanes are spread over the devices, parameters are copied to both,
// gradients pass from one to the other in the order of submission.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "fit/estimate.hpp"
#include "models/opencl_gpus.hpp"
#include "models/training_outcome.hpp"
#include "offload/disk_activations.hpp"
#include "rt/device.hpp"
#include "rt/opencl.hpp"
#include "sched_starpu/policies.hpp"
#include "scratch_directory.hpp"

namespace dos::test::gpt2_devices_test {
namespace {

const shape::ModelConfig kModel{"gpt2", 3, 36, 3, 19, 83};
constexpr Index kBatch = 3;

RunOptions on_cpus(bool recompute, float clip) {
  return {.model = kModel,
          .shape = {.batch = kBatch,
                    .lanes = 2,
                    .activations = shape::recompute_if(recompute),
                    .training = true,
                    .logits_rows = 30},
          .subgroup_params = 3000,
          .workers = 1,
          .scheduler = "lws",
          .optimizer = {.clip = clip},
          .decay = {}};
}

/// Tasks of forward and backward by worker.
std::map<int, Index> passes_by_worker(TrainingRun& run) {
  std::map<int, Index> count;
  run.session().wait_all();
  for (const rt::TaskRecord& record : run.submitter().profile().take(0))
    if (record.tag.phase == rt::Phase::kBackward) ++count[record.worker];
  return count;
}

class Gpt2Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    ::setenv("POCL_DEVICES", "pthread pthread", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
    try {
      const rt::Session session({.scheduler = "", .cpu_workers = 1, .opencl_workers = 2});
      if (session.opencl_workers() < 2) GTEST_SKIP() << "less than two OpenCL devices";
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  static RunOptions on_devices(RunOptions options, const std::string& scheduler) {
    options.scheduler = scheduler;
    options.opencl_workers = 2;
    options.schedulers = sched_starpu::policies();
    return options;
  }
};

TEST_F(Gpt2Devices, TrainTheSameBitsUnderEveryPolicy) {
  const RunOptions options = on_cpus(/*recompute=*/false, /*clip=*/0.5F);
  const TrainingOutcome on_cpu = train(options);
  const OpenclGpus gpus;
  for (const char* scheduler : {"dos", "zero-offload", "gpu-only"}) {
    SCOPED_TRACE(scheduler);
    TrainingRun run(on_devices(options, scheduler));
    EXPECT_TRUE(train(run) == on_cpu);
    const std::vector<rt::Device> devices = rt::devices();
    ASSERT_EQ(devices.size(), 2U);
    std::map<int, Index> passes = passes_by_worker(run);
    // A lane each.
    const auto first = static_cast<double>(passes[devices[0].worker]);
    const auto second = static_cast<double>(passes[devices[1].worker]);
    EXPECT_NEAR(first, second, 0.2 * first);
    for (const rt::Device& device : devices) {
      EXPECT_GT(passes[device.worker], 0) << "lanes on " << device.name;
      EXPECT_GT(rt::released_on(device.node), 0) << "dead activations of " << device.name;
    }
  }
}

// What is released must be written before it is read again: by recomputation, by updates that run
// beside backward, by another micro-batch.
TEST_F(Gpt2Devices, RecomputeAndUpdateDuringBackward) {
  for (const bool recompute : {false, true}) {
    SCOPED_TRACE(recompute);
    const RunOptions options = on_cpus(recompute, /*clip=*/0);
    const TrainingOutcome on_cpu = train(options);
    const OpenclGpus gpus;
    EXPECT_TRUE(train(on_devices(options, "dos")) == on_cpu);
  }
}

// 5 MB of weights and as much of gradients on a device of 4 MB.
TEST_F(Gpt2Devices, TrainTheSameBitsWhereWeightsPass) {
  RunOptions options = on_cpus(/*recompute=*/true, /*clip=*/0.5F);
  options.model = {"gpt2", 12, 128, 4, 19, 83};
  options.types = {.working = DType::kBF16, .gradient = DType::kBF16};
  options.shape.type = DType::kBF16;
  options.subgroup_params = 30'000;
  const TrainingOutcome on_cpu = train(options);
  const OpenclGpus gpus;
  ::setenv("STARPU_LIMIT_OPENCL_MEM", "4", 1);
  options = on_devices(options, "dos");
  options.opencl_workers = 1;
  TrainingRun run(options);
  ::unsetenv("STARPU_LIMIT_OPENCL_MEM");
  EXPECT_TRUE(train(run) == on_cpu);
  EXPECT_TRUE(sched_starpu::is_memory_short());
}

// The device has buffers of three blocks, whatever the number of blocks; the others' activations
// are on the host meanwhile.
TEST_F(Gpt2Devices, KeepActivationsOnTheHost) {
  RunOptions options = on_cpus(/*recompute=*/false, /*clip=*/0.5F);
  options.model.layers = 6;
  const TrainingOutcome on_cpu = train(options);
  const OpenclGpus gpus;
  for (const shape::ActivationPlan& plan :
       {shape::ActivationPlan{.hosted = 6}, shape::ActivationPlan{.hosted = 4, .recomputed = 1},
        shape::ActivationPlan{.hosted = 4, .selective = 2}}) {
    SCOPED_TRACE(shape::activation_plan_text(plan, options.model.layers));
    options.shape.activations = plan;
    EXPECT_TRUE(train(on_devices(options, "dos")) == on_cpu);
  }
}

TEST_F(Gpt2Devices, KeepActivationsOnADisk) {
  RunOptions options = on_cpus(/*recompute=*/false, /*clip=*/0.5F);
  options.model.layers = 6;
  const TrainingOutcome on_cpu = train(options);
  const OpenclGpus gpus;
  for (const shape::ActivationPlan& plan :
       {shape::ActivationPlan{.moved = 6}, shape::ActivationPlan{.moved = 3, .hosted = 2}}) {
    SCOPED_TRACE(shape::activation_plan_text(plan, options.model.layers));
    const ScratchDirectory folder;
    offload::DiskActivations disk(std::vector<offload::DiskPlace>{{.folder = folder.path()}});
    options.shape.activations = plan;
    options.store = &disk;
    EXPECT_TRUE(train(on_devices(options, "dos")) == on_cpu);
    EXPECT_GT(disk.traffic().read_bytes, 0);
  }
}

TEST_F(Gpt2Devices, TakeNoMoreMemoryThanIsSaid) {
  RunOptions options = on_cpus(/*recompute=*/false, /*clip=*/0.5F);
  options.model.layers = 6;
  const OpenclGpus gpus;
  for (const shape::ActivationPlan& plan :
       {shape::ActivationPlan{}, {.hosted = 6}, {.hosted = 3}}) {
    SCOPED_TRACE(shape::activation_plan_text(plan, options.model.layers));
    options.shape.activations = plan;
    TrainingRun run(on_devices(options, "gpu-only"));
    train(run);
    run.session().wait_all();
    const planner::MemoryUse said = fit::estimate_device(options.model, options.shape, run.layout(),
                                                         options.types, {}, /*accumulate=*/2,
                                                         /*devices=*/2, units::Bytes(1e9));
    const units::Bytes activations =
        said.of(MemoryCategory::kActivations) + said.of(MemoryCategory::kLogits);
    for (const rt::Device& device : rt::devices())
      EXPECT_LE(rt::allocated_on(run.session(), device.node)[MemoryCategory::kActivations],
                static_cast<Index>(activations.value()))
          << device.name;
  }
}

}  // namespace
}  // namespace dos::test::gpt2_devices_test
