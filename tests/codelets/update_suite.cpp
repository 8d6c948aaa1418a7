// SPDX-License-Identifier: Apache-2.0
#include "codelets/update_suite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "codelets/update/rule_info.hpp"
#include "reference/all.hpp"

namespace dos::test {
namespace {

using codelets::UpdateKind;
using reference::Tracked;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr codelets::Hyperparameters kHyper{
    .beta1 = 0.9F, .beta2 = 0.999F, .momentum = 0.9F, .eps = 1e-8F, .weight_decay = 0.1F};
constexpr float kLearningRate = 1e-3F;

/// Squares of 1e30 overflow, of 1e-30 underflow, of 1e-20 are denormal. Larger numbers would make
/// it a question of the order of operations what overflows.
constexpr float kGradients[] = {0.0F,  -0.0F, kDenormal, -1e-42F, 1e-38F, 1e-30F, 1e-20F, 1.0F,
                                -1.0F, 3e5F,  1e30F,     -1e30F,  kInf,   -kInf,  kNan};
/// Among them ties of the rounding to BF16: to even below and above, and to infinity.
constexpr float kParameters[] = {0.0F,  1.0F,       -0.75F,      1e-42F,       1e-30F, 1e30F,
                                 -kInf, 0x1.01p+0F, -0x1.03p+0F, 0x1.FFp+127F, kNan};

enum class Numbers { kNormal, kSpecial, kPattern };

struct UpdateCase {
  const char* what;
  Index count;
  Index step = 1;  ///< states are those that the steps before have left, at most kHistory of them
  float clip = 1.0F;
  float deviation = 1.0F;  ///< of gradients
  Numbers numbers = Numbers::kNormal;
  Index shift = 0;
};

constexpr Index kHistory = 3;
constexpr Index kSpecials = std::ssize(kGradients) * std::ssize(kParameters);
/// From here on elements are sampled, and gradients repeat.
constexpr Index kLarge = 10'000;
constexpr Index kPeriod = 4099;

constexpr UpdateCase kCases[] = {
    {"nothing", 0},
    {"one", 1},
    {"three", 3},
    {"one vector", 16, 2},
    {"odd", 17, 2},
    {"below a chunk", 63},
    {"a chunk", 64, 2},
    {"above a chunk", 65},
    {"chunks without look-ahead", 575},
    {"chunks with look-ahead", 577, 3, 0.5F},
    {"unaligned", 1201, 2, 0.5F, 1.0F, Numbers::kNormal, 1},
    {"late", 5000, 1000, 0.01F},
    {"no gradient", 100, 1, 1.0F, 0.0F},
    {"no gradient any more", 100, 5, 0.0F},
    {"small gradients", 100, 5, 1.0F, 1e-20F},
    {"denormal gradients", 100, 5, 1.0F, 1e-42F},
    {"large gradients", 100, 3, 1.0F, 1e15F},
    {"special numbers first", kSpecials, 1, 1.0F, 1.0F, Numbers::kSpecial},
    {"special numbers later", kSpecials, 7, 0.5F, 1.0F, Numbers::kSpecial},
    {"more than 2^20", (Index{1} << 20U) + 37, 2, 1.0F, 1.0F, Numbers::kPattern},
};

const codelets::RuleInfo& rule_of(const UpdateKind& kind) {
  return codelets::all_rules()[static_cast<std::size_t>(kind.rule)];
}

/// Standard normal, one for each seed and element.
float normal(std::uint64_t seed, Index element) {
  return Philox(seed).normal(static_cast<std::uint64_t>(element));
}

float gradient_of(const UpdateCase& c, Index i) {
  if (c.numbers == Numbers::kSpecial) return kGradients[i % std::ssize(kGradients)];
  return c.deviation * normal(1, c.numbers == Numbers::kPattern ? i % kPeriod : i);
}

float parameter_of(const UpdateCase& c, Index i) {
  if (c.numbers == Numbers::kSpecial) return kParameters[i / std::ssize(kGradients)];
  return normal(2, c.numbers == Numbers::kPattern ? i % kPeriod : i);
}

/// States as the rule itself makes them from gradients of the case's size.
std::vector<float> states_before(const UpdateCase& c, const UpdateKind& kind, Index i) {
  const reference::RuleFormula formula = reference::formula_of(rule_of(kind).name);
  std::vector<float> states(rule_of(kind).states.size(), 0.0F);
  const Index element = c.numbers == Numbers::kPattern ? i % kPeriod : i;
  for (Index step = 1; step < std::min(c.step, kHistory); ++step) {
    std::vector<Tracked> exact(states.begin(), states.end());
    Tracked p;
    formula(reference::exact_hyper(kHyper, kLearningRate, step), p, exact.data(),
            c.deviation * normal(10 + static_cast<std::uint64_t>(step), element));
    std::transform(exact.begin(), exact.end(), states.begin(),
                   [](const Tracked& state) { return static_cast<float>(state.value); });
  }
  return states;
}

UpdateData make_data(const UpdateCase& c, const UpdateKind& kind) {
  UpdateData data{.kind = kind,
                  .step = rule_of(kind).step(kHyper, kLearningRate, c.step),
                  .clip = c.clip,
                  .g32 = {},
                  .g16 = {},
                  .p = std::make_unique<Guarded<float>>(c.count, 0.0F, c.shift),
                  .states = {},
                  .w = {}};
  if (kind.gradient == DType::kBF16)
    data.g16 = std::make_unique<Guarded<BF16>>(c.count, BF16{}, c.shift);
  else
    data.g32 = std::make_unique<Guarded<float>>(c.count, 0.0F, c.shift);
  if (kind.working == DType::kBF16)
    data.w = std::make_unique<Guarded<BF16>>(c.count, BF16{0x1234}, c.shift);
  for (std::size_t s = 0; s < rule_of(kind).states.size(); ++s)
    data.states.push_back(std::make_unique<Guarded<float>>(c.count, 0.0F, c.shift));
  const Index drawn = c.numbers == Numbers::kPattern ? std::min(c.count, kPeriod) : c.count;
  for (Index i = 0; i < c.count; ++i) {
    if (i >= drawn) {
      (*data.p)[i] = (*data.p)[i - kPeriod];
      for (auto& state : data.states) (*state)[i] = (*state)[i - kPeriod];
      if (data.g16) (*data.g16)[i] = (*data.g16)[i - kPeriod];
      if (data.g32) (*data.g32)[i] = (*data.g32)[i - kPeriod];
      continue;
    }
    (*data.p)[i] = parameter_of(c, i);
    const std::vector<float> states = states_before(c, kind, i);
    for (std::size_t s = 0; s < states.size(); ++s) (*data.states[s])[i] = states[s];
    const float gradient = gradient_of(c, i);
    if (data.g16) (*data.g16)[i] = to_bf16(gradient);
    if (data.g32) (*data.g32)[i] = gradient;
  }
  return data;
}

std::unique_ptr<Guarded<float>> copy_of(const std::unique_ptr<Guarded<float>>& from) {
  return from ? std::make_unique<Guarded<float>>(from->view()) : nullptr;
}

/// The numbers that an update may change.
struct Values {
  explicit Values(const UpdateData& data) : p(copy_of(data.p)) {
    for (const auto& state : data.states) states.push_back(copy_of(state));
  }
  std::unique_ptr<Guarded<float>> p;
  std::vector<std::unique_ptr<Guarded<float>>> states;
};

void expect_near(const char* what, float got, const Tracked& expected) {
  const double value = expected.value;
  if (std::isnan(value) || std::isinf(value)) {
    EXPECT_TRUE(std::isnan(value) ? std::isnan(got) : static_cast<double>(got) == value)
        << what << ": got " << got << ", expected " << value;
    return;
  }
  // Written so that a NaN fails.
  EXPECT_TRUE(std::abs(static_cast<double>(got) - value) <= expected.error)
      << what << ": got " << got << ", expected " << value << " +- " << expected.error;
}

void expect_element(const UpdateData& data, const Values& before, Index step, Index i) {
  std::vector<Tracked> states;
  for (const auto& state : before.states) states.emplace_back(static_cast<double>((*state)[i]));
  Tracked p(static_cast<double>((*before.p)[i]));
  const Tracked g =
      Tracked(static_cast<double>(data.gradient(i))) * Tracked(static_cast<double>(data.clip));
  reference::formula_of(rule_of(data.kind).name)(
      reference::exact_hyper(kHyper, kLearningRate, step), p, states.data(), g);
  expect_near("p", (*data.p)[i], p);
  for (std::size_t s = 0; s < states.size(); ++s)
    expect_near(rule_of(data.kind).states[s], (*data.states[s])[i], states[s]);
}

/// The working parameters are the rounded parameters, whatever those are.
void expect_working(const UpdateData& data, Index i) {
  if (!data.w) return;
  const float got = to_float((*data.w)[i]);
  const float p = (*data.p)[i];
  const double flushed = std::abs(static_cast<double>(p)) < reference::arithmetic.flushed ? 0 : 1;
  const double expected = reference::nearest_bf16(static_cast<double>(p));
  EXPECT_TRUE(std::isnan(p) ? std::isnan(got)
                            : static_cast<double>(got) == expected || (flushed == 0 && got == 0))
      << "w: got " << got << ", expected " << expected << " of p " << p;
}

std::vector<Index> elements_to_check(Index count) {
  std::vector<Index> elements;
  for (Index i = 0; i < count; i += count < kLarge || i >= count - 100 ? 1 : 997)
    elements.push_back(i);
  for (Index i = std::max<Index>(0, count - 100); i < count; ++i) elements.push_back(i);
  return elements;
}

void expect_case(const UpdateDevice& device, const UpdateKind& kind, const UpdateCase& c) {
  UpdateData data = make_data(c, kind);
  const Values before(data);
  device.update(data);
  for (const Index i : elements_to_check(c.count)) {
    SCOPED_TRACE(testing::Message() << "element " << i << ", gradient " << data.gradient(i));
    expect_element(data, before, c.step, i);
    expect_working(data, i);
    if (testing::Test::HasFailure()) return;
  }
}

/// A NaN clip factor changes no bit of what special numbers hold.
void expect_no_change(const UpdateDevice& device, const UpdateKind& kind) {
  for (const Index count : {Index{1}, kSpecials, Index{577}}) {
    UpdateData data =
        make_data({.what = "NaN clip",
                   .count = count,
                   .step = 3,
                   .clip = kNan,
                   .numbers = count == kSpecials ? Numbers::kSpecial : Numbers::kNormal},
                  kind);
    const Values before(data);
    device.update(data);
    EXPECT_TRUE(same_bits(data.p->view(), before.p->view()));
    for (std::size_t s = 0; s < before.states.size(); ++s)
      EXPECT_TRUE(same_bits(data.states[s]->view(), before.states[s]->view()));
    for (Index i = 0; i < count; ++i) expect_working(data, i);
  }
}

}  // namespace

float UpdateData::gradient(Index i) const {
  return g16 ? to_float((*g16)[i]) : (*g32)[i];
}

codelets::UpdateArrays UpdateData::arrays() const {
  codelets::UpdateArrays arrays{};
  arrays.count = count();
  arrays.clip = &clip;
  arrays.g = g16 ? static_cast<const void*>(g16->get()) : g32->get();
  arrays.p = p->get();
  for (std::size_t s = 0; s < states.size(); ++s) arrays.states[s] = states[s]->get();
  arrays.w = w ? w->get() : nullptr;
  return arrays;
}

std::vector<UpdateKind> update_kinds() {
  std::vector<UpdateKind> kinds;
  for (Index rule = 0; rule < std::ssize(codelets::all_rules()); ++rule)
    for (const DType gradient : {DType::kF32, DType::kBF16})
      for (const DType working : {DType::kF32, DType::kBF16})
        kinds.push_back({rule, gradient, working});
  return kinds;
}

std::string name_of(const UpdateKind& kind) {
  return std::string(rule_of(kind).name) + "_" + dos::name_of(kind.gradient) + "_" +
         dos::name_of(kind.working);
}

void expect_conforming(const UpdateDevice& device, const UpdateKind& kind) {
  SCOPED_TRACE(device.name);
  reference::arithmetic = device.arithmetic;
  for (const UpdateCase& c : kCases) {
    SCOPED_TRACE(c.what);
    expect_case(device, kind, c);
  }
  SCOPED_TRACE("NaN clip");
  expect_no_change(device, kind);
  reference::arithmetic = {};
}

std::vector<UpdateData> update_inputs(const UpdateKind& kind) {
  std::vector<UpdateData> inputs;
  for (const UpdateCase& c : kCases)
    if (c.count < kLarge) inputs.push_back(make_data(c, kind));
  return inputs;
}

void update_apart(UpdateData& data,
                  const std::function<void(const codelets::UpdateArrays&)>& update) {
  const Values before(data);
  const Values old(data);
  constexpr float kPoison = 3.5F;
  std::fill_n(data.p->get(), data.count(), kPoison);
  for (auto& state : data.states) std::fill_n(state->get(), data.count(), kPoison);
  codelets::UpdateArrays arrays = data.arrays();
  arrays.old_p = old.p->get();
  for (std::size_t s = 0; s < old.states.size(); ++s) arrays.old_states[s] = old.states[s]->get();
  update(arrays);
  EXPECT_TRUE(same_bits(old.p->view(), before.p->view()));
  for (std::size_t s = 0; s < old.states.size(); ++s)
    EXPECT_TRUE(same_bits(old.states[s]->view(), before.states[s]->view()));
}

UpdateData normal_input(const UpdateKind& kind, Index count) {
  return make_data({.what = "normal", .count = count, .step = 2}, kind);
}

bool same_results(const UpdateData& a, const UpdateData& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  };
  for (Index i = 0; i < a.count(); ++i) {
    if (!same((*a.p)[i], (*b.p)[i])) return false;
    for (std::size_t s = 0; s < a.states.size(); ++s)
      if (!same((*a.states[s])[i], (*b.states[s])[i])) return false;
    if (a.w && !same(to_float((*a.w)[i]), to_float((*b.w)[i]))) return false;
  }
  return true;
}

}  // namespace dos::test
