// SPDX-License-Identifier: Apache-2.0
#include "tensor/parameter_set.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "shape/cutter.hpp"

namespace dos::tensor::parameter_set_test {
namespace {

/// A [7, 3] matrix in blocks of 2, 2, 2 and 1 rows, and three vectors in two subgroups.
shape::Layout make_layout() {
  return shape::cut_into_subgroups({{"a.weight", 7, 3, {}, 0},
                                    {"a.bias", 0, 5, {}, 0},
                                    {"b.bias", 0, 3, {}, 0},
                                    {"c.bias", 0, 1, {}, 0}},
                                   8, {});
}

std::vector<float> counting_from(float first, Index count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<float> read(const SubgroupHandles& handles, const shape::PlacedParameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
  handles.read(parameter, values);
  return values;
}

class ParameterSetTest : public ::testing::Test {
 protected:
  rt::Session session_{{.scheduler = "", .cpu_workers = 1}};
  ParameterSet set_{session_, make_layout()};
};

TEST_F(ParameterSetTest, StartsWithZerosAndNamesItsHandles) {
  const shape::Layout& layout = set_.layout();
  ASSERT_EQ(layout.subgroups.size(), 6U);
  for (Index s = 0; s < std::ssize(layout.subgroups); ++s) {
    const shape::Subgroup& subgroup = layout.subgroups[static_cast<std::size_t>(s)];
    EXPECT_EQ(set_.values()[s].name(), "value." + subgroup.name);
    EXPECT_EQ(set_.gradients()[s].name(), "gradient." + subgroup.name);
    EXPECT_EQ(set_.values()[s].count(), subgroup.count);
    EXPECT_EQ(set_.gradients()[s].type(), DType::kF32);
  }
  for (const shape::PlacedParameter& parameter : layout.parameters)
    EXPECT_EQ(read(set_.values(), parameter),
              std::vector<float>(static_cast<std::size_t>(parameter.spec.count())));
}

TEST_F(ParameterSetTest, WhatIsWrittenIsReadAcrossBlocks) {
  float first = 1;
  for (const shape::PlacedParameter& parameter : set_.layout().parameters) {
    set_.values().write(parameter, counting_from(first, parameter.spec.count()));
    first += 100;
  }
  first = 1;
  for (const shape::PlacedParameter& parameter : set_.layout().parameters) {
    EXPECT_EQ(read(set_.values(), parameter), counting_from(first, parameter.spec.count()))
        << parameter.spec.name;
    first += 100;
  }
  // The gradients are other buffers.
  EXPECT_EQ(read(set_.gradients(), set_.layout().find("c.bias")), std::vector<float>{0});
}

TEST_F(ParameterSetTest, BlocksHoldTheRowsInOrder) {
  const shape::PlacedParameter& matrix = set_.layout().find("a.weight");
  set_.values().write(matrix, counting_from(0, 21));
  const rt::HostAccess last(set_.values()[matrix.first_subgroup + 3], rt::Mode::kRead);
  const auto elements = last.as<const float>();
  EXPECT_EQ(std::vector<float>(elements.begin(), elements.end()), counting_from(18, 3));
}

TEST_F(ParameterSetTest, WritingAVectorLeavesItsNeighbours) {
  set_.values().write(set_.layout().find("a.bias"), counting_from(1, 5));
  set_.values().write(set_.layout().find("b.bias"), counting_from(11, 3));
  EXPECT_EQ(set_.layout().find("a.bias").first_subgroup,
            set_.layout().find("b.bias").first_subgroup);
  EXPECT_EQ(read(set_.values(), set_.layout().find("a.bias")), counting_from(1, 5));
  EXPECT_EQ(read(set_.values(), set_.layout().find("b.bias")), counting_from(11, 3));
}

TEST_F(ParameterSetTest, WorkingParametersAreTheValuesInFp32) {
  EXPECT_FALSE(set_.has_working());
  EXPECT_EQ(&set_.working(), &set_.values());
}

TEST_F(ParameterSetTest, NarrowWorkingParametersAndGradientsHaveHandlesOfTheirOwn) {
  const ParameterTypes types{.working = DType::kBF16, .gradient = DType::kBF16};
  const rt::MemoryBytes before = session_.memory().now();
  const ParameterSet set(session_, make_layout(), types);
  const shape::Layout& layout = set.layout();
  for (const MemoryCategory category : kBufferCategories)
    EXPECT_EQ(session_.memory().now()[category] - before[category],
              ParameterSet::bytes(layout, types)[category]);
  EXPECT_TRUE(set.has_working());
  for (Index s = 0; s < std::ssize(layout.subgroups); ++s) {
    EXPECT_EQ(set.values()[s].type(), DType::kF32);
    EXPECT_EQ(set.working()[s].type(), DType::kBF16);
    EXPECT_EQ(set.working()[s].name(),
              "working." + layout.subgroups[static_cast<std::size_t>(s)].name);
    EXPECT_EQ(set.working()[s].count(), set.values()[s].count());
    EXPECT_EQ(set.gradients()[s].type(), DType::kBF16);
  }
  const shape::PlacedParameter& vector = layout.find("c.bias");
  rt::HostAccess(set.working()[vector.first_subgroup], rt::Mode::kReadWrite)
      .as<BF16>()[static_cast<std::size_t>(vector.offset)] = to_bf16(1.5F);
  EXPECT_EQ(read(set.working(), vector), std::vector<float>{1.5F});
  EXPECT_THROW(set.working().write(vector, counting_from(0, 1)), ContractViolation);
}

TEST_F(ParameterSetTest, WhatIsFrozenLastsAsForwardReadsIt) {
  for (const DType working : {DType::kF32, DType::kBF16}) {
    const ParameterTypes types{.working = working};
    shape::Layout layout = make_layout();
    const rt::MemoryBytes trained = ParameterSet::bytes(layout, types);
    const Index frozen = layout.subgroups.front().count;
    layout.subgroups.front().trained = false;
    rt::MemoryBytes expected = trained;
    expected[MemoryCategory::kGradients] -= frozen * size_of(DType::kF32);
    if (working != DType::kF32)
      expected[MemoryCategory::kParameters] -= frozen * size_of(DType::kF32);
    EXPECT_EQ(ParameterSet::bytes(layout, types).total(), expected.total());
    const Index before = session_.memory().now().total();
    const ParameterSet set(session_, layout, types);
    EXPECT_EQ(session_.memory().now().total() - before, expected.total());
    for (Index s = 0; s < std::ssize(layout.subgroups); ++s) {
      EXPECT_EQ(set.values().has(s), s != 0 || working == DType::kF32);
      EXPECT_EQ(&set.lasting(s), set.values().has(s) ? &set.values()[s] : &set.working()[s]);
      EXPECT_EQ(set.lasting(s).type(), set.lasting_type(s != 0));
    }
  }
}

TEST_F(ParameterSetTest, AnotherSizeIsADefect) {
  const shape::PlacedParameter& vector = set_.layout().find("a.bias");
  std::vector<float> values(4);
  EXPECT_THROW(set_.values().read(vector, values), ContractViolation);
  EXPECT_THROW(set_.values().write(vector, values), ContractViolation);
}

}  // namespace
}  // namespace dos::tensor::parameter_set_test
