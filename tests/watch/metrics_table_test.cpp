// SPDX-License-Identifier: Apache-2.0
#include "watch/metrics_table.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::watch::metrics_table_test {
namespace {

using test::fails_with;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsNan;

class MetricsTest : public testing::Test {
 protected:
  void append(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }

  /// As a resumed run does it: another file under the name.
  void replace(const std::string& text) const {
    const std::filesystem::path other = scratch_ / "other";
    std::ofstream(other) << text;
    std::filesystem::rename(other, path_);
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "metrics.jsonl";
  MetricsTable metrics_{path_};
};

TEST_F(MetricsTest, LinesAreTakenAsTheyCome) {
  append("{\"step\":1,\"loss\":3}\n{\"step\":2,\"lo");
  metrics_.read();
  EXPECT_THAT(metrics_.steps(), ElementsAre(1));
  append("ss\":2,\"lr\":0.5}\n{\"step\":2,\"val_loss\":7}\n");
  metrics_.read();
  EXPECT_THAT(metrics_.steps(), ElementsAre(1, 2));
  EXPECT_THAT(metrics_.column("loss"), ElementsAre(3, 2));
  EXPECT_THAT(metrics_.column("lr"), ElementsAre(IsNan(), 0.5));
  EXPECT_THAT(metrics_.validations(), ElementsAre(std::pair<const Index, double>(2, 7)));
  metrics_.read();
  EXPECT_EQ(metrics_.last_step(), 2);
}

TEST_F(MetricsTest, AColumnThatEndsEarlyIsAsLongAsTheOthers) {
  append("{\"step\":1,\"loss\":3,\"x\":1}\n{\"step\":2,\"loss\":null}\n");
  metrics_.read();
  EXPECT_THAT(metrics_.column("x"), ElementsAre(1, IsNan()));
  EXPECT_THAT(metrics_.column("loss"), ElementsAre(3, IsNan()));
  EXPECT_THAT(metrics_.column("none"), IsEmpty());
  EXPECT_THAT(metrics_.names_behind("lo"), ElementsAre("ss"));
}

TEST_F(MetricsTest, AFileThatWasWrittenAnewIsReadAnew) {
  append("{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":3}\n");
  metrics_.read();
  replace("{\"step\":1,\"loss\":9}\n{\"step\":5,\"loss\":9}\n{\"step\":6,\"loss\":9}\n");
  metrics_.read();
  EXPECT_THAT(metrics_.steps(), ElementsAre(1, 5, 6));
  EXPECT_THAT(metrics_.column("loss"), ElementsAre(9, 9, 9));
  std::filesystem::resize_file(path_, 20);
  metrics_.read();
  EXPECT_THAT(metrics_.steps(), ElementsAre(1));
}

TEST_F(MetricsTest, OfAStepThatIsThereTwiceTheLaterLineCounts) {
  append(
      "{\"step\":1,\"loss\":1,\"x\":1}\n{\"step\":3,\"loss\":3,\"x\":3}\n"
      "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":2,\"x\":2}\n");
  metrics_.read();
  EXPECT_THAT(metrics_.steps(), ElementsAre(1, 2, 3));
  EXPECT_THAT(metrics_.column("loss"), ElementsAre(5, 2, 3));
  EXPECT_THAT(metrics_.column("x"), ElementsAre(IsNan(), 2, 3));
}

TEST_F(MetricsTest, WhatIsNoLineOfMetricsIsNamed) {
  for (const char* line :
       {"nonsense", "[1]", "{\"step\":\"2\",\"loss\":1}", "{\"step\":2}",
        "{\"step\":-1,\"loss\":1}", "{\"step\":2,\"loss\":\"x\"}", "{\"step\":2,\"loss\":true}",
        "{\"step\":2.5,\"loss\":1}", "{\"step\":2,\"loss\":1e999}",
        "{\"step\":18446744073709551615,\"loss\":1}"}) {
    replace("\n{\"step\":1,\"loss\":3}\n" + std::string(line) + "\n");
    MetricsTable metrics(path_);
    EXPECT_THAT([&] { metrics.read(); }, fails_with({":3: not a line of metrics", "repair"}))
        << line;
  }
  replace(std::string(3'000'000, ' '));
  MetricsTable metrics(path_);
  EXPECT_THAT([&] { metrics.read(); }, fails_with({":1: not a line of metrics"}));
}

// More than is read at once.
TEST_F(MetricsTest, LongFiles) {
  constexpr Index kLines = 60'000;
  std::string text;
  for (Index i = 1; i <= kLines; ++i)
    text += "{\"step\":" + std::to_string(i) + ",\"loss\":" + std::to_string(i) + ".5}\n";
  ASSERT_GT(text.size(), std::size_t{3} << 19);
  append(text);
  metrics_.read();
  ASSERT_EQ(std::ssize(metrics_.steps()), kLines);
  for (Index i = 0; i < kLines; ++i)
    ASSERT_EQ(metrics_.column("loss")[static_cast<std::size_t>(i)], static_cast<double>(i) + 1.5);
}

}  // namespace
}  // namespace dos::watch::metrics_table_test
