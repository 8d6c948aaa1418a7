// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/random.hpp"
#include "norms.hpp"
#include "optim/elementwise.hpp"
#include "optim/schedule.hpp"
#include "reference/all.hpp"
#include "shape/cutter.hpp"

namespace dos::optim::optimizer_test {
namespace {

using reference::Tracked;
using test::norm_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAreArray;

/// Distance from 1 to the next FP32 number; one rounding is at most half of it, relative.
constexpr double kEps = 0x1p-23;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_values(Index count, std::uint64_t seed, float deviation) {
  const Philox random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * random.normal(i);
  return values;
}

/// Two matrices in blocks (the second without decay) and vectors, of depths 0 to 2 in an order that
/// is not theirs.
shape::Layout make_layout() {
  return shape::cut_into_subgroups({{"late.weight", 7, 5, {}, 2},
                                    {"late.bias", 0, 7, {}, 2},
                                    {"early_embedding.weight", 9, 3, {}, 0},
                                    {"middle.weight", 0, 6, {}, 1},
                                    {"middle.bias", 0, 6, {}, 1}},
                                   15, {});
}

struct State {
  std::vector<float> p;
  std::vector<std::vector<float>> states;

  bool operator==(const State& other) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(p, other.p) &&
           std::equal(states.begin(), states.end(), other.states.begin(), other.states.end(), same);
  }
};

/// Parameters and optimizer in a session of their own; a subgroup is looked at as a whole.
class OptimizerRun {
 public:
  explicit OptimizerRun(const OptimizerOptions& options)
      : session_({.scheduler = "", .cpu_workers = 2}),
        submitter_(session_),
        parameters_(session_, make_layout()),
        optimizer_(session_, parameters_, options),
        norm_(session_, {.name = "norm", .type = DType::kF64, .count = 1}) {
    for (Index s = 0; s < subgroups(); ++s)
      fill(parameters_.values()[s],
           random_values(count(s), 100 + static_cast<std::uint64_t>(s), 1));
  }

