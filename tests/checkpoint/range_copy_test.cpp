// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/range_copy.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/piece.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"
#include "storage/blocking.hpp"

namespace dos::checkpoint::range_copy_test {
namespace {

constexpr Index kBegin = 1000;  // of the range, which begins and ends at no page
constexpr Index kBytes = 2 * kPieceBytes + 4321;

class RangeCopyTest : public testing::Test {
 protected:
  RangeCopyTest() {
    for (std::size_t i = 0; i < content_.size(); ++i)
      content_[i] = static_cast<char>(i * 7 + i / 251);
    range_.begin = kBegin;
    for (Index offset = 0; offset < kBytes; offset += kPieceBytes) {
      const Index bytes = std::min(kPieceBytes, kBytes - offset);
      const std::span piece(content_.data() + kBegin + offset, static_cast<std::size_t>(bytes));
      range_.pieces.push_back({.tensor = &tensor_,
                               .tensor_offset = offset,
                               .end = kBegin + offset + bytes,
                               .sum = {.bytes = bytes, .crc32c = crc32c(std::as_bytes(piece))}});
    }
  }

  /// Of a file with this content; what its copy has.
  std::string copied(const std::string& content) {
    const auto input = storage::DirectFile::create(scratch_ / "input", std::ssize(content));
    storage::write(engine_, input, 0, content);
    const auto output = storage::DirectFile::create(scratch_ / "output", std::ssize(content));
    RangeCopy copy(engine_, {}, [](Index) {});
    copy.begin(input, range_, output);
    copy.finish();
    return read_text(scratch_ / "output").substr(kBegin, kBytes);
  }

  test::ScratchDirectory scratch_;
  storage::Engine engine_;
  std::string tensor_ = "a.weight";
  std::string content_ = std::string(kBegin + kBytes + 77, '\0');
  SummedRange range_;
};

TEST_F(RangeCopyTest, HasTheBytesOfTheRange) {
  EXPECT_TRUE(copied(content_) == content_.substr(kBegin, kBytes));
}

TEST_F(RangeCopyTest, NamesWhatIsDamaged) {
  std::string damaged = content_;
  damaged[static_cast<std::size_t>(kBegin + kPieceBytes + 5)] ^= 1;
  EXPECT_THAT([&] { static_cast<void>(copied(damaged)); },
              test::fails_with({"input", "a.weight", "bytes 4194304 to 8388608", "checksum"}));
}

TEST_F(RangeCopyTest, EndsWithWhatItsTurnThrows) {
  const auto input = storage::DirectFile::create(scratch_ / "input", std::ssize(content_));
  storage::write(engine_, input, 0, content_);
  const auto output = storage::DirectFile::create(scratch_ / "output", std::ssize(content_));
  Index moved = 0;
  RangeCopy copy(engine_, {}, [&](Index bytes) {
    moved += bytes;
    expect(moved < kPieceBytes + 1, "no more");
  });
  EXPECT_THAT([&] { copy.begin(input, range_, output); }, test::fails_with({"no more"}));
}

}  // namespace
}  // namespace dos::checkpoint::range_copy_test
