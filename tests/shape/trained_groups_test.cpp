// SPDX-License-Identifier: Apache-2.0
#include "shape/trained_groups.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "shape/cutter.hpp"
#include "shape/model.hpp"
#include "shape/owners.hpp"

namespace dos::shape::trained_groups_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// Two blocks of GPT-2.
std::vector<ParameterSpec> gpt2_parameters() {
  return gpt2().parameters({"gpt2", 2, 8, 2, 4, 11});
}

std::vector<ParameterSpec> marked(const TrainedGroups& groups,
                                  std::vector<ParameterSpec> parameters = gpt2_parameters()) {
  mark_trained(groups, parameters);
  return parameters;
}

std::set<std::string> frozen_names(const std::vector<ParameterSpec>& parameters) {
  std::set<std::string> names;
  for (const ParameterSpec& spec : parameters)
    if (!spec.trained) names.insert(spec.name);
  return names;
}

TEST(TrainedGroups, NothingIsFrozenUnlessItIsNamed) {
  for (const ParameterSpec& spec : marked({})) {
    EXPECT_TRUE(spec.trained) << spec.name;
    EXPECT_EQ(spec.lr_factor, 1) << spec.name;
  }
}

TEST(TrainedGroups, PatternsAreShellPatternsOfWholeNames) {
  EXPECT_THAT(frozen_names(marked({.frozen = {"*_embedding.*"}, .factors = {}})),
              ElementsAre("position_embedding.weight", "token_embedding.weight"));
  EXPECT_THAT(
      frozen_names(marked({.frozen = {"blocks.[1-9].mlp.u?.*", "final_norm.*"}, .factors = {}})),
      ElementsAre("blocks.1.mlp.up.bias", "blocks.1.mlp.up.weight", "final_norm.bias",
                  "final_norm.weight"));
}

TEST(TrainedGroups, TheFirstFactorThatMatchesCounts) {
  const auto parameters =
      marked({.frozen = {"blocks.1.mlp.*"},
              .factors = {{"blocks.0.*", 0.5}, {"*.mlp.*", 0}, {"blocks.*", 3}}});
  for (const ParameterSpec& spec : parameters) {
    const bool is_first = spec.name.starts_with("blocks.0.");
    const bool is_second = spec.name.starts_with("blocks.1.") && spec.trained;
    EXPECT_EQ(spec.lr_factor, is_first ? 0.5 : is_second ? 3 : 1) << spec.name;
  }
}

TEST(TrainedGroups, MistakesAreNamed) {
  const auto refused = [](const TrainedGroups& groups, const auto& message) {
    EXPECT_THAT([&] { marked(groups); }, ThrowsMessage<Error>(message));
  };
  refused({.frozen = {"blocks.0.atention.qkv.weight"}, .factors = {}},
          AllOf(HasSubstr("optim.freeze: 'blocks.0.atention.qkv.weight' matches no parameter"),
                HasSubstr("did you mean 'blocks.0.attention.qkv.weight'?")));
  refused({.frozen = {"*"}, .factors = {}},
          HasSubstr("optim.freeze = '*' freezes every parameter"));
  refused({.frozen = {}, .factors = {{"head.weight", 1}}},
          HasSubstr("optim.lr_factors: 'head.weight' matches no parameter that is trained"));
  refused({.frozen = {"blocks.0.*"}, .factors = {{"blocks.0.mlp.*", 2}}},
          HasSubstr("optim.lr_factors: 'blocks.0.mlp.*' matches no parameter that is trained"));
  refused({.frozen = {"*.norm1.bias"}, .factors = {}},
          AllOf(HasSubstr("'blocks.0.norm1.weight' would be trained with factor 1"),
                HasSubstr("'blocks.0.norm1.bias' frozen"), HasSubstr("'blocks.0.norm1.*'")));
  refused({.frozen = {}, .factors = {{"final_norm.weight", 2}}},
          AllOf(HasSubstr("'final_norm.weight' would be trained with factor 2"),
                HasSubstr("'final_norm.bias' trained with factor 1")));
}

