// SPDX-License-Identifier: Apache-2.0
// A device with a memory of its own, and little of it: PoCL where there is no GPU.
#include <gmock/gmock.h>
#include <starpu.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "rt/device.hpp"
#include "rt/submitter.hpp"
#include "rt/tasks.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu::device_memory_test {
namespace {

constexpr Index kSubgroups = 24;
constexpr Index kParams = 65536;
constexpr double kVector = kParams * sizeof(float);
constexpr int kSteps = 4;
/// Of another size than states, so that no block of one serves the other.
constexpr Index kActivation = 5 * kParams;

using Handles = std::vector<std::unique_ptr<rt::Handle>>;

void update_cpu(const rt::TaskView& task) {
  for (Index i = 0; i < task.count(0); ++i)
    for (const Index state : {0, 1, 2})
      task.pointer<float>(state)[i] += task.pointer<const float>(3)[i];
}

void update_opencl(const rt::TaskView& task, rt::OpenclKernel& kernel) {
  kernel.add_value(std::int64_t{task.count(0)});
  for (const Index buffer : {0, 1, 2, 3}) kernel.add_buffer(buffer);
  kernel.run(task.count(0));
}

const rt::Codelet& update_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<update_cpu, update_opencl>(
      {.symbol = "dos.update.memory_test.f32.v1",
       .modes = {rt::Mode::kReadWrite, rt::Mode::kReadWrite, rt::Mode::kReadWrite, rt::Mode::kRead},
       .tail = {},
       .opencl = {.text = "__kernel void update(long n, __global float* p, __global float* m,"
                          "__global float* v, __global const float* g) {"
                          "long i = get_global_id(0);"
                          "if (i < n) { p[i] += g[i]; m[i] += g[i]; v[i] += g[i]; } }",
                  .kernel = "update"}});
  return codelet;
}

void write_gradient(const rt::TaskView& task) {
  for (Index i = 0; i < task.count(0); ++i) task.pointer<float>(0)[i] = 1;
}

const rt::Codelet& gradient_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<write_gradient>(
      {.symbol = "dos.test.gradient.f32.v1", .modes = {rt::Mode::kWrite}, .tail = {}});
  return codelet;
}

void write_activation(const rt::TaskView& task, rt::OpenclKernel& kernel) {
  kernel.add_value(std::int64_t{task.count(0)});
  kernel.add_buffer(0);
  kernel.run(task.count(0));
}

const rt::Codelet& activation_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<write_gradient, write_activation>(
      {.symbol = "dos.test.activation.f32.v1",
       .modes = {rt::Mode::kWrite},
       .tail = {},
       .opencl = {.text = "__kernel void forward(long n, __global float* x) {"
                          "long i = get_global_id(0); if (i < n) x[i] = 1; }",
                  .kernel = "forward"}});
  return codelet;
}

/// Bytes over all links since the last call.
double transferred() {
  double bytes = 0;
  for (int bus = 0; bus < starpu_bus_get_count(); ++bus) {
    starpu_profiling_bus_info info;
    starpu_bus_get_profiling_info(bus, &info);
    bytes += static_cast<double>(info.transferred_bytes);
  }
  return bytes;
}

/// Steps of a program that updates everything on the device; the gradients come from the CPU.
class DeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
  }
  void TearDown() override {
    session_.reset();
    ::unsetenv("STARPU_LIMIT_OPENCL_MEM");
    configure({});
  }

  /// False when there is no device.
  bool start(const std::string& policy, SchedulerSettings settings = {}) {
    settings.options.residents = false;
    settings.released = &rt::released_on;
    configure(settings);
    try {
      session_.emplace(rt::SessionConfig{
          .scheduler = policy, .cpu_workers = 1, .opencl_workers = 1, .schedulers = policies()});
    } catch (const Error& error) {
      return false;
    }
    return true;
  }

  /// The device writes them, and they are dead when the updates come.
  void forward(rt::Submitter& submitter, const Handles& activations, bool release) {
    const int device = rt::devices().front().worker;
    for (const auto& each : activations) {
      const std::vector<const rt::Handle*> buffers{each.get()};
      submitter.submit(activation_codelet(), buffers, 0, {kActivation, {kActivation}},
                       {.worker = device});
    }
    session_->wait_all();  // all of them live at a time
    for (const auto& each : activations)
      if (release) submitter.release(*each);
    session_->wait_all();
  }

  /// Bytes that the steps after the first move.
  double run(Index activation_count = 0, bool release = false) {
    rt::Submitter submitter(*session_);
    Handles activations;
    for (Index i = 0; i < activation_count; ++i)
      activations.push_back(std::make_unique<rt::Handle>(
          *session_, rt::HandleSpec{.name = "activation", .count = kActivation}));
    Handles handles;
    for (Index i = 0; i < 4 * kSubgroups; ++i)
      handles.push_back(std::make_unique<rt::Handle>(
          *session_, rt::HandleSpec{.name = "state", .count = kParams}));
    for (int step = 0; step < kSteps; ++step) {
      if (step == 1) transferred();
      forward(submitter, activations, release);
      for (Index i = 0; i < kSubgroups; ++i) {
        const auto first = static_cast<std::size_t>(4 * i);
        const rt::Work work{kParams, {kParams}};
        const std::vector<const rt::Handle*> gradient{handles[first + 3].get()};
        submitter.submit(gradient_codelet(), gradient, 0, work, {});
        const std::vector<const rt::Handle*> buffers{handles[first].get(), handles[first + 1].get(),
                                                     handles[first + 2].get(),
                                                     handles[first + 3].get()};
        submitter.submit(update_codelet(), buffers, 0, work,
                         {.priority = static_cast<int>(kSubgroups - i)});
      }
      session_->wait_all();
    }
    const double bytes = transferred();
    for (std::size_t i = 0; i < handles.size(); i += 4) {
      const rt::HostAccess access(*handles[i], rt::Mode::kRead);
      EXPECT_THAT(access.as<const float>(), testing::Each(static_cast<float>(kSteps)));
    }
    return bytes;
  }

  std::optional<rt::Session> session_;
};

