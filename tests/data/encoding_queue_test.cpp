// SPDX-License-Identifier: Apache-2.0
#include "data/encoding_queue.hpp"

#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::encoding_queue_test {
namespace {

using Tokens = std::vector<std::int32_t>;

class EncodingQueueTest : public testing::Test {
 protected:
  [[nodiscard]] Tokens written() {
    writer_.commit();
    return test::tokens_of(TokenFile(scratch_ / "x.bin"));
  }
  test::ScratchDirectory scratch_;
  TokenWriter writer_{scratch_ / "x.bin", 1000};
};

TEST_F(EncodingQueueTest, WritesInOrder) {
  EncodingQueue queue(5);
  Tokens expected;
  std::vector<Index> sizes;
  for (std::int32_t i = 0; i < 500; ++i) {
    queue.add(1 << 20, writer_, [i](std::size_t, Tokens& tokens) {
      tokens.assign(static_cast<std::size_t>(i % 3), i);
      return std::size_t{0};
    });
    expected.insert(expected.end(), static_cast<std::size_t>(i % 3), i);
    if (i % 100 == 99) queue.then([&] { sizes.push_back(writer_.size()); });
  }
  queue.finish();
  queue.finish();
  EXPECT_EQ(sizes, (std::vector<Index>{99, 199, 300, 399, 499}));
  EXPECT_EQ(written(), expected);
}

TEST_F(EncodingQueueTest, PassesOnWhatATextTookOfTheNext) {
  // Text i passes i % 2 bytes on; across the starts of threads, too.
  EncodingQueue queue(2);
  Tokens expected;
  std::size_t passed = 0;
  for (std::int32_t i = 0; i < 100; ++i) {
    queue.add(1 << 20, writer_, [i](std::size_t taken, Tokens& tokens) {
      tokens.push_back(2 * i + static_cast<std::int32_t>(taken));
      return static_cast<std::size_t>(i % 3 == 1);
    });
    expected.push_back(2 * i + static_cast<std::int32_t>(passed));
    passed = i % 3 == 1;
  }
  queue.finish();
  EXPECT_EQ(written(), expected);
}

TEST_F(EncodingQueueTest, TheFirstTextsErrorIsThrown) {
  EncodingQueue queue(4);
  for (int i = 0; i < 50; ++i)
    queue.add(1, writer_, [i](std::size_t, Tokens&) -> std::size_t {
      if (i >= 7) fail("text {} is bad", i);
      return 0;
    });
  EXPECT_THAT([&] { queue.finish(); }, test::fails_with({"text 7 is bad"}));
}

}  // namespace
}  // namespace dos::data::encoding_queue_test
