// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"
#include "train/metrics_history.hpp"

namespace dos::train::metrics_test {
namespace {

using test::fails_with;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Metrics, ALineHasTheFieldsInOrder) {
  StepMetrics metrics{.step = 12,
                      .loss = 5.4321098765,
                      .lr = 6e-4,
                      .grad_norm = 1.0 / 3,
                      .tokens = 4096,
                      .tokens_per_s = 12345.678,
                      .ms_step = 3.25,
                      .ms_forward = 1,
                      .ms_backward = 2,
                      .ms_update = 0.125,
                      .flush = {}};
  EXPECT_EQ(to_json_line(metrics),
            R"({"step":12,"loss":5.43210988,"lr":0.0006,"grad_norm":0.333333333,"tokens":4096,)"
            R"("tokens_per_s":12345.7,"ms_step":3.25,"ms_forward":1,"ms_backward":2,)"
            R"("ms_update":0.125})");
  metrics.flush = {.megabytes = 1234.5, .ms_waited = 0.5};
  EXPECT_THAT(to_json_line(metrics),
              testing::EndsWith(R"("ms_update":0.125,"mb_flushed":1234.5,"ms_flush_waited":0.5})"));
  metrics.targets = 17;
  EXPECT_THAT(to_json_line(metrics), testing::HasSubstr(R"("ms_update":0.125,"targets":17,"mb)"));
  metrics.devices = {{.name = "cpu", .busy = 0.98765}};
  EXPECT_THAT(to_json_line(metrics), testing::EndsWith(R"(,"busy_cpu":0.988})"));
  metrics.devices = {{.name = "cpu", .busy = 0.5, .updated = 0.25},
                     {.name = "cuda0", .busy = 1, .updated = 0.75}};
  EXPECT_THAT(to_json_line(metrics),
              testing::EndsWith(
                  R"(,"busy_cpu":0.5,"updated_cpu":0.25,"busy_cuda0":1,"updated_cuda0":0.75})"));
}

// 9 significant digits tell every FP32 value from its neighbours.
TEST(Metrics, LossesHaveNineSignificantDigits) {
  for (const float value : {1.0F / 3, 10.8249054F, 1e-20F, 3.4e38F, 0.0F}) {
    const auto line = nlohmann::json::parse(to_json_line({.step = 1, .loss = value}));
    EXPECT_EQ(static_cast<float>(line["loss"].get<double>()), value);
  }
  EXPECT_EQ(validation_json_line(100, 2.0 / 3), R"({"step":100,"val_loss":0.666666667})");
}

TEST(Metrics, WhatIsNotFiniteIsNull) {
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    const auto line =
        nlohmann::json::parse(to_json_line({.step = 3, .loss = value, .grad_norm = value}));
    EXPECT_TRUE(line["loss"].is_null());
    EXPECT_TRUE(line["grad_norm"].is_null());
    EXPECT_EQ(validation_json_line(3, value), R"({"step":3,"val_loss":null})");
  }
}

class MetricsFileTest : public testing::Test {
 protected:
  /// The file after `before` was opened for a run from `last_step` on, without a new line.
  std::string reopened(const std::string& before, Index last_step) {
    write_durably(path_, before);
    const MetricsFile file(path_, last_step);
    return read_text(path_);
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "metrics.jsonl";
};

TEST_F(MetricsFileTest, ALineIsInTheFileWhenWriteReturns) {
  MetricsFile file(path_, 0);
  EXPECT_EQ(read_text(path_), "");
  file.write("{\"step\":1}");
  EXPECT_EQ(read_text(path_), "{\"step\":1}\n");
  file.write("{\"step\":2}");
  EXPECT_EQ(read_text(path_), "{\"step\":1}\n{\"step\":2}\n");
}

/// Files of this process end after so many bytes, as on a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    // The error is what is looked for.
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    set(bytes);
  }
  ~SmallFiles() {
    set(RLIM_INFINITY);
    std::signal(SIGXFSZ, before_);
  }
  void set(rlim_t bytes) {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }

 private:
  void (*before_)(int);
};

