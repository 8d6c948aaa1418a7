// SPDX-License-Identifier: Apache-2.0
#include "nn/initialise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bf16.hpp"
#include "models/family.hpp"
#include "shape/cutter.hpp"

namespace dos::nn::initialise_test {
namespace {

using Values = std::map<std::string, std::vector<float>>;

const shape::ModelConfig kModel{"gpt2", 3, 48, 4, 32, 257};

/// Every parameter's elements in these buffers.
Values values_in(const tensor::SubgroupHandles& buffers, const shape::Layout& layout) {
  Values values;
  for (const shape::PlacedParameter& parameter : layout.parameters) {
    std::vector<float>& tensor = values[parameter.spec.name];
    tensor.resize(static_cast<std::size_t>(parameter.spec.count()));
    buffers.read(parameter, tensor);
  }
  return values;
}

/// Every parameter's values after initialisation.
Values initialised(std::uint64_t seed, Index subgroup_params, Index workers) {
  rt::Session session({.scheduler = "", .cpu_workers = workers});
  rt::Submitter submitter(session);
  const tensor::ParameterSet set(
      session, shape::cut_into_subgroups(shape::find_family("gpt2").parameters(kModel),
                                         subgroup_params, {}));
  submit_initialisation(submitter, set, seed);
  return values_in(set.values(), set.layout());
}

TEST(Initialisation, DependsNeitherOnSubgroupsNorOnWorkers) {
  const Values whole = initialised(3, 5'000'000, 1);
  // The smallest limit, and one that cuts every matrix in unequal blocks.
  for (const Index limit : {192, 1000})
    for (const Index workers : {1, 2})
      EXPECT_TRUE(initialised(3, limit, workers) == whole) << limit << ", " << workers;
}

TEST(Initialisation, SeedsAndNamesGiveDifferentValues) {
  const Values three = initialised(3, 5'000'000, 2);
  const Values four = initialised(4, 5'000'000, 2);
  const auto& weight = three.at("blocks.0.mlp.up.weight");
  const auto& other_seed = four.at("blocks.0.mlp.up.weight");
  const auto& other_name = three.at("blocks.1.mlp.up.weight");
  Index equal = 0;
  for (std::size_t i = 0; i < weight.size(); ++i)
    equal += weight[i] == other_seed[i] || weight[i] == other_name[i] ? 1 : 0;
  // Two independent normal numbers in FP32 agree with a probability of about 2^-24.
  EXPECT_LE(equal, 2);
}

TEST(Initialisation, MatricesAreNormalWithTheDeviationOfTheirPlace) {
  for (const auto& [name, tensor] : initialised(3, 1000, 2)) {
    if (!name.ends_with("weight") || name.find("norm") != std::string::npos) continue;
    SCOPED_TRACE(name);
    const bool residual = name.ends_with("projection.weight") || name.ends_with("down.weight");
    const double deviation =
        residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(kModel.layers)) : 0.02;
    const auto n = static_cast<double>(tensor.size());
    double sum = 0;
    double squares = 0;
    double largest = 0;
    for (const float value : tensor) {
      sum += value;
      squares += static_cast<double>(value) * static_cast<double>(value);
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    // Standard errors: of a mean deviation / sqrt(n), of a deviation deviation / sqrt(2 n).
    EXPECT_NEAR(sum / n, 0.0, 5 * deviation / std::sqrt(n));
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 5 * deviation / std::sqrt(2 * n));
    // Tails: of 1536 or more values the largest lies above 2.5 deviations but for one seed in 10^8,
    // below 6 deviations but for one in 10^4.
    EXPECT_GT(largest, 2.5 * deviation);
    EXPECT_LT(largest, 6.0 * deviation);
  }
}

TEST(Initialisation, WorkingParametersAreTheRoundedValues) {
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  rt::Submitter submitter(session);
  const tensor::ParameterSet set(
      session, shape::cut_into_subgroups(shape::find_family("gpt2").parameters(kModel), 1000, {}),
      {.working = DType::kBF16});
  submit_initialisation(submitter, set, 3);
  for (Index s = 0; s < std::ssize(set.layout().subgroups); ++s) {
    const rt::HostAccess values(set.values()[s], rt::Mode::kRead);
    const rt::HostAccess working(set.working()[s], rt::Mode::kRead);
    const auto p = values.as<const float>();
    const auto w = working.as<const BF16>();
    ASSERT_TRUE(std::equal(p.begin(), p.end(), w.begin(), w.end(),
                           [](float value, BF16 rounded) { return to_bf16(value) == rounded; }));
  }
}

// Of FP32 they have no values; whether they are trained changes no bit of what forward reads.
TEST(Initialisation, OfWhatIsFrozenIsRounded) {
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  rt::Submitter submitter(session);
  auto specs = shape::find_family("gpt2").parameters(kModel);
  const auto working = [&] {
    const tensor::ParameterSet set(session, shape::cut_into_subgroups(specs, 1000, {}),
                                   {.working = DType::kBF16});
    submit_initialisation(submitter, set, 3);
    return values_in(set.working(), set.layout());
  };
  const Values trained = working();
  for (std::size_t i = 0; i < specs.size(); ++i) specs[i].trained = specs[i].depth != 2;
  EXPECT_TRUE(working() == trained);
}

TEST(Initialisation, NormsAreOneAndBiasesZero) {
  for (const auto& [name, tensor] : initialised(3, 1000, 2)) {
    const bool norm_weight = name.find("norm") != std::string::npos && name.ends_with("weight");
    if (!norm_weight && !name.ends_with("bias")) continue;
    for (const float value : tensor) EXPECT_EQ(value, norm_weight ? 1.0F : 0.0F) << name;
  }
}

}  // namespace
}  // namespace dos::nn::initialise_test
