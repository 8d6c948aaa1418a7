// SPDX-License-Identifier: Apache-2.0
#include "base/data_folder.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "scratch_directory.hpp"

namespace dos::data_folder_test {
namespace {

TEST(DataFolder, LiesBesideTheFolderOfThePrograms) {
  EXPECT_EQ(data_folder_of("/nowhere/at/all/bin/plan"),
            "/nowhere/at/all/share/deep-optimizer-states");
}

TEST(DataFolder, LeadsToTheSourcesFromABuildFolder) {
  const test::ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "sources");
  std::filesystem::create_directories(scratch / "build/share");
  std::filesystem::create_directories(scratch / "build/apps");
  std::filesystem::create_directory_symlink(scratch / "sources",
                                            scratch / "build/share/deep-optimizer-states");
  EXPECT_EQ(data_folder_of(scratch / "build/apps/plan"),
            std::filesystem::canonical(scratch / "sources"));
}

TEST(DataFolder, OfThisProgramBelongsToWhereItLies) {
  const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe");
  EXPECT_EQ(data_folder(), data_folder_of(here));
  EXPECT_TRUE(data_folder().is_absolute());
}

}  // namespace
}  // namespace dos::data_folder_test