TEST_F(MetricsFileTest, LinesWaitForRoom) {
  MetricsFile file(path_, 0);
  SmallFiles small(15);
  file.write("{\"step\":1}");
  file.write("{\"step\":2}");
  EXPECT_EQ(read_text(path_), "{\"step\":1}\n{\"st");
  file.write("{\"step\":3}");
  EXPECT_THAT([&] { file.finish(); }, fails_with({"metrics.jsonl: cannot write its last 2 lines"}));
  small.set(RLIM_INFINITY);
  file.write("{\"step\":4}");
  EXPECT_EQ(read_text(path_), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
  file.finish();
}

TEST_F(MetricsFileTest, LinesAfterTheResumedStepGoElsewhere) {
  const std::string lines =
      "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"val_loss\":1}\n{\"step\":3}\n";
  EXPECT_EQ(reopened(lines, 0), "");
  EXPECT_EQ(reopened(lines, 1), "{\"step\":1}\n");
  EXPECT_EQ(reopened(lines, 2), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"val_loss\":1}\n");
  EXPECT_EQ(reopened(lines, 3), lines);
  EXPECT_EQ(reopened(lines, 100), lines);
}

TEST_F(MetricsFileTest, TornAndForeignLinesGoElsewhere) {
  EXPECT_EQ(reopened("{\"step\":1}\n{\"step\":2,\"lo", 9), "{\"step\":1}\n");
  EXPECT_EQ(reopened("{\"step\":1}\n{\"step\":2}", 9), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(reopened("{", 9), "");
  EXPECT_EQ(reopened("\n[1]\n3\n{\"loss\":1}\n{\"step\":\"x\"}\n{\"step\":1.5}\n{\"step\":4}\n", 9),
            "{\"step\":4}\n");
}

TEST_F(MetricsFileTest, NoLineIsLost) {
  const auto lines = [](const std::string& name, Index first, Index last) {
    std::string text;
    for (Index step = first; step <= last; ++step)
      text += fmt::format("{{\"step\":{},\"of\":\"{}\"}}\n", step, name);
    return text;
  };
  const auto branch = [&](int number) {
    const auto path = scratch_ / fmt::format("metrics.branch-{}.jsonl", number);
    return std::filesystem::exists(path) ? read_text(path) : "";
  };
  EXPECT_EQ(reopened(lines("a", 1, 10), 6), lines("a", 1, 6));
  EXPECT_EQ(branch(1), lines("a", 7, 10));
  // Another branch, which is left in turn for one that goes further than the first.
  const std::string second = lines("a", 1, 6) + lines("b", 7, 8);
  EXPECT_EQ(reopened(second, 7), lines("a", 1, 6) + lines("b", 7, 7));
  EXPECT_EQ(branch(2), lines("b", 8, 8));
  // Back to step 9, which only the first has.
  EXPECT_EQ(reopened(lines("a", 1, 6) + lines("b", 7, 7), 9), lines("a", 1, 9));
  EXPECT_EQ(branch(1), lines("a", 10, 10));
  EXPECT_EQ(branch(2), lines("b", 8, 8));
  EXPECT_EQ(branch(3), lines("b", 7, 7));
  // A step that no branch has after such a gap.
  EXPECT_EQ(reopened(lines("a", 1, 3), 9), lines("a", 1, 3));
}

TEST_F(MetricsFileTest, LinesNameTheirRun) {
  const nlohmann::json runs = with_new_run(nullptr, 0);
  MetricsFile(path_, 0, runs).write("{\"step\":1}");
  EXPECT_EQ(read_text(path_),
            fmt::format("{{\"step\":1,\"run\":{}}}\n", runs.at(0).at("run").get<Index>()));
}

TEST_F(MetricsFileTest, RunsAreThoseBeforeAndOneMore) {
  const nlohmann::json first = with_new_run(nullptr, 0);
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(first.at(0).at("after"), 0);
  EXPECT_GT(first.at(0).at("run"), 0);
  const nlohmann::json second = with_new_run(first, 6);
  EXPECT_EQ(second.size(), 2);
  EXPECT_EQ(second.at(0), first.at(0));
  EXPECT_EQ(second.at(1).at("after"), 6);
  // Steps before, of which nobody knows.
  EXPECT_EQ(with_new_run(nullptr, 6).at(0), nlohmann::json({{"after", 0}, {"run", kUnknownRun}}));
  EXPECT_EQ(with_new_run("damaged", 0).size(), 1);
}

TEST_F(MetricsFileTest, TheHistoryIsThatOfTheState) {
  const auto lines = [](Index run, Index first, Index last) {
    std::string text;
    for (Index step = first; step <= last; ++step)
      text += fmt::format("{{\"step\":{},\"run\":{}}}\n", step, run);
    return text;
  };
  const auto runs = [](std::initializer_list<std::pair<Index, Index>> all) {
    nlohmann::json result = nlohmann::json::array();
    for (const auto& [after, run] : all)
      result.push_back(
          {{"after", static_cast<std::uint64_t>(after)}, {"run", static_cast<std::uint64_t>(run)}});
    return result;
  };
  const auto after = [&](const std::string& text, Index step, const nlohmann::json& history) {
    write_durably(path_, text);
    keep_metrics_until(path_, step, history);
    return read_text(path_);
  };
  // Run 1 to step 10; run 2 from 6 to 8; run 3 from 4 to 6. Then back to step 10 of run 1.
  EXPECT_EQ(after(lines(1, 1, 10), 6, runs({{0, 1}})), lines(1, 1, 6));
  EXPECT_EQ(after(lines(1, 1, 6) + lines(2, 7, 8), 4, runs({{0, 1}})), lines(1, 1, 4));
  EXPECT_EQ(after(lines(1, 1, 4) + lines(3, 5, 6), 10, runs({{0, 1}})), lines(1, 1, 10));
  // To step 8 of run 2, whose lines lie in two files.
  EXPECT_EQ(after(lines(1, 1, 10), 8, runs({{0, 1}, {6, 2}})), lines(1, 1, 6) + lines(2, 7, 8));
  // To step 6 of run 3: the file has one of another run.
  EXPECT_EQ(after(lines(1, 1, 6) + lines(2, 7, 8), 6, runs({{0, 1}, {4, 3}})),
            lines(1, 1, 4) + lines(3, 5, 6));
  // A run that did no step counts for nothing, and what nobody has is left out.
  EXPECT_EQ(after(lines(1, 1, 4), 5, runs({{0, 1}, {4, 8}, {4, 9}})), lines(1, 1, 4));
  EXPECT_THAT(
      [&] {
        after(lines(1, 1, 4), 5, {{{"after", "x"}}});
      },
      fails_with({"the runs that a checkpoint comes of"}));
}

TEST_F(MetricsFileTest, ALineOfAnotherStepTakesNoneWithIt) {
  EXPECT_EQ(reopened("{\"step\":1}\n{\"step\":92}\n{\"step\":3}\n{\"step\":4}\n", 3),
            "{\"step\":1}\n{\"step\":3}\n");
  EXPECT_EQ(read_text(scratch_ / "metrics.branch-1.jsonl"), "{\"step\":92}\n{\"step\":4}\n");
}

TEST_F(MetricsFileTest, DamagedLinesAreKept) {
  EXPECT_EQ(reopened("{\"step\":1}\nx\n{\"step\":2}\n{\"st", 9), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(reopened("y\n", 9), "");
  EXPECT_EQ(read_text(scratch_ / "metrics.damaged.jsonl"), "x\n{\"st\ny\n");
}

TEST_F(MetricsFileTest, WritesThroughNoLink) {
  write_durably(scratch_ / "target", "precious");
  std::filesystem::create_symlink("target", path_);
  std::filesystem::remove(scratch_ / "target");
  EXPECT_THAT([&] { MetricsFile(path_, 0); }, fails_with({"metrics.jsonl: cannot write"}));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "target"));
}

TEST_F(MetricsFileTest, AppendsAfterWhatIsKept) {
  write_durably(path_, "{\"step\":1}\n{\"step\":2}\n");
  MetricsFile file(path_, 1);
  file.write("{\"step\":2,\"again\":1}");
  EXPECT_EQ(read_text(path_), "{\"step\":1}\n{\"step\":2,\"again\":1}\n");
}

TEST_F(MetricsFileTest, NamesTheFileThatCannotBeWritten) {
  EXPECT_THAT([&] { MetricsFile(scratch_ / "none/metrics.jsonl", 0); },
              fails_with({"none/metrics.jsonl: cannot write: No such file or directory"}));
}

}  // namespace
}  // namespace dos::train::metrics_test
