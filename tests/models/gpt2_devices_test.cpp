// SPDX-License-Identifier: Apache-2.0
// Forward, backward and updates on two devices with memories of their own, beside a CPU worker: the
// bits of a run on CPUs. Lanes are spread over the devices, parameters are copied to both,
// gradients pass from one to the other in the order of submission.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/random.hpp"
#include "models/opencl_gpus.hpp"
#include "models/training_run.hpp"
#include "rt/device.hpp"
#include "rt/opencl.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::test {
namespace {

const models::ModelConfig kModel{"gpt2", 3, 36, 3, 19, 83};
constexpr Index kBatch = 3;
constexpr Index kSteps = 3;

RunOptions on_cpus(bool recompute, float clip) {
  return {.model = kModel,
          .shape = {.batch = kBatch,
                    .lanes = 2,
                    .recompute = recompute,
                    .training = true,
                    .logits_rows = 30},
          .subgroup_params = 3000,
          .workers = 1,
          .scheduler = "lws",
          .optimizer = {.clip = clip},
          .decay = {}};
}

struct Outcome {
  std::vector<double> scalars;
  std::vector<float> elements;
};

bool same_bits(const Outcome& a, const Outcome& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
  };
  return same(a.scalars, b.scalars) && same(a.elements, b.elements);
}

/// Losses, norms, values, gradients and moments after some steps of two micro-batches.
Outcome train(TrainingRun& run) {
  run.initialise(7);
  const Philox random(11);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(2 * kBatch * (kModel.context + 1)));
  Outcome outcome;
  for (Index step = 1; step <= kSteps; ++step) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(random.uniform(i, static_cast<std::uint64_t>(step)) *
                                            static_cast<double>(kModel.vocabulary));
    outcome.scalars.push_back(run.gradients(tokens));
    outcome.scalars.push_back(run.update(step, 1e-2));
  }
  outcome.elements = run.everything();
  return outcome;
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

  static Outcome expected(const RunOptions& options) {
    TrainingRun run(options);
    return train(run);
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
  const Outcome on_cpu = expected(options);
  const OpenclGpus gpus;
  for (const char* scheduler : {"dos", "zero-offload", "gpu-only"}) {
    SCOPED_TRACE(scheduler);
    TrainingRun run(on_devices(options, scheduler));
    EXPECT_TRUE(same_bits(train(run), on_cpu));
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
    const Outcome on_cpu = expected(options);
    const OpenclGpus gpus;
    TrainingRun run(on_devices(options, "dos"));
    EXPECT_TRUE(same_bits(train(run), on_cpu));
  }
}

}  // namespace
}  // namespace dos::test
