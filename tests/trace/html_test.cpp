// SPDX-License-Identifier: Apache-2.0
#include "trace/report/html.hpp"

#include <gmock/gmock.h>

#include "sample_trace.hpp"
#include "trace/report/svg.hpp"

namespace dos::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Trace sample(const std::string& model) {
  Trace trace;
  trace.ranks = {test::sample_manifest()};
  trace.ranks[0].model = model;
  trace.tasks = {test::sample_task("forward", 1, 1, 0, 1000),
                 test::sample_task("update", 1, 0, 1000, 2000)};
  trace.transfers = {test::sample_transfer("m", 0, 1, 1000, 900, 990)};
  trace.memory = {{0, 1, "gradients", 100, 0, 0}, {0, 0, "gradients", 100, 0, 0}};
  trace.placements = {{"update", 1, 10, 900, 1, 0, 0}};
  return trace;
}

TEST(Html, NeedsNothingElse) {
  const Trace trace = sample("gpt2");
  const std::string page = to_html(trace, analyse(trace));
  for (const char* part : {"The largest losses", "One iteration", "Memory", "Links",
                           "Placement of the updates", "</html>", "<svg"})
    EXPECT_THAT(page, HasSubstr(part));
  for (const char* part : {"<script", "http:", "https:", "@import", "url(", "src="})
    EXPECT_THAT(page, Not(HasSubstr(part)));
}

TEST(Html, NamesCannotBeMarkup) {
  const Trace trace = sample("<b>&\"");
  const std::string page = to_html(trace, analyse(trace));
  EXPECT_THAT(page, Not(HasSubstr("<b>&\"")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&amp;&quot;"));
}

TEST(Html, AnEmptyTraceButForOneTaskHasAPage) {
  Trace trace;
  trace.ranks = {test::sample_manifest()};
  trace.tasks = {test::sample_task("forward", 1, 1, 5, 5)};
  EXPECT_THAT(to_html(trace, analyse(trace)), Not(HasSubstr("nan")));
}

TEST(Html, TwoRunsSideBySide) {
  const Trace a = sample("gpt2");
  const std::string page = compare_html("A", a, analyse(a), "B", a, analyse(a));
  EXPECT_THAT(page, HasSubstr("<th>A</th><th>B</th>"));
  EXPECT_THAT(page, HasSubstr("median step"));
}

TEST(Svg, Ticks) {
  EXPECT_THAT(ticks(0, 4), ElementsAre(0));
  EXPECT_THAT(ticks(10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(ticks(0.9, 2), ElementsAre(0, 0.5));
}

}  // namespace
}  // namespace dos::trace
