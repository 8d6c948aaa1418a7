// SPDX-License-Identifier: Apache-2.0
// Charts of the page, and lines of the terminal.
#include <gmock/gmock.h>

#include <limits>
#include <regex>

#include "watch/chart.hpp"
#include "watch/terminal.hpp"

namespace dos::watch::page_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Point> line(Index count, double first, double slope) {
  std::vector<Point> points;
  for (Index i = 0; i < count; ++i)
    points.emplace_back(i + 1, first + slope * static_cast<double>(i));
  return points;
}

TEST(Chart, FewPointsStayAsTheyAreAndManyBecomeMeans) {
  EXPECT_THAT(thinned({{1, 2}, {2, kNan}, {3, kInfinity}, {4, 1e200}, {5, 7}}),
              ElementsAre(Point(1, 2), Point(5, 7)));
  const std::vector<Point> means = thinned(line(3 * static_cast<Index>(kMostPoints), 0, 1));
  ASSERT_THAT(means, SizeIs(kMostPoints));
  // Of 0, 1, 2; drawn where the last of them is.
  EXPECT_EQ(means.front(), Point(3, 1));
  EXPECT_EQ(means.back().first, 3 * static_cast<Index>(kMostPoints));
}

/// Every coordinate of lines and dots, without those of the legend.
std::vector<std::pair<double, double>> drawn(const std::string& figure) {
  const std::string drawing = figure.substr(figure.find("</figcaption>"));
  const std::regex place(R"~(([-0-9.e+naif]+),([-0-9.e+naif]+) |cx="([^"]+)" cy="([^"]+)")~");
  std::vector<std::pair<double, double>> places;
  for (std::sregex_iterator it(drawing.begin(), drawing.end(), place), end; it != end; ++it)
    places.emplace_back(std::stod((*it)[1].str() + (*it)[3].str()),
                        std::stod((*it)[2].str() + (*it)[4].str()));
  return places;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Chart, WhatIsDrawnIsInsideTheFrame) {
  const auto inside =
      testing::AllOf(testing::Field(&std::pair<double, double>::first,
                                    testing::AllOf(testing::Ge(92), testing::Le(712))),
                     testing::Field(&std::pair<double, double>::second,
                                    testing::AllOf(testing::Ge(18), testing::Le(244))));
  using Line = std::pair<double, double>;  // where it starts, and its slope
  const Line lines[] = {{8, -0.01}, {-3, 0.1},     {0, 0},           {5, 0},      {-5, 0},
                        {1e17, 1},  {1e99, -1e97}, {1e-300, 1e-301}, {0.2, 0.001}};
  for (const Scale scale : {Scale::kValues, Scale::kFromZero, Scale::kShare})
    for (const auto& [first, slope] : lines) {
      const std::string figure =
          chart("t",
                {{.name = "a", .points = line(100, first, slope)},
                 {.name = "b", .points = line(1, first, 0), .is_dots = true}},
                scale, 1, 100);
      EXPECT_THAT(drawn(figure), testing::AllOf(SizeIs(101), Each(inside)))
          << first << " " << slope;
      EXPECT_LE(count(figure, "<line"), 8) << first << " " << slope;
    }
}

TEST(Chart, AFallingLineFalls) {
  const auto places =
      drawn(chart("t", {{.name = "a", .points = line(3, 9, -1)}}, Scale::kValues, 1, 3));
  ASSERT_THAT(places, SizeIs(3));
  EXPECT_LT(places[0].second, places[1].second);
  EXPECT_LT(places[1].second, places[2].second);
}

TEST(Chart, SharesAreOneAtMost) {
  // Parts of a step's time: tasks that ran before it may count to it.
  const auto places =
      drawn(chart("t", {{.name = "a", .points = {{1, 1.5}, {2, 1}, {3, 0}}}}, Scale::kShare, 1, 3));
  ASSERT_THAT(places, SizeIs(3));
  EXPECT_EQ(places[0].second, places[1].second);
  EXPECT_LT(places[1].second, places[2].second);
}

TEST(Chart, NothingToDrawIsNoFigure) {
  EXPECT_EQ(chart("t", {}, Scale::kShare, 1, 9), "");
  EXPECT_EQ(chart("t", {{.name = "a", .points = {{1, kNan}}}}, Scale::kValues, 1, 9), "");
}

TEST(Chart, OneStepIsADot) {
  EXPECT_THAT(chart("t", {{.name = "a", .points = {{7, 2}}}}, Scale::kFromZero, 7, 7),
              HasSubstr("<circle"));
}

TEST(Chart, NamesCannotBeMarkup) {
  const std::string figure =
      chart("<t>", {{.name = "<a>", .points = {{1, 1}, {2, 2}}}, {.name = "b", .points = {{1, 1}}}},
            Scale::kValues, 1, 2);
  EXPECT_THAT(figure, testing::AllOf(HasSubstr("&lt;t&gt;"), HasSubstr("&lt;a&gt;"),
                                     Not(HasSubstr("<a>")), Not(HasSubstr("<t>"))));
}

TEST(Terminal, TextIsBrokenBetweenWords) {
  EXPECT_THAT(wrapped("one two three", 9, "", "  "), ElementsAre("one two", "  three"));
  EXPECT_THAT(wrapped("one two three", 13, "", "  "), ElementsAre("one two three"));
  EXPECT_THAT(wrapped("one", 9, "name  ", "      "), ElementsAre("name  one"));
  EXPECT_THAT(wrapped("", 9, "name  ", "  "), ElementsAre("name  "));
}

TEST(Terminal, AWordThatIsTooLongIsBroken) {
  EXPECT_THAT(wrapped("abcdefghij k", 4, "", " "), ElementsAre("abcd", " efg", " hij", " k"));
}

TEST(Terminal, CharactersCountNotBytes) {
  EXPECT_THAT(wrapped("äöü ß", 5, "", ""), ElementsAre("äöü ß"));
  EXPECT_THAT(wrapped("äöüß", 3, "", ""), ElementsAre("äöü", "ß"));
}

TEST(Terminal, ACurveGoesFromTheHighestToTheLowest) {
  EXPECT_EQ(curve(std::vector<double>{2, 1, 0}, 10, true), "#=_");
  EXPECT_EQ(curve(std::vector<double>{2, kNan, 0}, 10, true), "# _");
  EXPECT_EQ(curve(std::vector<double>{5, 5}, 10, true), "__");
  EXPECT_EQ(curve(std::vector<double>{4, 2, 1, 1}, 2, true), "#_");
  EXPECT_EQ(curve(std::vector<double>{1, 0}, 10, false), "█▁");
  EXPECT_EQ(curve(std::vector<double>{}, 10, true), "");
  EXPECT_EQ(curve(std::vector<double>{kNan}, 10, true), " ");
}

}  // namespace
}  // namespace dos::watch::page_test
