// SPDX-License-Identifier: Apache-2.0
// States that come from a disk, and are updated on a device with a memory of its own: PoCL where
// there is no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "rt/device.hpp"
#include "rt/opencl.hpp"
#include "train/checkpoint_states.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train {
namespace {

class StatesOnDisksWithADevice : public testing::Test {
 protected:
  void SetUp() override {
    // Before StarPU starts; it takes PoCL's device only then.
    ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
    session_.emplace(
        rt::SessionConfig{.scheduler = "eager", .cpu_workers = 1, .opencl_workers = 1});
    if (session_->opencl_workers() == 0) GTEST_SKIP() << "no OpenCL device";
    std::filesystem::create_directory(scratch_ / "disk");
  }

  /// Bits that a run ends with; counts the updates on the device.
  std::vector<std::vector<float>> train(const std::string& disks) {
    config_.sched.disks = disks;
    const auto out = scratch_ / (disks.empty() ? "memory" : "disks");
    const auto trainer = test::make_trainer(*session_, config_, out);
    trainer->set_record_sink([&](Index, std::span<const rt::TaskRecord> records) {
      for (const rt::TaskRecord& record : records)
        for (const rt::Device& device : rt::devices())
          if (record.worker == device.worker) ++updates_on_device_;
    });
    trainer->start_fresh();
    trainer->run();
    config_.sched.disks.clear();
    const auto reader = test::make_trainer(*session_, config_, scratch_ / "reader");
    reader->resume(CheckpointReader(out, "last"));
    return test::state_of(*reader);
  }

  test::ScratchDirectory scratch_;
  config::TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
  std::optional<rt::Session> session_;
  Index updates_on_device_ = 0;
};

TEST_F(StatesOnDisksWithADevice, AreWhatTheyAreInMemory) {
  config_.sched.subgroup_params = 500;
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    config_.train.precision = precision;
    const auto expected = train("");
    updates_on_device_ = 0;
    EXPECT_TRUE(train((scratch_ / "disk").string()) == expected);
    EXPECT_GT(updates_on_device_, 0);
  }
}

}  // namespace
}  // namespace dos::train