// p, m, v and g go in, p, m and v come back: what the plan moves in a step.
constexpr double kPlanned = kSubgroups * kVector * (4 + 3);

TEST_F(DeviceMemory, LittleOfItMovesNoMoreThanThePlan) {
  // A subgroup has 1 MiB: 1, 3 and 7 of them fit, less the reserve; 0 is without limit.
  for (const char* limit : {"2", "4", "8", ""}) {
    if (*limit != '\0')
      ::setenv("STARPU_LIMIT_OPENCL_MEM", limit, 1);
    else
      ::unsetenv("STARPU_LIMIT_OPENCL_MEM");
    if (!start("gpu-only")) GTEST_SKIP() << "no OpenCL device";
    const double bytes = run();
    EXPECT_LE(bytes, kPlanned * (kSteps - 1)) << limit;
    EXPECT_GE(bytes, kSubgroups * kVector * (kSteps - 1)) << "the gradients alone";
    const UpdatesReport seen = report();
    EXPECT_THAT(seen.obstacle, testing::IsEmpty());
    EXPECT_EQ(seen.steps.back().executed_gpu.value(), kSubgroups * kParams) << limit;
    session_.reset();
  }
}

// Sums of several ranks' gradients, with the model on the device.
TEST_F(DeviceMemory, GradientsThatComeFromTheHostArePlannedAndMoved) {
  if (!start("gpu-only", {.model_on_host = false, .gradients_on_host = true}))
    GTEST_SKIP() << "no OpenCL device";
  const double bytes = run();
  const StepReport last = report().steps.back();
  EXPECT_EQ(last.needed[0].in.value(), 4 * kSubgroups * kVector);
  EXPECT_EQ(last.needed[0].out.value(), 3 * kSubgroups * kVector);
  // There is room for all: states that have gone home need not come again.
  EXPECT_LE(bytes, kPlanned * (kSteps - 1));
  EXPECT_GE(bytes, (1 + 3) * kSubgroups * kVector * (kSteps - 1)) << "gradients in, states out";
}

// Idle workers take updates from each other, under the same limit.
TEST_F(DeviceMemory, LittleOfItIsEnoughForDos) {
  ::setenv("STARPU_LIMIT_OPENCL_MEM", "4", 1);
  if (!start("dos")) GTEST_SKIP() << "no OpenCL device";
  EXPECT_LE(run(), kPlanned * (kSteps - 1));
}

// Of 16 MiB six activations take 7.5: room for 8 subgroups of 1 MiB beside them, and for 15 once
// they are dead: less the reserve.
TEST_F(DeviceMemory, OfDeadActivationsIsTheUpdates) {
  constexpr Index kCount = 6;
  constexpr double kDead = kCount * kActivation * sizeof(float);
  constexpr double kLimit = 16 << 20;
  ::setenv("STARPU_LIMIT_OPENCL_MEM", "16", 1);
  for (const bool release : {false, true}) {
    if (!start("gpu-only")) GTEST_SKIP() << "no OpenCL device";
    const double bytes = run(kCount, release);
    const UpdatesReport seen = report();
    EXPECT_THAT(seen.obstacle, testing::IsEmpty());
    const sched::StateMemory memory = seen.devices.at(1).memory;
    const double resident = 0.97 * kLimit - kDead;
    EXPECT_NEAR(memory.resident.value(), resident, 0.01 * kLimit) << release;
    EXPECT_NEAR(memory.update.value(), resident + (release ? kDead : 0), 0.01 * kLimit) << release;
    EXPECT_EQ(seen.steps.back().executed_gpu.value(), kSubgroups * kParams);
    // What is dead never travels; what lives is not pushed out by updates that fit beside it.
    EXPECT_LE(bytes, kPlanned * (kSteps - 1)) << release;
    session_.reset();
  }
}

}  // namespace
}  // namespace dos::sched_starpu::device_memory_test
