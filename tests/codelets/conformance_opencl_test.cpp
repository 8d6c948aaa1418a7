// SPDX-License-Identifier: Apache-2.0
// The codelets with an OpenCL function on an OpenCL worker with a memory of its own: PoCL where
// there is no OpenCL GPU.
#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>

#include "codelets/conformance/cases.hpp"
#include "rt/opencl.hpp"

namespace dos::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConformanceOpencl : public ::testing::Test {
 protected:
  void SetUp() override {
    // Before StarPU starts; it takes PoCL's device only then.
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
    try {
      session_.emplace(rt::SessionConfig{.scheduler = "", .cpu_workers = 0, .opencl_workers = 1});
    } catch (const Error& error) {
      GTEST_SKIP() << "no OpenCL device: " << error.what();
    }
  }

  std::optional<rt::Session> session_;
};

TEST_F(ConformanceOpencl, CodeletsTouchWhatTheySay) {
  Index cases = 0;
  for (const Case& c : all_cases()) {
    if (!c.codelet->runs_on_opencl()) continue;
    ++cases;
    EXPECT_THAT(complaints_on_device(c, *session_), IsEmpty()) << c.name;
  }
  EXPECT_EQ(cases, std::ssize(update_cases()));
}

// The checks see what happens in the device's memory, to a buffer that is only read too.
TEST_F(ConformanceOpencl, FindsAChangedInput) {
  Case c = update_cases().front();
  c.buffers.front().outputs.clear();
  EXPECT_THAT(complaints_on_device(c, *session_),
              Contains(HasSubstr("buffer 0, element 0: changed, but is no output")));
}

}  // namespace
}  // namespace dos::test
