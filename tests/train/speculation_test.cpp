// SPDX-License-Identifier: Apache-2.0
#include "train/speculation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "codelets/update/update_codelet.hpp"

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

/// Of a step whose backward ends after 100 ms: an update from 60 on for so long, which is made
/// again for `again` behind it, if that is positive.
std::vector<rt::TaskRecord> records_of(double ahead_ms, double again_ms) {
  using codelets::update_codelet;
  const codelets::UpdateKind kind = codelets::all_update_kinds().front();
  const auto record = [](const rt::Codelet& codelet, rt::Phase phase, double begin, double end) {
    return rt::TaskRecord{
        .codelet = &codelet, .tag = {.phase = phase}, .start_us = 1e3 * begin, .end_us = 1e3 * end};
  };
  const rt::Codelet& apart = update_codelet(kind, codelets::UpdateForm::kApart);
  const rt::Codelet& redo = update_codelet(kind, codelets::UpdateForm::kRedo);
  std::vector<rt::TaskRecord> records;
  records.push_back(record(apart, rt::Phase::kUpdate, 60, 60 + ahead_ms));
  records.push_back(record(apart, rt::Phase::kUpdate, 110, 130));
  records.push_back(record(apart, rt::Phase::kBackward, 0, 100));
  if (again_ms > 0) records.push_back(record(redo, rt::Phase::kUpdate, 130, 130 + again_ms));
  return records;
}

/// Whether the next step goes ahead, when `clipped` of 16 were, each with these times.
bool goes_on(double hidden_ms, double again_ms, int clipped) {
  Recorder optimizer(7);
  Speculation speculation(optimizer, options_with("auto"));
  for (int step = 0; step < 16; ++step) {
    const bool is_clipped = step < clipped;
    speculation.begin_step();
    const auto seen =
        speculation.see(records_of(hidden_ms, is_clipped ? again_ms : 0), is_clipped ? 5 : 0.5);
    EXPECT_DOUBLE_EQ(seen->ms_hidden, std::min(40.0, hidden_ms));
    EXPECT_EQ(seen->redone, is_clipped ? 1 : 0);
    EXPECT_DOUBLE_EQ(seen->ms_redone, is_clipped ? again_ms : 0);
  }
  speculation.begin_step();
  return optimizer.is_on;
}

TEST(Speculation, WeighsWhatIsHiddenAgainstWhatIsMadeAgain) {
  // It pays while no more than gain / cost of the steps are clipped.
  EXPECT_TRUE(goes_on(/*hidden_ms=*/30, /*again_ms=*/30, 16));
  EXPECT_TRUE(goes_on(30, 40, 12));
  EXPECT_FALSE(goes_on(30, 40, 13));
  EXPECT_TRUE(goes_on(30, 120, 4));
  EXPECT_FALSE(goes_on(30, 120, 5));
  // Behind the end of backward nothing is hidden.
  EXPECT_TRUE(goes_on(1000, 160, 4));
  EXPECT_FALSE(goes_on(1000, 160, 5));
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
