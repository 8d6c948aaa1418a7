// SPDX-License-Identifier: Apache-2.0
#include "train/speculation.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace dos::train::speculation_test {
namespace {

/// An optimizer whose updates only say whether they go ahead.
class Recorder final : public optim::Optimizer {
 public:
  explicit Recorder(Index ahead) : ahead_(ahead) {}
  void set_listener(tensor::ParameterListener* /*listener*/) override {}
  void set_goes_ahead(bool on) override { is_on = on; }
  [[nodiscard]] Index going_ahead() const override { return ahead_; }
  void submit_step(rt::Submitter& /*submitter*/, Index /*step*/, double /*learning_rate*/,
                   const rt::Handle& /*norm*/) override {}
  [[nodiscard]] const rt::Handle* clip_factor(Index /*subgroup*/) const override { return nullptr; }
  [[nodiscard]] const char* rule() const override { return "none"; }
  [[nodiscard]] std::span<const char* const> state_names() const override { return {}; }
  [[nodiscard]] const tensor::SubgroupHandles& state(Index index) const override {
    fail("no state {}", index);
  }

  bool is_on = false;

 private:
  Index ahead_;
};

config::Keys::Optim options_with(const std::string& choice) {
  config::Keys::Optim options;
  options.clip = 1;
  options.speculate = choice;
  return options;
}

/// Steps with these norms, `in_flight` at a time; whether each went ahead.
std::vector<bool> steps(const std::string& choice, const std::vector<double>& norms,
                        std::size_t in_flight) {
  Recorder optimizer(7);
  Speculation speculation(optimizer, options_with(choice));
  std::vector<bool> went;
  std::size_t ended = 0;
  const auto end = [&] {
    const auto seen = speculation.see({}, norms[ended]);
    EXPECT_TRUE(seen);
    EXPECT_EQ(seen->ahead, went[ended] ? 7 : 0) << ended;
    EXPECT_EQ(seen->redone, 0);
    ++ended;
  };
  for (std::size_t step = 0; step < norms.size(); ++step) {
    speculation.begin_step();
    went.push_back(optimizer.is_on);
    if (step + 1 - ended >= in_flight) end();
  }
  while (ended < norms.size()) end();
  return went;
}

TEST(Speculation, StopsWhereMostStepsAreClippedAndBeginsAgain) {
  std::vector<double> norms(20, 5.0);
  norms.insert(norms.end(), 20, 0.5);
  const std::vector<bool> went = steps("auto", norms, 1);
  std::vector<bool> expected(40, true);
  // The ninth clipped one is more than half of 16; 6 of the last 16 are clipped after ten others.
  for (std::size_t step = 9; step < 30; ++step) expected[step] = false;
  EXPECT_EQ(went, expected);
}

TEST(Speculation, KnowsAStepOnlyWhenItHasEnded) {
  const std::vector<bool> went = steps("auto", std::vector<double>(20, 5.0), 3);
  std::vector<bool> expected(20, false);
  for (std::size_t step = 0; step < 11; ++step) expected[step] = true;
  EXPECT_EQ(went, expected);
}

TEST(Speculation, GoesOnWhileHalfOfTheStepsAreClipped) {
  std::vector<double> norms;
  for (int step = 0; step < 100; ++step) norms.push_back(step % 2 == 0 ? 2.0 : 0.5);
  EXPECT_EQ(steps("auto", norms, 2), std::vector<bool>(100, true));
}

TEST(Speculation, OnIsOn) {
  EXPECT_EQ(steps("on", std::vector<double>(50, 5.0), 2), std::vector<bool>(50, true));
}

TEST(Speculation, SaysNothingWhereNoneCanGoAhead) {
  Recorder optimizer(0);
  Speculation speculation(optimizer, options_with("auto"));
  speculation.begin_step();
  EXPECT_FALSE(speculation.see({}, 0.5));
}

}  // namespace
}  // namespace dos::train::speculation_test
