// SPDX-License-Identifier: Apache-2.0
#include "trace/csv.hpp"

#include <gmock/gmock.h>

#include "message_of.hpp"
#include "trace/rows.hpp"

namespace dos::trace::csv_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(const std::string& text, bool may_be_cut = false) {
  return test::message_of<Error>([&] { parse_csv<Span>(text, "spans.csv", may_be_cut); });
}

TEST(Csv, RowsComeBackAsTheyWere) {
  std::string text = csv_header<Span>();
  EXPECT_EQ(text, "name,step,start_us,end_us\n");
  const std::string names[] = {"",           "plain",      "comma, inside",
                               "\"quoted\"", "both, \"\"", "blocks.0[0:7]"};
  for (const std::string& name : names) append_row(text, Span{name, -3, 0.125, 1e12, 0});
  const std::vector<Span> rows = parse_csv<Span>(text, "spans.csv", false);
  ASSERT_EQ(rows.size(), std::size(names));
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].name, names[i]);
  EXPECT_EQ(rows[0].step, -3);
  EXPECT_EQ(rows[0].start, 0.125);
  EXPECT_EQ(rows[0].end, 1e12);
}

TEST(Csv, ALineBreakInANameBreaksNoRow) {
  std::string text = csv_header<Span>();
  append_row(text, Span{"two\nlines", 1, 0, 0, 0});
  EXPECT_EQ(parse_csv<Span>(text, "spans.csv", false).at(0).name, "two lines");
}

TEST(Csv, NoRowsAreAFile) {
  EXPECT_THAT(parse_csv<Span>(csv_header<Span>(), "spans.csv", false), IsEmpty());
}

TEST(Csv, DamageIsNamedWithItsLine) {
  const std::string header = csv_header<Span>();
  EXPECT_THAT(error_of(""), HasSubstr("spans.csv: the first line is not"));
  EXPECT_THAT(error_of("other,header\n"), HasSubstr("spans.csv: the first line is not"));
  EXPECT_THAT(error_of(header + "wait,1,2,3\nwait,1,2\n"),
              HasSubstr("spans.csv:3: no field 'end_us'"));
  EXPECT_THAT(error_of(header + "wait,1,2,3,4\n"), HasSubstr("spans.csv:2: 5 fields instead of 4"));
  EXPECT_THAT(error_of(header + "wait,one,2,3\n"), HasSubstr("spans.csv:2: 'one' is not a number"));
  EXPECT_THAT(error_of(header + "wait,1,2,\n"), HasSubstr("'' is not a number"));
  EXPECT_THAT(error_of(header + "\"wait,1,2,3\n"), HasSubstr("a quote is not closed"));
  EXPECT_THAT(error_of(header + "wait,1,2,3\nwai"), HasSubstr("spans.csv:3: the line is cut off"));
}

TEST(Csv, AnUnfinishedLastLineMayBeLeftOut) {
  const std::string text = csv_header<Span>() + "wait,1,2,3\nwai";
  EXPECT_EQ(parse_csv<Span>(text, "spans.csv", true).size(), 1U);
}

}  // namespace
}  // namespace dos::trace::csv_test