  [[nodiscard]] Index subgroups() const { return std::ssize(parameters_.layout().subgroups); }
  [[nodiscard]] const shape::Subgroup& subgroup(Index s) const {
    return parameters_.layout().subgroups[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] Index count(Index s) const { return subgroup(s).count; }

  /// The gradient of step `step`, drawn anew; returns all of it.
  std::vector<float> set_gradients(Index step, float deviation) {
    std::vector<float> all;
    for (Index s = 0; s < subgroups(); ++s) {
      const auto seed = static_cast<std::uint64_t>(1000 * step + s);
      const std::vector<float> gradient = random_values(count(s), seed, deviation);
      fill(parameters_.gradients()[s], gradient);
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
    return all;
  }
  void set_gradient(Index s, std::size_t element, float value) {
    rt::HostAccess(parameters_.gradients()[s], rt::Mode::kReadWrite).as<float>()[element] = value;
  }

  double step(Index step, double learning_rate = 0.125) {
    optimizer_.submit_step(submitter_, step, learning_rate, norm_);
    return rt::HostAccess(norm_, rt::Mode::kRead).as<const double>()[0];
  }

  [[nodiscard]] State state(Index s) const {
    State state{values(parameters_.values()[s]), {}};
    for (Index i = 0; i < std::ssize(optimizer_.state_names()); ++i)
      state.states.push_back(values(optimizer_.state(i)[s]));
    return state;
  }
  [[nodiscard]] std::vector<State> states() const {
    std::vector<State> all;
    for (Index s = 0; s < subgroups(); ++s) all.push_back(state(s));
    return all;
  }
  [[nodiscard]] std::vector<float> gradient(Index s) const {
    return values(parameters_.gradients()[s]);
  }

  rt::Submitter& submitter() { return submitter_; }
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }

 private:
  static void fill(const rt::Handle& handle, const std::vector<float>& from) {
    const rt::HostAccess access(handle, rt::Mode::kWrite);
    std::copy(from.begin(), from.end(), access.as<float>().begin());
  }
  static std::vector<float> values(const rt::Handle& handle) {
    const rt::HostAccess access(handle, rt::Mode::kRead);
    const auto elements = access.as<const float>();
    return {elements.begin(), elements.end()};
  }

  rt::Session session_;
  rt::Submitter submitter_;
  tensor::ParameterSet parameters_;
  ElementwiseOptimizer optimizer_;
  rt::Handle norm_;
};

reference::Hyper reference_hyper(const OptimizerOptions& options, double learning_rate, bool decay,
                                 Index step) {
  const auto exact = [](float value) { return Tracked(static_cast<double>(value)); };
  return {.lr = exact(static_cast<float>(learning_rate)),
          .beta1 = exact(options.beta1),
          .beta2 = exact(options.beta2),
          .momentum = exact(options.momentum),
          .eps = exact(options.eps),
          .weight_decay = exact(decay ? options.weight_decay : 0),
          .step = step};
}

/// One step of one subgroup against the formula in double, from the FP32 state before it. The clip
/// factor is computed in double and rounded once.
void expect_step(const char* rule, const reference::Hyper& hyper, double factor,
                 const State& before, const std::vector<float>& gradient, const State& after) {
  const Tracked clip(factor, factor == 1 ? 0 : factor * kEps / 2);
  const auto expect_near = [](float got, const Tracked& expected, std::size_t i) {
    EXPECT_NEAR(static_cast<double>(got), expected.value, expected.error) << i;
  };
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    Tracked p(static_cast<double>(before.p[i]));
    std::vector<Tracked> states;
    for (const auto& state : before.states) states.emplace_back(static_cast<double>(state[i]));
    reference::formula_of(rule)(hyper, p, states.data(),
                                Tracked(static_cast<double>(gradient[i])) * clip);
    expect_near(after.p[i], p, i);
    for (std::size_t s = 0; s < states.size(); ++s) expect_near(after.states[s][i], states[s], i);
  }
}

struct Case {
  const char* what;
  float clip;
  float deviation;  ///< of gradients
  float weight_decay;
};

class EveryRule : public ::testing::TestWithParam<std::string> {
 protected:
  /// The options with the rule of this test.
  [[nodiscard]] OptimizerOptions with_rule(OptimizerOptions options) const {
    options.rule = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::ValuesIn(known_rules()),
                         [](const auto& test) { return test.param; });

TEST_P(EveryRule, FollowsTheFormulaOverSeveralSteps) {
  // 81 gradients of deviation d have a norm of about 9 d.
  const Case cases[] = {
      {"clipping active", 1.0F, 1.0F, 0.1F},  {"clipping set, not active", 1e6F, 1.0F, 0.1F},
      {"no clipping", 0.0F, 1.0F, 0.1F},      {"no decay", 1.0F, 0.05F, 0.0F},
      {"small gradients", 1.0F, 1e-6F, 0.1F}, {"large gradients", 1.0F, 1e6F, 0.1F}};
  const LearningRate schedule(
      {.schedule = "cosine", .peak = 0.125, .final_ratio = 0.1, .warmup = 2, .steps = 6});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const OptimizerOptions options = with_rule({.weight_decay = c.weight_decay, .clip = c.clip});
    OptimizerRun optimizer(options);
    for (Index step = 1; step <= 6; ++step) {
      SCOPED_TRACE(step);
      const double norm = norm_of(optimizer.set_gradients(step, c.deviation));
      const std::vector<State> before = optimizer.states();
      // Sums of squares in double precision.
      EXPECT_NEAR(optimizer.step(step, schedule.at(step)), norm, 1e-14 * norm);
      const double factor =
          c.clip > 0 ? std::min(1.0, static_cast<double>(c.clip) / (norm + 1e-6)) : 1.0;
      for (Index s = 0; s < optimizer.subgroups(); ++s) {
        SCOPED_TRACE(optimizer.subgroup(s).name);
        expect_step(GetParam().c_str(),
                    reference_hyper(options, schedule.at(step), optimizer.subgroup(s).decay, step),
                    factor, before[static_cast<std::size_t>(s)], optimizer.gradient(s),
                    optimizer.state(s));
      }
    }
  }
}

TEST_P(EveryRule, StatesHaveTheRulesNamesAndStartAtZero) {
  const Rule rule = find_rule(GetParam());
  OptimizerRun optimizer(with_rule({}));
  EXPECT_EQ(optimizer.optimizer().rule(), GetParam());
  EXPECT_EQ(optimizer.optimizer().state_names().data(), rule.info->states.data());
  for (const State& state : optimizer.states()) {
    EXPECT_EQ(state.states.size(), rule.info->states.size());
    for (const std::vector<float>& values : state.states)
      EXPECT_EQ(values, std::vector<float>(values.size(), 0.0F));
  }
}

// The names stand in checkpoints.
TEST(Rules, TheNamesOfStatesStay) {
  const auto names = [](const char* rule) {
    const auto states = find_rule(rule).info->states;
    return std::vector<std::string>(states.begin(), states.end());
  };
  EXPECT_THAT(names("adamw"), ElementsAre("first_moment", "second_moment"));
  EXPECT_THAT(names("sgd"), ElementsAre("momentum"));
  EXPECT_THAT(names("lion"), ElementsAre("momentum"));
  EXPECT_THAT(names("adagrad"), ElementsAre("sum_of_squares"));
}

TEST(Rules, EveryRuleWithAKernelIsRegistered) {
  std::vector<std::string> names;
  for (const codelets::RuleInfo& rule : codelets::all_rules()) names.emplace_back(rule.name);
  EXPECT_THAT(known_rules(), UnorderedElementsAreArray(names));
}

TEST(Rules, UnknownNamesListTheKnownOnes) {
  EXPECT_THAT([] { find_rule("adam"); },
              ThrowsMessage<Error>(HasSubstr("unknown optim.rule 'adam' (did you mean 'adamw'?); "
                                             "known: adamw, sgd, lion, adagrad")));
}

TEST(Optimizer, SomeSubgroupsDecayAndSomeDoNot) {
  const shape::Layout layout = make_layout();
  const auto decays = [](const shape::Subgroup& s) { return s.decay; };
  EXPECT_TRUE(std::any_of(layout.subgroups.begin(), layout.subgroups.end(), decays));
  EXPECT_FALSE(std::all_of(layout.subgroups.begin(), layout.subgroups.end(), decays));
}

TEST_P(EveryRule, ZeroGradientMovesNothingButByDecay) {
  OptimizerRun optimizer(with_rule({.weight_decay = 0.0F}));
  const std::vector<State> before = optimizer.states();
  optimizer.set_gradients(1, 0.0F);
  EXPECT_EQ(optimizer.step(1), 0.0);
  EXPECT_TRUE(optimizer.states() == before);
}

class BadGradient : public ::testing::TestWithParam<float> {};
INSTANTIATE_TEST_SUITE_P(Values, BadGradient,
                         ::testing::Values(kNan, std::numeric_limits<float>::infinity(),
                                           -std::numeric_limits<float>::infinity()),
                         [](const auto& test) { return "case" + std::to_string(test.index); });

TEST_P(BadGradient, WithClippingStopsEverythingForGood) {
  OptimizerRun optimizer({.clip = 1.0F});
  optimizer.set_gradients(1, 1.0F);
  optimizer.step(1);
  const std::vector<State> before = optimizer.states();
  optimizer.set_gradients(2, 1.0F);
  optimizer.set_gradient(1, 2, GetParam());
  EXPECT_FALSE(std::isfinite(optimizer.step(2)));
  EXPECT_TRUE(optimizer.states() == before);
  // Good gradients again, but parameters must stay what a checkpoint before the bad one holds.
  const double norm = norm_of(optimizer.set_gradients(3, 1.0F));
  EXPECT_NEAR(optimizer.step(3), norm, 1e-14 * norm);
  EXPECT_TRUE(optimizer.states() == before);
}

TEST_P(BadGradient, WithoutClippingStopsItsOwnSubgroupForGood) {
  constexpr Index kBad = 1;
  OptimizerRun optimizer({.clip = 0.0F});
  OptimizerRun untouched({.clip = 0.0F});
  std::optional<State> stopped;
  for (Index step = 1; step <= 4; ++step) {
    SCOPED_TRACE(step);
    optimizer.set_gradients(step, 1.0F);
    untouched.set_gradients(step, 1.0F);
    if (step == 2) {
      stopped = optimizer.state(kBad);
      optimizer.set_gradient(kBad, 0, GetParam());
    }
    EXPECT_EQ(std::isfinite(optimizer.step(step)), step != 2);
    untouched.step(step);
    for (Index s = 0; s < optimizer.subgroups(); ++s) {
      const bool is_stopped = s == kBad && stopped.has_value();
      EXPECT_TRUE(optimizer.state(s) == (is_stopped ? *stopped : untouched.state(s))) << s;
    }
  }
}

// What the first forward tasks of the next step wait for is updated first.
TEST(Optimizer, UpdatesAreSubmittedInTheOrderOfTheForwardPass) {
  OptimizerRun optimizer({});
  std::vector<const rt::Handle*> updated;
  optimizer.submitter().set_observer(
      {.before = {}, .after = [&](const rt::TaskCall& call) {
         if (std::string_view(call.codelet.symbol()).starts_with("dos.update."))
           updated.push_back(call.buffers[0]);
       }});
  optimizer.set_gradients(1, 1.0F);
  optimizer.step(1);
  ASSERT_EQ(std::ssize(updated), optimizer.subgroups());
  std::vector<Index> depths;
  for (const rt::Handle* handle : updated)
    for (Index s = 0; s < optimizer.subgroups(); ++s)
      if (handle->name() == "value." + optimizer.subgroup(s).name)
        depths.push_back(optimizer.subgroup(s).depth);
  EXPECT_EQ(depths.size(), updated.size());
  EXPECT_TRUE(std::is_sorted(depths.begin(), depths.end()));
  EXPECT_EQ(depths.front(), 0);
  EXPECT_EQ(depths.back(), 2);
}

struct BadOptions {
  OptimizerOptions options;
  const char* message;
};

TEST(OptimizerOptions, ValuesOutOfRangeAreNamed) {
  const BadOptions cases[] = {
      {{.rule = "sgdm"}, "unknown optim.rule 'sgdm' (did you mean 'sgd'?)"},
      {{.beta1 = 1.0F}, "optim.beta1 must lie in [0, 1), got 1"},
      {{.beta1 = -0.1F}, "optim.beta1"},
      {{.beta2 = 1.5F}, "optim.beta2 must lie in [0, 1), got 1.5"},
      {{.beta2 = kNan}, "optim.beta2"},
      {{.momentum = 1.0F}, "optim.momentum must lie in [0, 1), got 1"},
      {{.eps = 0.0F}, "optim.eps must be positive, got 0"},
      {{.weight_decay = -1.0F}, "optim.weight_decay must not be negative, got -1"},
      {{.clip = -1.0F}, "optim.clip must not be negative"},
      {{.clip = kNan}, "optim.clip"},
  };
  for (const BadOptions& c : cases)
    EXPECT_THAT([&] { c.options.validate(); }, ThrowsMessage<Error>(HasSubstr(c.message)));
  EXPECT_NO_THROW(
      (OptimizerOptions{.beta1 = 0, .beta2 = 0, .weight_decay = 0, .clip = 0}.validate()));
}

}  // namespace
}  // namespace dos::optim::optimizer_test
