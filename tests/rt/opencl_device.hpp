// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "rt/opencl.hpp"
#include "rt/session.hpp"

namespace dos::test {

/// Tests of a session whose only worker is an OpenCL device with a memory of its own: PoCL where
/// there is no OpenCL GPU. Skipped where there is none.
class OnOpenclDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    // Before StarPU starts; it takes PoCL's device only then.
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
    // StarPU refuses to start with no worker at all.
    try {
      session_.emplace(rt::SessionConfig{.scheduler = "", .cpu_workers = 0, .opencl_workers = 1});
    } catch (const Error& error) {
      GTEST_SKIP() << "no OpenCL device: " << error.what();
    }
  }

  std::optional<rt::Session> session_;
};

}  // namespace dos::test
