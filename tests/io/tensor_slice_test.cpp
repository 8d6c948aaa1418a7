// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_slice.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dos::io::tensor_slice_test {
namespace {

TEST(TensorSlice, IsNamedAfterItsRows) {
  const TensorSpec whole{"a.weight", DType::kF32, {10, 3}};
  const TensorSpec part = part_of(whole, 4, 7);
  EXPECT_EQ(part, (TensorSpec{"a.weight[4:7]", DType::kF32, {3, 3}}));
  EXPECT_EQ(part_of(whole, 0, 10), whole);
  EXPECT_EQ(part_of({"b", DType::kBF16, {5}}, 0, 1), (TensorSpec{"b[0:1]", DType::kBF16, {1}}));
  EXPECT_EQ(with_suffix(part, ".moment").name, "a.weight.moment[4:7]");
  EXPECT_EQ(with_suffix(whole, ".moment").name, "a.weight.moment");
}

TEST(TensorSlice, IsReadFromItsName) {
  const auto slice = parse_slice("a.weight[4:7]");
  ASSERT_TRUE(slice);
  EXPECT_EQ(slice->name, "a.weight");
  EXPECT_EQ(slice->first, 4);
  EXPECT_EQ(slice->end, 7);
  EXPECT_EQ(name_of_whole("a.weight[4:7]"), "a.weight");
  EXPECT_EQ(name_of_whole("a.weight"), "a.weight");
}

TEST(TensorSlice, IsNotWhatLooksLikeOne) {
  for (const char* name :
       {"",        "]",        "a",        "a[]",     "a[:]",
        "a[1]",    "a[1:]",    "a[:2]",    "a[2:2]",  "a[3:2]",
        "a[-1:2]", "a[1:2",    "a1:2]",    "a[1:2]b", "a[1 :2]",
        "a[1:+2]", "a[0x1:2]", "a[1:2.0]", ":[1]",    "a[0:99999999999999999999]"})
    EXPECT_FALSE(parse_slice(name)) << name;
}

TEST(TensorSlice, HasRowsOfItsTensor) {
  const TensorSpec whole{"a", DType::kF32, {10, 3}};
  for (const auto& [first, end] : {std::pair{-1, 2}, {2, 2}, {3, 2}, {5, 11}})
    EXPECT_THROW(static_cast<void>(part_of(whole, first, end)), ContractViolation);
  EXPECT_THROW(static_cast<void>(part_of({"scalar", DType::kF32, {}}, 0, 1)), ContractViolation);
}

}  // namespace
}  // namespace dos::io::tensor_slice_test
