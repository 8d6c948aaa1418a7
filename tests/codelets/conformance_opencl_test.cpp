// SPDX-License-Identifier: Apache-2.0
// The codelets with an OpenCL function on an OpenCL device.
#include <gmock/gmock.h>

#include "codelets/conformance/cases.hpp"
#include "rt/opencl_device.hpp"

namespace dos::test::conformance_opencl_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConformanceOpencl : public OnOpenclDevice {};

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
}  // namespace dos::test::conformance_opencl_test
