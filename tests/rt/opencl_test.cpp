// SPDX-License-Identifier: Apache-2.0
// Codelets with an OpenCL program on a device with its own memory: PoCL where there is no GPU.
#include "rt/opencl.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "rt/opencl_device.hpp"
#include "rt/tasks.hpp"

namespace dos::rt::opencl_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void scale_cpu(const TaskView& task) {
  for (Index i = 0; i < task.count(0); ++i) task.pointer<float>(0)[i] *= task.args<float>();
}

void scale_opencl(const TaskView& task, OpenclKernel& kernel) {
  kernel.add_value(std::int64_t{task.count(0)});
  kernel.add_value(task.args<float>());
  kernel.add_buffer(0);
  kernel.run(task.count(0));
}

CodeletSpec scale_spec(const char* symbol, const char* body) {
  const std::string text =
      std::string("__kernel void scale(long count, float factor, __global float* x) {") + body +
      "}";
  return {.symbol = symbol,
          .modes = {Mode::kReadWrite},
          .tail = {},
          .opencl = {.text = text, .kernel = "scale"}};
}

const Codelet& scale_codelet() {
  static const Codelet codelet = make_codelet<scale_cpu, scale_opencl>(
      scale_spec("dos.test_scale.v1", "long i = get_global_id(0); if (i < count) x[i] *= factor;"));
  return codelet;
}

const Codelet& broken_codelet() {
  static const Codelet codelet = make_codelet<scale_cpu, scale_opencl>(
      scale_spec("dos.test_broken.v1", "this is no OpenCL C"));
  return codelet;
}

class Opencl : public test::OnOpenclDevice {};

void scale(Submitter& submitter, const Codelet& codelet, const Handle& x, float factor) {
  const std::vector<const Handle*> buffers{&x};
  submitter.submit(codelet, buffers, factor, {.flops = 1, .sizes = {x.count()}}, {});
}

void fill(const Handle& x, float value) {
  const HostAccess access(x, Mode::kWrite);
  std::ranges::fill(access.as<float>(), value);
}

TEST_F(Opencl, TasksRunOnTheDeviceAndTheirResultsComeBack) {
  EXPECT_EQ(session_->workers(), 1);
  ASSERT_EQ(opencl_devices().size(), 1U);
  EXPECT_FALSE(opencl_devices()[0].name.empty());
  Submitter submitter(*session_);
  for (const Index count : {1, 255, 256, 1001}) {
    SCOPED_TRACE(count);
    const Handle x(*session_, {.name = "x", .count = count});
    fill(x, 3);
    scale(submitter, scale_codelet(), x, 2);
    scale(submitter, scale_codelet(), x, 0.25F);
    const HostAccess access(x, Mode::kRead);
    for (const float each : access.as<const float>()) ASSERT_EQ(each, 1.5F);
  }
}

TEST_F(Opencl, AProgramThatDoesNotBuildIsAnErrorOfTheSubmission) {
  Submitter submitter(*session_);
  const Handle x(*session_, {.name = "x", .count = 8});
  EXPECT_THAT(test::message_of<Error>([&] { scale(submitter, broken_codelet(), x, 2); }),
              AllOf(HasSubstr("dos.test_broken.v1"), HasSubstr("does not build")));
  fill(x, 3);
  scale(submitter, scale_codelet(), x, 2);
  EXPECT_EQ(HostAccess(x, Mode::kRead).as<const float>()[7], 6.0F);
}

TEST_F(Opencl, ACodeletWithoutAnOpenclImplementationIsRefused) {
  Submitter submitter(*session_);
  const Handle x(*session_, {.name = "x", .count = 8});
  const test::Body nothing = [](const TaskView&) {};
  EXPECT_THAT(test::message_of<Error>([&] { test::submit_body(submitter, nothing, {&x}); }),
              HasSubstr("no worker of this run can execute codelet dos.test_body.v1"));
}

TEST_F(Opencl, ASessionTakesNoDeviceUnlessAsked) {
  session_.reset();
  Session session({.scheduler = "", .cpu_workers = 1});
  EXPECT_EQ(session.workers(), 1);
  EXPECT_TRUE(opencl_devices().empty());
  EXPECT_EQ(session.opencl_program(scale_codelet()), nullptr);
}

// Each task may run on either worker: the data move between their memories.
TEST_F(Opencl, CpuAndDeviceShareTheTasksOfAChain) {
  session_.reset();
  Session session({.scheduler = "eager", .cpu_workers = 1, .opencl_workers = 1});
  EXPECT_EQ(session.workers(), 2);
  Submitter submitter(session);
  const Handle x(session, {.name = "x", .count = 1001});
  fill(x, 1);
  for (int i = 0; i < 50; ++i) scale(submitter, scale_codelet(), x, i % 2 == 0 ? 4.0F : 0.5F);
  const HostAccess access(x, Mode::kRead);
  for (const float each : access.as<const float>()) ASSERT_EQ(each, 0x1p25F);
}

}  // namespace
}  // namespace dos::rt::opencl_test
