// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_listing.hpp"

#include <gmock/gmock.h>

#include "fails_with.hpp"

namespace dos::checkpoint::tensor_listing_test {
namespace {

io::CheckpointManifest manifest_of(const std::vector<std::string>& names) {
  io::CheckpointManifest manifest;
  for (const std::string& name : names) {
    io::TensorRecord record;
    record.name = name;
    manifest.files.push_back({.name = name + ".safetensors", .tensors = {record}});
  }
  return manifest;
}

TEST(TensorListing, JoinsSlicesByRows) {
  const io::CheckpointManifest manifest =
      manifest_of({"a[4:10]", "b", "a[0:1]", "a[1:4]", "a.moment[0:10]"});
  const TensorListing listing = list_tensors(manifest);
  ASSERT_EQ(listing.size(), 3U);
  EXPECT_TRUE(listing.at("b").front().is_whole());
  const std::vector<ListedTensor>& slices = listing.at("a");
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0].file->name, "a[0:1].safetensors");
  EXPECT_EQ(slices[2].first, 4);
  EXPECT_EQ(slices[2].end, 10);
  EXPECT_NO_THROW(expect_whole("m", {"a", DType::kF32, {10, 3}}, slices));
}

TEST(TensorListing, SlicesHaveEachRowOnce) {
  const io::TensorSpec wanted{"a", DType::kF32, {10, 3}};
  const auto check = [&](const std::vector<std::string>& names) {
    const io::CheckpointManifest manifest = manifest_of(names);
    expect_whole("m", wanted, list_tensors(manifest).at("a"));
  };
  EXPECT_THAT(
      [&] {
        check({"a[0:4]", "a[5:10]"});
      },
      test::fails_with({"m: tensor 'a': row 4 is not listed once"}));
  EXPECT_THAT([&] { check({"a[0:4]", "a[3:10]"}); }, test::fails_with({"row 4"}));
  EXPECT_THAT([&] { check({"a[0:4]", "a[0:4]", "a[4:10]"}); }, test::fails_with({"row 4"}));
  EXPECT_THAT([&] { check({"a[1:10]"}); }, test::fails_with({"row 0"}));
  EXPECT_THAT([&] { check({"a[0:4]"}); }, test::fails_with({"4 rows in slices", "needs 10"}));
  EXPECT_THAT([&] { check({"a[0:4]", "a[4:11]"}); }, test::fails_with({"11 rows"}));
}

}  // namespace
}  // namespace dos::checkpoint::tensor_listing_test
