// SPDX-License-Identifier: Apache-2.0
#include "offload/disk_activations.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "message_of.hpp"
#include "rt/device.hpp"
#include "scratch_directory.hpp"

namespace dos::offload::disk_activations_test {
namespace {

constexpr Index kSlot = 300'000;
/// What a slot takes of a disk: a multiple of 64 KiB.
constexpr Index kPlace = 5 * 65'536;

/// Two disks that may take so many bytes each, and so many slots on them.
std::string reserve(const std::vector<Index>& sizes, Index slots) {
  const test::ScratchDirectory scratch;
  std::vector<DiskPlace> places;
  for (const Index size : sizes) {
    const std::filesystem::path folder = scratch.path() / std::to_string(places.size());
    std::filesystem::create_directory(folder);
    places.push_back({.folder = folder, .bytes = size});
  }
  DiskActivations activations(places);
  for (Index slot = 0; slot < slots; ++slot) activations.add(kSlot, rt::kHostNode);
  return test::message_of<Error>([&] { activations.reserve(); });
}

// However unlike the disks, all is taken for which there is a place.
TEST(DiskActivations, FillUnequalDisks) {
  for (const Index small : {Index{0}, kPlace - 1, kPlace, 3 * kPlace, 10 * kPlace}) {
    const Index all = small / kPlace + 10;
    EXPECT_EQ(reserve({small, 10 * kPlace}, all), "") << small;
    EXPECT_EQ(reserve({10 * kPlace, small}, all), "") << small;
    EXPECT_THAT(reserve({small, 10 * kPlace}, all + 1),
                testing::HasSubstr("raise a size, name another disk, or move fewer blocks"))
        << small;
  }
}

}  // namespace
}  // namespace dos::offload::disk_activations_test
