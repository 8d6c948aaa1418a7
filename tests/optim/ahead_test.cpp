// SPDX-License-Identifier: Apache-2.0
// Updates that go ahead of the clip factor: not a bit may depend on it.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "base/random.hpp"
#include "codelets/update/update_codelet.hpp"
#include "codelets/update/update_sums.hpp"
#include "optim/optimizer.hpp"
#include "optim/rules.hpp"
#include "rt/tasks.hpp"
#include "shape/cutter.hpp"

namespace dos::optim::ahead_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr tensor::ParameterTypes kNarrow{.working = DType::kBF16, .gradient = DType::kBF16};
constexpr Index kAll = -1;

shape::Layout make_layout() {
  return shape::cut_into_subgroups({{"late.weight", 40, 50, {}, 2},
                                    {"late.bias", 0, 40, {}, 2},
                                    {"early_embedding.weight", 9, 30, {}, 0},
                                    {"middle.weight", 30, 60, {}, 1}},
                                   700, {});
}

struct Options {
  OptimizerOptions optimizer{};
  Index ahead = kAll;  ///< subgroups that can go ahead, the first ones
  Index workers = 2;
};

/// What all steps make of parameters, states and working parameters.
using Bits = std::vector<std::vector<std::byte>>;

/// A run on gradients that depend on seed, step and subgroup alone; steps are submitted without
/// waiting for those before.
class Training {
 public:
  explicit Training(const Options& options)
      : session_({.scheduler = "", .cpu_workers = options.workers}),
        submitter_(session_),
        parameters_(session_, make_layout(), kNarrow),
        norm_(session_, {.name = "norm", .type = DType::kF64, .count = 1}) {
    std::vector<Index> ahead(static_cast<std::size_t>(
        options.ahead == kAll ? subgroups() : std::min(options.ahead, subgroups())));
    std::iota(ahead.begin(), ahead.end(), Index{0});
    optimizer_ = make_optimizer(session_, parameters_, options.optimizer, nullptr, ahead);
    for (Index s = 0; s < subgroups(); ++s) {
      const rt::HostAccess access(parameters_.values()[s], rt::Mode::kWrite);
      const Philox random(static_cast<std::uint64_t>(s));
      for (std::uint64_t i = 0; float& value : access.as<float>()) value = random.normal(i++);
    }
  }

  [[nodiscard]] Index subgroups() const { return std::ssize(parameters_.layout().subgroups); }
  Optimizer& optimizer() { return *optimizer_; }
  rt::Submitter& submitter() { return submitter_; }
  rt::Session& session() { return session_; }

  /// `bad`: the subgroup whose gradient has an element that is not finite.
  void step(Index step, float deviation, std::optional<Index> bad = std::nullopt) {
    submitter_.set_tag({rt::Phase::kBackward, step});
    for (Index s = 0; s < subgroups(); ++s) {
      const rt::HostAccess access(parameters_.gradients()[s], rt::Mode::kWrite);
      const Philox random(static_cast<std::uint64_t>(1000 * step + s));
      const auto elements = access.as<BF16>();
      for (std::uint64_t i = 0; BF16 & value : elements)
        value = to_bf16(deviation * random.normal(i++));
      if (bad == s) elements.back() = to_bf16(std::numeric_limits<float>::quiet_NaN());
    }
    submitter_.set_tag({rt::Phase::kUpdate, step});
    optimizer_->submit_step(submitter_, step, 0.01, norm_);
  }
  /// Has tasks wait for gradients, and submission wait, for up to 0.7 ms each, as drawn.
  void delay(std::uint64_t seed) {
    submitter_.set_observer({.before =
                                 [this, seed](const rt::TaskCall& call) {
                                   if (&call.codelet == &test::body_codelet()) return;
                                   delay_inputs_of(call, Philox(seed));
                                 },
                             .after = {}});
  }
  double norm() { return rt::HostAccess(norm_, rt::Mode::kRead).as<const double>()[0]; }

  [[nodiscard]] Bits bits() const {
    Bits all;
    const auto add = [&](const tensor::SubgroupHandles& handles) {
      for (Index s = 0; s < subgroups(); ++s) {
        const rt::HostAccess access(handles[s], rt::Mode::kRead);
        const auto bytes = handles[s].type() == DType::kF32
                               ? std::as_bytes(access.as<const float>())
                               : std::as_bytes(access.as<const BF16>());
        all.emplace_back(bytes.begin(), bytes.end());
      }
    };
    add(parameters_.values());
    add(parameters_.working());
    for (Index i = 0; i < std::ssize(optimizer_->state_names()); ++i) add(optimizer_->state(i));
    return all;
  }
  /// Updates that were made once more in a step.
  Index redone(Index step) {
    const std::vector<rt::TaskRecord> records = submitter_.profile().take(step);
    return std::ranges::count_if(
        records, [](const rt::TaskRecord& record) { return codelets::is_redo(*record.codelet); });
  }

