// SPDX-License-Identifier: Apache-2.0
#include "shape/layout.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"

namespace dos::shape::layout_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::vector<std::vector<Index>> triples(const PlacedParameter& parameter) {
  std::vector<std::vector<Index>> result;
  for (const Piece& piece : pieces_of(parameter))
    result.push_back({piece.subgroup, piece.offset, piece.count});
  return result;
}

/// A [5, 3] matrix in two blocks and two vectors in a third subgroup.
Layout make_layout() {
  Layout layout;
  layout.parameters = {
      {{"up.weight", 5, 3, {}, 0}, 0, 0, {5, 3, 3}},
      {{"up.bias", 0, 5, {}, 0}, 2, 0, {}},
      {{"norm.weight", 0, 3, {}, 0}, 2, 5, {}},
  };
  layout.subgroups = {{"up.weight[0:3]", 9, 0, true},
                      {"up.weight[3:5]", 6, 0, true},
                      {"depth0.vectors0", 8, 0, false}};
  return layout;
}

TEST(ParameterSpec, MatricesAndVectors) {
  const ParameterSpec matrix{"m", 4, 3, {}, 0};
  EXPECT_TRUE(matrix.is_matrix());
  EXPECT_EQ(matrix.count(), 12);
  EXPECT_THAT(matrix.shape(), ElementsAre(4, 3));
  const ParameterSpec row{"r", 1, 3, {}, 0};
  EXPECT_TRUE(row.is_matrix());
  EXPECT_THAT(row.shape(), ElementsAre(1, 3));
  const ParameterSpec vector{"v", 0, 3, {}, 0};
  EXPECT_FALSE(vector.is_matrix());
  EXPECT_EQ(vector.count(), 3);
  EXPECT_THAT(vector.shape(), ElementsAre(3));
}

TEST(Layout, CountsItsParameters) {
  EXPECT_EQ(make_layout().parameter_count(), 5 * 3 + 5 + 3);
  EXPECT_EQ(Layout{}.parameter_count(), 0);
}

TEST(Layout, FindsByName) {
  const Layout layout = make_layout();
  EXPECT_EQ(&layout.find("norm.weight"), &layout.parameters[2]);
}

TEST(Layout, AnUnknownNameSuggestsTheNearest) {
  const Layout layout = make_layout();
  EXPECT_THAT([&] { static_cast<void>(layout.find("up.weigth")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no parameter 'up.weigth'"),
                                         HasSubstr("did you mean 'up.weight'?"))));
  EXPECT_THAT([&] { static_cast<void>(layout.find("completely different")); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("'completely different'"), Not(HasSubstr("did you mean")))));
  EXPECT_THAT([] { static_cast<void>(Layout{}.find("")); },
              ThrowsMessage<Error>(HasSubstr("no parameter ''")));
}

TEST(Layout, SaysWhatIsInASubgroup) {
  const Layout layout = make_layout();
  EXPECT_EQ(layout.members_of(0), "up.weight");
  EXPECT_EQ(layout.members_of(1), "up.weight");
  EXPECT_EQ(layout.members_of(2), "up.bias, norm.weight");
  EXPECT_EQ(layout.members_of(3), "");
}

TEST(PiecesOf, AMatrixHasOneARowBlock) {
  const PlacedParameter two{{"m", 5, 3, {}, 0}, 4, 0, {5, 3, 3}};
  EXPECT_THAT(triples(two), ElementsAre(ElementsAre(4, 0, 9), ElementsAre(5, 0, 6)));
  const PlacedParameter whole{{"m", 5, 3, {}, 0}, 4, 0, {5, 3, 5}};
  EXPECT_THAT(triples(whole), ElementsAre(ElementsAre(4, 0, 15)));
  const PlacedParameter rows{{"m", 3, 1, {}, 0}, 0, 0, {3, 1, 1}};
  EXPECT_THAT(triples(rows),
              ElementsAre(ElementsAre(0, 0, 1), ElementsAre(1, 0, 1), ElementsAre(2, 0, 1)));
}

TEST(PiecesOf, AVectorIsOneInsideItsSubgroup) {
  const PlacedParameter vector{{"v", 0, 7, {}, 0}, 3, 11, {}};
  EXPECT_THAT(triples(vector), ElementsAre(ElementsAre(3, 11, 7)));
}

}  // namespace
}  // namespace dos::shape::layout_test
