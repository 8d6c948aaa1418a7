// SPDX-License-Identifier: Apache-2.0
#include "base/output_file.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/file.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::output_file_test {
namespace {

using test::fails_with;

class OutputFile : public testing::Test {
 protected:
  void expect_refused() const {
    EXPECT_THAT([&] { write_replaceable(path_, "<svg new", "<svg "); },
                fails_with({"drawing.svg: is there already and does not begin with <svg "}));
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "drawing.svg";
};

TEST_F(OutputFile, ReplacesItsKindAndWhatIsEmpty) {
  write_replaceable(path_, "<svg old", "<svg ");
  write_replaceable(path_, "<svg new", "<svg ");
  EXPECT_EQ(read_text(path_), "<svg new");
  write_durably(path_, "");
  write_replaceable(path_, "<svg new", "<svg ");
  EXPECT_EQ(read_text(path_), "<svg new");
}

TEST_F(OutputFile, ReplacesNothingElse) {
  for (const char* text : {"step,loss\n", "<sv", "<SVG old", " <svg old"}) {
    write_durably(path_, text);
    expect_refused();
    EXPECT_EQ(read_text(path_), text);
  }
}

TEST_F(OutputFile, LooksThroughALink) {
  write_durably(scratch_ / "target", "step,loss\n");
  std::filesystem::create_symlink("target", path_);
  expect_refused();
}

TEST_F(OutputFile, LeavesFoldersAndDevicesToTheWriter) {
  EXPECT_NO_THROW(expect_replaceable("/dev/null", "<svg "));
  EXPECT_NO_THROW(expect_replaceable(scratch_ / ".", "<svg "));
  EXPECT_NO_THROW(expect_replaceable(scratch_ / "none/x.svg", "<svg "));
}

TEST_F(OutputFile, BeginsWithItsMark) {
  EXPECT_THROW(write_replaceable(path_, "<html", "<svg "), ContractViolation);
}

}  // namespace
}  // namespace dos::output_file_test