 private:
  void delay_inputs_of(const rt::TaskCall& call, const Philox& random) {
    const auto draw = [&] { return random.uniform(drawn_++); };
    if (draw() < 0.2) std::this_thread::sleep_for(delays().back());
    for (Index s = 0; s < subgroups(); ++s)
      for (const rt::Handle* buffer : call.buffers)
        if (buffer == &parameters_.gradients()[s])
          test::submit_body(submitter_, bodies()[static_cast<std::size_t>(draw() * 7.99)],
                            {buffer});
  }
  static std::vector<std::chrono::microseconds> delays() {
    std::vector<std::chrono::microseconds> result;
    for (int i = 0; i < 8; ++i) result.emplace_back(100 * i);
    return result;
  }
  static const std::vector<test::Body>& bodies() {
    static const std::vector<test::Body> all = [] {
      std::vector<test::Body> result;
      for (const std::chrono::microseconds time : delays())
        result.emplace_back([time](const rt::TaskView&) { std::this_thread::sleep_for(time); });
      return result;
    }();
    return all;
  }

  std::uint64_t drawn_ = 0;
  rt::Session session_;
  rt::Submitter submitter_;
  tensor::ParameterSet parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  rt::Handle norm_;
};

/// A clip that about half of the steps with gradients of deviation 1 exceed.
float median_norm() {
  Training run({.optimizer = {.clip = 1.0F}, .ahead = 0});
  std::vector<double> norms;
  for (Index step = 1; step <= 25; ++step) {
    run.step(step, 1.0F);
    norms.push_back(run.norm());
  }
  std::ranges::sort(norms);
  return static_cast<float>(norms[norms.size() / 2]);
}

class EveryRuleAhead : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Rules, EveryRuleAhead, ::testing::ValuesIn(known_rules()),
                         [](const auto& test) { return test.param; });

TEST_P(EveryRuleAhead, GivesTheSameBitsWhateverIsClipped) {
  const float median = median_norm();
  for (const float clip : {1e6F, median, 1e-3F}) {
    SCOPED_TRACE(clip);
    Options options{.optimizer = {.rule = GetParam(), .clip = clip}, .ahead = 0};
    Training without(options);
    options.ahead = kAll;
    Training with(options);
    options.ahead = 3;
    Training partly(options);
    Index clipped = 0;
    constexpr Index kSteps = 60;
    for (Index step = 1; step <= kSteps; ++step) {
      for (Training* run : {&without, &with, &partly}) run->step(step, 1.0F);
      // Not in each step, so that some are submitted while others run.
      if (step % 7 != 0) continue;
      ASSERT_EQ(with.bits(), without.bits()) << step;
      ASSERT_EQ(partly.bits(), without.bits()) << step;
    }
    for (Index step = 1; step <= kSteps; ++step) {
      const Index redone = with.redone(step);
      EXPECT_TRUE(redone == 0 || redone == with.subgroups()) << redone;
      EXPECT_EQ(partly.redone(step), redone == 0 ? 0 : 3);
      EXPECT_EQ(without.redone(step), 0);
      if (redone > 0) ++clipped;
    }
    if (clip == median) {
      EXPECT_GT(clipped, kSteps / 5);
      EXPECT_LT(clipped, kSteps - kSteps / 5);
    } else {
      EXPECT_EQ(clipped, clip < 1 ? kSteps : 0);
    }
  }
}

// Gradients that come late and in any order, norms too.
TEST_P(EveryRuleAhead, GivesTheSameBitsWhateverIsLate) {
  Options options{.optimizer = {.rule = GetParam(), .clip = median_norm()}, .ahead = 0};
  constexpr Index kSteps = 30;
  Training without(options);
  for (Index step = 1; step <= kSteps; ++step) without.step(step, 1.0F);
  options.ahead = kAll;
  options.workers = 3;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Training with(options);
    with.delay(seed);
    Index clipped = 0;
    for (Index step = 1; step <= kSteps; ++step) with.step(step, 1.0F);
    EXPECT_TRUE(with.bits() == without.bits()) << seed;
    for (Index step = 1; step <= kSteps; ++step) clipped += with.redone(step) > 0 ? 1 : 0;
    EXPECT_GT(clipped, kSteps / 5);
    EXPECT_LT(clipped, kSteps - kSteps / 5);
  }
}

