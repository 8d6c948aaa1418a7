// SPDX-License-Identifier: Apache-2.0
#include "trace/report/html.hpp"

#include <gmock/gmock.h>

#include "sample_trace.hpp"
#include "trace/report/charts.hpp"
#include "trace/report/svg.hpp"
#include "trace/report/terms.hpp"

namespace dos::trace::html_test {
namespace {

using testing::AllOf;
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
  for (const char* part : {"The largest losses", "One iteration", "All recorded steps", "Links",
                           "Placement of the updates", "</html>", "<svg"})
    EXPECT_THAT(page, HasSubstr(part));
  for (const char* part : {"<script", "http:", "https:", "@import", "src="})
    EXPECT_THAT(page, Not(HasSubstr(part)));
  // Textures of the page itself.
  for (auto at = page.find("url("); at != std::string::npos; at = page.find("url(", at + 1))
    EXPECT_EQ(page[at + 4], '#') << page.substr(at, 20);
}

TEST(Html, AFirstStepThatTheOthersWouldVanishBesideIsLeftOut) {
  Trace trace = sample("gpt2");
  for (Index step = 2; step <= 6; ++step) {
    const auto at = 1000.0 * static_cast<double>(step);
    trace.tasks.push_back(test::sample_task("forward", step, 0, at, at + 900));
  }
  EXPECT_EQ(long_first_step(analyse(trace)), nullptr);
  EXPECT_THAT(to_html(trace, analyse(trace)), Not(HasSubstr("is left out")));
  trace.tasks[0].start = trace.tasks[0].data_start = -18'000;
  const Analysis analysis = analyse(trace);
  ASSERT_NE(long_first_step(analysis), nullptr);
  EXPECT_EQ(long_first_step(analysis)->step, 1);
  const std::string page = to_html(trace, analysis);
  EXPECT_THAT(page, HasSubstr("Step 1, which took 20 ms, is left out"));
  EXPECT_THAT(run_chart(analysis), AllOf(HasSubstr("steps 2 to 6"), Not(HasSubstr("step 1:"))));
}

/// A run of two CPU workers, nothing else.
Trace without_devices() {
  Trace trace;
  trace.ranks = {test::sample_manifest()};
  trace.ranks[0].machine.workers = {{0, "CPU 0", "cpu", 0}, {1, "CPU 1", "cpu", 0}};
  trace.ranks[0].machine.nodes = {{0, "NUMA 0", Index{1} << 30}};
  trace.ranks[0].machine.links.clear();
  for (Index step = 1; step <= 3; ++step) {
    const auto at = 1000.0 * static_cast<double>(step);
    Task late = test::sample_task("update", step, 1, at + 500, at + 900);
    late.taken = late.ready = late.data_start = at + 100;
    late.data_end = at + 480;
    trace.tasks.push_back(test::sample_task("forward", step, 0, at, at + 600));
    trace.tasks.push_back(late);
    trace.memory.push_back({at, 0, "gradients", 75'700'000, step, 0});
  }
  return trace;
}

TEST(Html, WithoutDevicesNothingIsSaidOfThem) {
  const Trace trace = without_devices();
  const Analysis analysis = analyse(trace);
  ASSERT_FALSE(analysis.losses.empty());
  const std::string page = to_html(trace, analysis);
  for (const char* word : {"device", "over links", "waiting for data", "sched.share", "GPU"})
    EXPECT_THAT(page.substr(page.find("<body>")), Not(HasSubstr(std::string(word) + " ")));
  for (const Loss& loss : analysis.losses) {
    EXPECT_THAT(loss.what + loss.remedy, Not(HasSubstr("device")));
    EXPECT_THAT(loss.what, Not(HasSubstr("waited for data")));
  }
}

int count(const std::string& page, const std::string& what) {
  int found = 0;
  for (auto at = page.find(what); at != std::string::npos; at = page.find(what, at + 1)) ++found;
  return found;
}

TEST(Html, CheckpointsHaveRowsAndASection) {
  Trace trace = without_devices();
  EXPECT_THAT(to_html(trace, analyse(trace)),
              Not(testing::AnyOf(HasSubstr("Checkpoints and disks"), HasSubstr("updates waiting"),
                                 HasSubstr("held for checkpoints"))));
  trace.storage = {test::sample_storage("hold", 4'000'000, 2100, 2400),
                   test::sample_storage("copy", 1'000'000, 2150, 2200),
                   test::sample_storage("write", 4'000'000, 2100, 2300),
                   test::sample_storage("flush", 0, 2400, 2450),
                   test::sample_storage("wait", 0, 2380, 2400)};
  trace.storage[2].buffer = "<a>";
  const std::string page = to_html(trace, analyse(trace));
  for (const char* part :
       {"Checkpoints and disks", ">updates waiting<", ">copies<", ">write /disk<",
        ">held for checkpoints<", "write &lt;a&gt;, checkpoint of step 1, 4 MB, 200 us, 20 GB/s",
        "<td>3.81 MiB</td>", "<td>20 us (step 1)</td>", "flushing 50 us"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_EQ(count(page, ">step 2 starts<"), 1) << "the step is drawn once: it has the checkpoint";
  for (Storage& row : trace.storage) {
    row.start += 1000;
    row.end += 1000;
  }
  EXPECT_EQ(count(to_html(trace, analyse(trace)), ">step 3 starts<"), 1) << "beside step 2";
  trace.storage.push_back(test::sample_storage("write", 9'000'000, 2100, 2300));
  trace.storage.back().purpose = "states";
  EXPECT_EQ(count(to_html(trace, analyse(trace)), ">step 3 starts<"), 1)
      << "what every step writes is no checkpoint";
}

TEST(Html, AUseOfTimeHasOneNameAndOneSquareEverywhereAndADefinition) {
  for (const Trace& trace : {sample("gpt2"), without_devices()}) {
    const Analysis analysis = analyse(trace);
    const std::string page = to_html(trace, analysis);
    int losses = 0;
    for (const Loss& loss : analysis.losses) {
      if (!loss.use) continue;
      EXPECT_THAT(page, HasSubstr("</span> " + key_of(*loss.use) + name_of(*loss.use) + " — "));
      ++losses;
    }
    EXPECT_GT(losses, 0);
    for (const Use use : kUses) {
      if (use == Use::kComputing) continue;
      EXPECT_EQ(count(page, "<dt>" + key_of(use) + name_of(use) + "</dt><dd>" + meaning_of(use)),
                analysis.idle_share(use) > 0 ? 1 : 0)
          << name_of(use);
    }
  }
}

TEST(Html, RowsThatDoNotSpeakForThemselvesAreDefinedWhereTheyAppear) {
  Trace trace = without_devices();
  const auto defined = [&](const std::string& row) {
    return count(to_html(trace, analyse(trace)), row + "</dt><dd>") == 1;
  };
  EXPECT_TRUE(defined("submitting thread"));
  for (const char* row : {"updates waiting", "copies", "held for checkpoints", "read, write",
                          "flush", "MPI", "wait", "reduce"})
    EXPECT_FALSE(defined(row)) << row;
  trace.tasks.push_back(test::sample_task("reduce", 2, 0, 2700, 2750));
  trace.storage = {test::sample_storage("hold", 4'000'000, 2100, 2400),
                   test::sample_storage("write", 4'000'000, 2100, 2300),
                   test::sample_storage("flush", 0, 2400, 2450)};
  for (const char* row :
       {"updates waiting", "copies", "held for checkpoints", "read, write", "flush", "reduce"})
    EXPECT_TRUE(defined(row)) << row;
}

TEST(Html, WhatIsHiddenHasOneWord) {
  Trace trace = sample("gpt2");
  trace.storage = {test::sample_storage("write", 4'000'000, 100, 300)};
  const std::string page = to_html(trace, analyse(trace));
  EXPECT_EQ(count(page, " of that hidden"), static_cast<int>(analyse(trace).links.size()) + 1);
  EXPECT_THAT(page, Not(HasSubstr("beside computation")));
}

TEST(Html, WhatIsHeldNoLongerIsNotDrawnAnyMore) {
  Trace trace = without_devices();
  // Thousands of changes: more than the drawing has columns.
  for (int i = 0; i < 4000; ++i)
    trace.storage.push_back(test::sample_storage("hold", 1000, 2100, 2200 + 0.01 * i));
  const Analysis analysis = analyse(trace);
  const TimeAxis axis{.shown = {2000, 3000}, .zero = 2000};
  const std::string drawn = held_row(analysis.held.at(0), axis);
  // At the end of the axis the area has no height: its upper edge is at the bottom.
  EXPECT_THAT(drawn, HasSubstr(" 1000.00,112.0 1000.00,112.0 "));
}

TEST(Html, MemoryThatNeverChangesIsNoRange) {
  const Trace trace = without_devices();
  const std::string page = to_html(trace, analyse(trace));
  EXPECT_THAT(page, HasSubstr(": 72.2 MiB of 1.00 GiB"));
  EXPECT_THAT(page, Not(HasSubstr("72.2 MiB to 72.2 MiB")));
}

TEST(Html, AStepIsMarkedThroughEveryRow) {
  const Trace trace = without_devices();
  const std::string page = to_html(trace, analyse(trace));
  EXPECT_THAT(page, HasSubstr(">step 2 starts<"));
  EXPECT_THAT(page, HasSubstr(">step 2 ends<"));
  // Names, two workers, the submitting thread and memory: 5 rows, 2 marks each.
  EXPECT_EQ(count(page, "class=\"mark\"/>"), 10);
  EXPECT_EQ(count(page, "<text"), 0) << "text in a drawing would shrink with it";
}

TEST(Html, NoTextIsTooSmallToRead) {
  const Trace trace = sample("gpt2");
  const std::string page = to_html(trace, analyse(trace));
  int sizes = 0;
  for (const std::string property : {"font-size:", "font:"})
    for (auto at = page.find(property); at != std::string::npos; at = page.find(property, at + 1)) {
      EXPECT_GE(std::stod(page.substr(at + property.size())), 11) << page.substr(at, 20);
      ++sizes;
    }
  EXPECT_GT(sizes, 5);
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
}  // namespace dos::trace::html_test
