// SPDX-License-Identifier: Apache-2.0
// Gradients that a device has written and the CPU will use leave it before their updates come, and
// working parameters that the CPU has written come back before forward asks: PoCL where there is no
// GPU.
#include <gmock/gmock.h>
#include <starpu.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "rt/device.hpp"
#include "rt/submitter.hpp"
#include "rt/tasks.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu::gradient_flush_test {
namespace {

constexpr Index kSubgroups = 6;
constexpr Index kParams = 4099;
constexpr double kVector = kParams * sizeof(float);
constexpr int kSteps = 4;

void run_on_device(const rt::TaskView& task, rt::OpenclKernel& kernel) {
  kernel.add_value(std::int64_t{task.count(0)});
  for (Index buffer = 0; buffer < task.buffer_count(); ++buffer) kernel.add_buffer(buffer);
  kernel.run(task.count(0));
}

/// A codelet that only a device can run.
rt::Codelet device_codelet(const char* symbol, std::vector<rt::Mode> modes, const char* arguments,
                           const char* body) {
  return rt::Codelet(
      {.symbol = symbol,
       .modes = std::move(modes),
       .tail = {},
       .opencl = {.text = std::string("__kernel void run(long n, ") + arguments +
                          ") { long i = get_global_id(0); if (i < n) { " + body + " } }",
                  .kernel = "run"}},
      {.opencl = &rt::detail::thunk<&rt::detail::start_opencl<run_on_device>>});
}

const rt::Codelet& gradient_codelet() {
  static const rt::Codelet codelet = device_codelet(
      "dos.test.device_gradient.f32.v1", {rt::Mode::kWrite}, "__global float* g", "g[i] = 1;");
  return codelet;
}

/// Reads a gradient, as the sum of its squares does.
const rt::Codelet& norm_codelet() {
  static const rt::Codelet codelet =
      device_codelet("dos.test.device_norm.f32.v1", {rt::Mode::kRead, rt::Mode::kReadWrite},
                     "__global const float* g, __global float* sum", "if (i == 0) sum[0] += g[0];");
  return codelet;
}

void update_cpu(const rt::TaskView& task) {
  for (Index i = 0; i < task.count(0); ++i)
    task.pointer<float>(0)[i] += task.pointer<const float>(1)[i];
}

const rt::Codelet& update_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<update_cpu, run_on_device>(
      {.symbol = "dos.update.flush_test.f32.v1",
       .modes = {rt::Mode::kReadWrite, rt::Mode::kRead},
       .tail = {},
       .opencl = {.text = "__kernel void run(long n, __global float* p, __global const float* g) {"
                          "long i = get_global_id(0); if (i < n) p[i] += g[i]; }",
                  .kernel = "run"}});
  return codelet;
}

void update_narrow_cpu(const rt::TaskView& task) {
  update_cpu(task);
  for (Index i = 0; i < task.count(0); ++i)
    task.pointer<float>(2)[i] = task.pointer<const float>(0)[i];
}

/// With working parameters of its own.
const rt::Codelet& update_narrow_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<update_narrow_cpu, run_on_device>(
      {.symbol = "dos.update.return_test.f32.v1",
       .modes = {rt::Mode::kReadWrite, rt::Mode::kRead, rt::Mode::kWrite},
       .tail = {},
       .opencl = {.text = "__kernel void run(long n, __global float* p, __global const float* g, "
                          "__global float* w) {"
                          "long i = get_global_id(0); if (i < n) w[i] = p[i] += g[i]; }",
                  .kernel = "run"}});
  return codelet;
}

bool is_valid_on(int node, const rt::Handle& handle) {
  int valid = 0;
  starpu_data_query_status(handle.raw(), node, nullptr, &valid, nullptr);
  return valid != 0;
}

bool is_valid_on_host(const rt::Handle& handle) {
  return is_valid_on(STARPU_MAIN_RAM, handle);
}

