// SPDX-License-Identifier: Apache-2.0
// States that come from a disk, and are updated on a device with a memory of its own: PoCL where
// there is no GPU.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "norms.hpp"
#include "rt/device.hpp"
#include "rt/opencl.hpp"
#include "train/checkpoint_states.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train::states_on_disks_device_test {
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

  /// What a run ends with; counts the updates on the device.
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

/// Parameters, first and second moments, each of all tensors together: single ones may have
/// gradients of rounding errors alone (biases of keys), whose sign AdamW follows.
std::array<std::vector<float>, 3> joined(const std::vector<std::vector<float>>& state) {
  std::array<std::vector<float>, 3> kinds;
  for (std::size_t i = 0; i < state.size(); ++i)
    kinds[i % 3].insert(kinds[i % 3].end(), state[i].begin(), state[i].end());
  return kinds;
}

// Where an update runs is a matter of chance here, and a device rounds in its own way: a rounding
// an operation, ten operations of an update, and six updates, each of which gradients carry on.
TEST_F(StatesOnDisksWithADevice, AreWhatTheyAreInMemory) {
  constexpr double kRounding = 0x1p-24;
  constexpr double kTolerance = 10 * 6 * 6 * kRounding;
  config_.sched.subgroup_params = 500;
  const auto expected = joined(train(""));
  updates_on_device_ = 0;
  const auto found = joined(train((scratch_ / "disk").string()));
  EXPECT_GT(updates_on_device_, 0);
  for (std::size_t kind = 0; kind < found.size(); ++kind)
    EXPECT_LE(test::distance(found[kind], expected[kind]),
              kTolerance * test::norm_of(expected[kind]))
        << kind;
}

}  // namespace
}  // namespace dos::train::states_on_disks_device_test