TEST_P(EveryRuleAhead, ABadGradientStopsEverythingForGood) {
  for (const Index bad : {0, 4}) {
    Training run({.optimizer = {.rule = GetParam(), .clip = 1e6F}});
    for (Index step = 1; step <= 3; ++step) run.step(step, 1.0F);
    const Bits before = run.bits();
    run.step(4, 1.0F, bad);
    run.step(5, 1.0F);  // submitted before anybody knows
    EXPECT_TRUE(run.bits() == before);
    run.step(6, 1.0F);
    EXPECT_TRUE(run.bits() == before);
    EXPECT_EQ(run.redone(3), 0);
    for (const Index step : {4, 5, 6}) EXPECT_EQ(run.redone(step), run.subgroups()) << step;
  }
}

TEST_P(EveryRuleAhead, MayBeSwitchedInAnyStep) {
  Options options{.optimizer = {.rule = GetParam(), .clip = median_norm()}};
  Training switched(options);
  options.ahead = 0;
  Training without(options);
  const Philox random(5);
  for (Index step = 1; step <= 40; ++step) {
    switched.optimizer().set_goes_ahead(random.uniform(static_cast<std::uint64_t>(step)) < 0.5);
    for (Training* run : {&switched, &without}) run->step(step, 1.0F);
  }
  EXPECT_TRUE(switched.bits() == without.bits());
}

TEST(Ahead, SumsAreOfWhatTheStepLeaves) {
  for (const float clip : {1e6F, 1e-3F}) {
    Training run({.optimizer = {.clip = clip}});
    run.step(1, 1.0F);
    std::vector<std::unique_ptr<rt::Handle>> sums;
    const Bits before = run.bits();
    for (Index s = 0; s < run.subgroups(); ++s) {
      const Index count = std::ssize(before[static_cast<std::size_t>(s)]) / 4;
      sums.push_back(std::make_unique<rt::Handle>(
          run.session(),
          rt::HandleSpec{
              .name = "sums", .type = DType::kI32, .count = codelets::UpdateSums::words(3, 1)}));
      const rt::HostAccess access(*sums.back(), rt::Mode::kWrite);
      codelets::UpdateSums::prepare(access.as<std::int32_t>(), 3, std::array{count});
    }
    run.optimizer().set_sums(sums);
    run.step(2, 1.0F);
    const Bits after = run.bits();
    for (Index s = 0; s < run.subgroups(); ++s) {
      const rt::HostAccess access(*sums[static_cast<std::size_t>(s)], rt::Mode::kReadWrite);
      const codelets::UpdateSums found(access.as<std::int32_t>());
      for (Index array = 0; array < 3; ++array) {
        // Behind the values come the working parameters, then the states.
        const auto& bytes =
            after[static_cast<std::size_t>((array == 0 ? 0 : 1 + array) * run.subgroups() + s)];
        std::vector<float> elements(bytes.size() / sizeof(float));
        std::memcpy(elements.data(), bytes.data(), bytes.size());
        const auto sum = found.find(2, array, 0, std::ssize(elements));
        ASSERT_TRUE(sum);
        EXPECT_EQ(sum->crc32c, codelets::sum_of_content(elements, false).crc32c) << s << array;
      }
    }
  }
}

// So that they may run while later gradients are still made, and what forward needs first comes
// first among them.
TEST(Ahead, UpdatesAreSubmittedBeforeTheNormAndSettledBehindIt) {
  Training run({.optimizer = {.clip = 1.0F}, .ahead = 2});
  std::vector<std::string> order;
  run.submitter().set_observer(
      {.before = {}, .after = [&](const rt::TaskCall& call) {
         const std::string_view symbol(call.codelet.symbol());
         for (const char* part : {"apart", "combine_norm", "redo", "tell_factor", "dos.update"})
           if (symbol.find(part) != std::string_view::npos) {
             order.emplace_back(part);
             return;
           }
       }});
  run.step(1, 1.0F);
  std::ranges::sort(order.begin() + 4, order.end());
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 4),
              ElementsAre("apart", "apart", "combine_norm", "tell_factor"));
  EXPECT_EQ(std::ranges::count(order, "redo"), 2);
  EXPECT_EQ(std::ranges::count(order, "dos.update"), run.subgroups() - 2);
}

TEST(Ahead, NeedsClippingAndWorkingParametersOfTheirOwn) {
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  tensor::ParameterSet narrow(session, make_layout(), kNarrow);
  tensor::ParameterSet wide(session, make_layout());
  const std::array<Index, 1> ahead{0};
  EXPECT_THROW(make_optimizer(session, narrow, {.clip = 0}, nullptr, ahead), ContractViolation);
  EXPECT_THROW(make_optimizer(session, wide, {}, nullptr, ahead), ContractViolation);
  EXPECT_EQ(make_optimizer(session, narrow, {}, nullptr, ahead)->going_ahead(), 1);
}

}  // namespace
}  // namespace dos::optim::ahead_test
