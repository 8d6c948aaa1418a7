// SPDX-License-Identifier: Apache-2.0
// Shares of devices from records written by hand.
#include "train/device_shares.hpp"

#include <gmock/gmock.h>

#include <optional>

#include "codelets/update/update_codelet.hpp"

namespace dos::train::device_shares_test {
namespace {

using rt::Phase;
using testing::SizeIs;

/// Two CPU workers of two NUMA nodes, and two GPUs, one of them with two workers.
rt::MachineView machine() {
  return {.workers = {{0, "GPU 0", "cuda", 2},
                      {1, "GPU 0, second", "cuda", 2},
                      {2, "GPU 1", "cuda", 3},
                      {3, "CPU 0", "cpu", 0},
                      {4, "CPU 1", "cpu", 1}},
          .nodes = {},
          .links = {}};
}

shape::Layout layout() {
  shape::Layout layout;
  layout.subgroups = {{.name = "a", .count = 300}, {.name = "b", .count = 100}};
  return layout;
}

rt::TaskRecord record(int worker, double ms, const char* label = "",
                      const rt::Codelet* codelet = nullptr) {
  return {.codelet = codelet,
          .label = label,
          .tag = {.phase = Phase::kUpdate, .step = 1},
          .worker = worker,
          .start_us = 5000,
          .end_us = 5000 + ms * 1e3};
}

// Times are whole milliseconds and shares have few bits: exact.
TEST(DeviceShares, WorkersOfADeviceAreOne) {
  const shape::Layout parameters = layout();
  const DeviceShares shares(machine(), parameters);
  const auto devices =
      shares.measure(std::vector{record(3, 4), record(4, 2), record(0, 8), record(1, 4),
                                 record(2, 1), record(2, 1), record(-1, 100)},
                     8);
  ASSERT_THAT(devices, SizeIs(3));
  EXPECT_EQ(devices[0].name, "cpu");
  EXPECT_EQ(devices[0].busy, 6.0 / (2 * 8));
  EXPECT_EQ(devices[1].name, "cuda0");
  EXPECT_EQ(devices[1].busy, 12.0 / (2 * 8));
  EXPECT_EQ(devices[2].name, "cuda1");
  EXPECT_EQ(devices[2].busy, 2.0 / 8);
  for (const auto& device : devices) EXPECT_FALSE(device.updated) << "nothing was updated";
}

TEST(DeviceShares, UpdatesCountByTheirParameters) {
  const shape::Layout parameters = layout();
  const DeviceShares shares(machine(), parameters);
  const codelets::UpdateKind kind = codelets::all_update_kinds().front();
  const rt::Codelet& update = codelets::update_codelet(kind);
  const rt::Codelet& redo = codelets::update_codelet(kind, codelets::UpdateForm::kRedo);
  const auto devices =
      shares.measure(std::vector{record(3, 1, "a", &update), record(2, 1, "b", &update),
                                 record(0, 1, "b", &redo), record(0, 1, "clip factor", &update)},
                     8);
  ASSERT_THAT(devices, SizeIs(3));
  EXPECT_EQ(devices[0].updated, std::optional(0.75));
  EXPECT_EQ(devices[1].updated, std::optional(0.0)) << "what is done again, or of no subgroup";
  EXPECT_EQ(devices[2].updated, std::optional(0.25));
}

TEST(DeviceShares, ACpuAloneHasAllUpdates) {
  const shape::Layout parameters = layout();
  const DeviceShares shares({.workers = {{0, "CPU 0", "cpu", 0}}, .nodes = {}, .links = {}},
                            parameters);
  const auto devices = shares.measure(
      std::vector{
          record(0, 4, "a", &codelets::update_codelet(codelets::all_update_kinds().front()))},
      8);
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_EQ(devices[0].busy, 0.5);
  EXPECT_FALSE(devices[0].updated);
}

}  // namespace
}  // namespace dos::train::device_shares_test