TEST(TrainedGroups, FactorsAreRead) {
  const auto factors = parse_factors("key", "a.*:0.5,,b:c:2e-3,d:0");
  ASSERT_EQ(factors.size(), 3U);
  EXPECT_EQ(factors[0].pattern, "a.*");
  EXPECT_EQ(factors[0].factor, 0.5);
  EXPECT_EQ(factors[1].pattern, "b:c");
  EXPECT_EQ(factors[1].factor, 2e-3);
  EXPECT_EQ(factors[2].factor, 0);
  EXPECT_THAT(parse_factors("key", ""), IsEmpty());
  EXPECT_THAT(parse_patterns(",a,,b,"), ElementsAre("a", "b"));
  for (const char* bad : {"a", "a:", ":1", "a:x", "a:1x", "a:-1", "a:nan", "a:inf", "a:1e999"})
    EXPECT_THAT([&] { parse_factors("key", bad); },
                ThrowsMessage<Error>(
                    AllOf(HasSubstr("key = '"), HasSubstr(bad), HasSubstr("is no PATTERN:FACTOR"))))
        << bad;
}

/// A random choice of modules to freeze and to slow down.
TrainedGroups random_groups(const std::vector<ParameterSpec>& parameters, std::uint64_t seed) {
  const Philox random(seed);
  TrainedGroups groups;
  std::set<std::string> seen;
  for (const ParameterSpec& spec : parameters) {
    const std::string module = module_of(spec.name);
    if (!seen.insert(module).second) continue;
    const double drawn = random.uniform(seen.size(), 0);
    if (drawn < 0.4) groups.frozen.push_back(module + ".*");
    if (drawn > 0.7) groups.factors.push_back({module + ".*", drawn > 0.85 ? 0.5 : 2});
  }
  return groups;
}

TEST(TrainedGroups, SubgroupsAreTrainedAlike) {
  ModelConfig llama_config{"llama", 3, 16, 4, 7, 61, 2, 21};
  llama_config.qkv_bias = llama_config.qk_norm = true;
  const std::vector<std::vector<ParameterSpec>> models{gpt2_parameters(),
                                                       llama().parameters(llama_config)};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<ParameterSpec> parameters = models[seed % 2];
    mark_trained(random_groups(parameters, seed), parameters);
    const Layout layout = cut_into_subgroups(parameters, 64 + static_cast<Index>(seed) * 7,
                                             {.vectors = true, .excluded = {}});
    std::vector<Index> counts(layout.subgroups.size());
    Index trained = 0;
    Index first = layout.parameters.back().spec.depth + 1;
    for (const PlacedParameter& placed : layout.parameters) {
      trained += placed.spec.trained ? placed.spec.count() : 0;
      if (placed.spec.trained) first = std::min(first, placed.spec.depth);
      for (const Piece& piece : pieces_of(placed)) {
        const Subgroup& subgroup = layout.subgroups[static_cast<std::size_t>(piece.subgroup)];
        EXPECT_EQ(subgroup.trained, placed.spec.trained) << placed.spec.name;
        EXPECT_EQ(subgroup.lr_factor, placed.spec.lr_factor) << placed.spec.name;
        EXPECT_EQ(piece.offset, counts[static_cast<std::size_t>(piece.subgroup)]);
        counts[static_cast<std::size_t>(piece.subgroup)] += piece.count;
      }
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(counts[i], layout.subgroups[i].count);
      EXPECT_TRUE(names.insert(layout.subgroups[i].name).second) << layout.subgroups[i].name;
    }
    EXPECT_EQ(layout.trained_count(), trained);
    EXPECT_EQ(layout.first_trained_depth(), first);
  }
}

TEST(TrainedGroups, ANarrowSetOfVectorsCostsOneSubgroupMoreADepth) {
  const Layout all = cut_into_subgroups(gpt2_parameters(), 1000, {});
  const Layout some =
      cut_into_subgroups(marked({.frozen = {"blocks.0.norm2.*"}, .factors = {}}), 1000, {});
  EXPECT_EQ(some.subgroups.size(), all.subgroups.size() + 1);
  EXPECT_EQ(some.parameter_count(), all.parameter_count());
  EXPECT_EQ(some.parameter_count() - some.trained_count(), 2 * 8);
}

// What is frozen is no work: the trained part is dealt as if it were alone.
TEST(TrainedGroups, OwnersShareWhatIsTrained) {
  const Layout layout =
      cut_into_subgroups(marked({.frozen = {"blocks.0.*", "token*"}, .factors = {}}), 100, {});
  const std::vector<double> weights{1, 1, 0.5};
  const std::vector<Index> owners = owners_of(layout, weights);
  for (const bool trained : {true, false}) {
    std::vector<Index> counts;
    std::vector<Index> dealt;
    for (std::size_t i = 0; i < owners.size(); ++i)
      if (layout.subgroups[i].trained == trained) {
        counts.push_back(layout.subgroups[i].count);
        dealt.push_back(owners[i]);
      }
    EXPECT_EQ(dealt, assign_owners(counts, weights));
  }
}

}  // namespace
}  // namespace dos::shape::trained_groups_test