class GradientFlush : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
  }
  void TearDown() override {
    handles_.clear();
    session_.reset();
    configure({});
  }

  /// False when there is no device.
  bool start(const std::string& policy) {
    configure({.options = {.residents = false}, .model_on_host = false});
    session_.emplace(rt::SessionConfig{
        .scheduler = policy, .cpu_workers = 1, .opencl_workers = 1, .schedulers = policies()});
    if (session_->opencl_workers() == 0) return false;
    for (const char* name : {"p", "g", "sum", "w"})
      for (Index i = 0; i < kSubgroups; ++i)
        handles_.push_back(std::make_unique<rt::Handle>(
            *session_, rt::HandleSpec{.name = name, .count = kParams}));
    return true;
  }
  const rt::Handle& p(Index i) const { return *handles_[static_cast<std::size_t>(i)]; }
  const rt::Handle& g(Index i) const { return *handles_[static_cast<std::size_t>(kSubgroups + i)]; }
  const rt::Handle& sum(Index i) const {
    return *handles_[static_cast<std::size_t>(2 * kSubgroups + i)];
  }
  const rt::Handle& w(Index i) const {
    return *handles_[static_cast<std::size_t>(3 * kSubgroups + i)];
  }

  void backward(rt::Submitter& submitter) {
    for (Index i = 0; i < kSubgroups; ++i) {
      const rt::Work work{kParams, {kParams}};
      const std::vector<const rt::Handle*> gradient{&g(i)};
      submitter.submit(gradient_codelet(), gradient, 0, work, {});
      const std::vector<const rt::Handle*> norm{&g(i), &sum(i)};
      submitter.submit(norm_codelet(), norm, 0, work, {});
    }
    session_->wait_all();
  }
  void update(rt::Submitter& submitter) {
    for (Index i = 0; i < kSubgroups; ++i) {
      const std::vector<const rt::Handle*> buffers{&p(i), &g(i)};
      submitter.submit(update_codelet(), buffers, 0, {kParams, {kParams}},
                       {.priority = static_cast<int>(kSubgroups - i)});
    }
    session_->wait_all();
  }
  /// The device reads the working parameters.
  void forward(rt::Submitter& submitter, bool is_narrow) {
    for (Index i = 0; i < kSubgroups; ++i) {
      const std::vector<const rt::Handle*> buffers{is_narrow ? &w(i) : &p(i), &sum(i)};
      submitter.submit(norm_codelet(), buffers, 0, {kParams, {kParams}}, {});
    }
    session_->wait_all();
  }
  void update_narrow(rt::Submitter& submitter) {
    for (Index i = 0; i < kSubgroups; ++i) {
      const std::vector<const rt::Handle*> buffers{&p(i), &g(i), &w(i)};
      submitter.submit(update_narrow_codelet(), buffers, 0, {kParams, {kParams}}, {});
    }
    session_->wait_all();
  }
  void expect_trained() const {
    for (Index i = 0; i < kSubgroups; ++i) {
      const rt::HostAccess access(p(i), rt::Mode::kRead);
      EXPECT_THAT(access.as<const float>(), testing::Each(static_cast<float>(kSteps)));
    }
  }

  std::optional<rt::Session> session_;
  std::vector<std::unique_ptr<rt::Handle>> handles_;
};

TEST_F(GradientFlush, BeginsWhenBackwardHasWrittenWhatTheCpuWillUse) {
  if (!start("zero-offload")) GTEST_SKIP() << "no OpenCL device";
  rt::Submitter submitter(*session_);
  for (int step = 1; step <= kSteps; ++step) {
    backward(submitter);
    // No update is submitted yet. In the first step nobody knows which buffers are gradients.
    for (Index i = 0; step > 1 && i < kSubgroups; ++i)
      EXPECT_TRUE(test::eventually([&] { return is_valid_on_host(g(i)); })) << step;
    update(submitter);
    const std::optional<StepReport> report = step_report(step);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->flushed.value(), step == 1 ? 0 : kSubgroups * kVector) << step;
    EXPECT_GE(report->waited.value(), 0);
  }
  EXPECT_EQ(report().all.flushed.value(), (kSteps - 1) * kSubgroups * kVector);
  expect_trained();
}

TEST_F(GradientFlush, WorkingParametersComeBackToWhereForwardReadThem) {
  for (const bool is_narrow : {false, true}) {
    SCOPED_TRACE(is_narrow);
    if (!start("zero-offload")) GTEST_SKIP() << "no OpenCL device";
    const int device = rt::devices().front().node;
    rt::Submitter submitter(*session_);
    for (Index i = 0; i < kSubgroups; ++i)
      for (const rt::Handle* handle : {&p(i), &w(i)})
        std::ranges::fill(rt::HostAccess(*handle, rt::Mode::kWrite).as<float>(), 0.0F);
    for (int step = 1; step <= kSteps; ++step) {
      forward(submitter, is_narrow);
      backward(submitter);
      if (is_narrow)
        update_narrow(submitter);
      else
        update(submitter);
      for (Index i = 0; i < kSubgroups; ++i) {
        EXPECT_TRUE(test::eventually([&] { return is_valid_on(device, is_narrow ? w(i) : p(i)); }))
            << step;
        // What only the update uses stays in host memory. The first step has no plan.
        EXPECT_FALSE(is_narrow && step > 1 && is_valid_on(device, p(i))) << step;
      }
    }
    expect_trained();
    TearDown();
  }
}

TEST_F(GradientFlush, LeavesWhatTheDeviceWillUse) {
  if (!start("gpu-only")) GTEST_SKIP() << "no OpenCL device";
  rt::Submitter submitter(*session_);
  for (int step = 1; step <= kSteps; ++step) {
    backward(submitter);
    // From the third step on a plan holds.
    for (Index i = 0; step > 2 && i < kSubgroups; ++i) EXPECT_FALSE(is_valid_on_host(g(i))) << step;
    update(submitter);
    if (step > 2) {
      EXPECT_EQ(step_report(step)->flushed.value(), 0) << step;
    }
  }
  expect_trained();
}

}  // namespace
}  // namespace dos::sched_starpu::gradient_flush_test
