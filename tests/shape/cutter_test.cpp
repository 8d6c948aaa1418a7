// SPDX-License-Identifier: Apache-2.0
#include "shape/cutter.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "message_of.hpp"
#include "shape/model.hpp"

namespace dos::shape::cutter_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ParameterSpec matrix(const std::string& name, Index rows, Index columns, Index depth = 0) {
  return {name, rows, columns, {}, depth};
}
ParameterSpec vector(const std::string& name, Index count, Index depth = 0) {
  return {name, 0, count, {}, depth};
}

std::vector<ParameterSpec> specs_of(const ModelConfig& config) {
  return find_family(config.architecture).parameters(config);
}

std::vector<Index> counts_of(const Layout& layout) {
  std::vector<Index> counts;
  for (const Subgroup& subgroup : layout.subgroups) counts.push_back(subgroup.count);
  return counts;
}

/// Every element of every subgroup belongs to exactly one element of one parameter.
void expect_partition(const Layout& layout, const std::vector<ParameterSpec>& specs) {
  ASSERT_EQ(layout.parameters.size(), specs.size());
  std::map<Index, std::vector<Piece>> by_subgroup;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const PlacedParameter& parameter = layout.parameters[i];
    EXPECT_EQ(parameter.spec.name, specs[i].name);
    Index count = 0;
    for (const Piece& piece : pieces_of(parameter)) {
      EXPECT_GT(piece.count, 0);
      count += piece.count;
      by_subgroup[piece.subgroup].push_back(piece);
    }
    EXPECT_EQ(count, specs[i].count()) << specs[i].name;
  }
  ASSERT_EQ(by_subgroup.size(), layout.subgroups.size());
  for (auto& [subgroup, pieces] : by_subgroup) {
    std::sort(pieces.begin(), pieces.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    Index next = 0;
    for (const Piece& piece : pieces) {
      EXPECT_EQ(piece.offset, next);
      next += piece.count;
    }
    ASSERT_GE(subgroup, 0);
    ASSERT_LT(subgroup, std::ssize(layout.subgroups));
    EXPECT_EQ(next, layout.subgroups[static_cast<std::size_t>(subgroup)].count);
  }
}

/// A matrix's blocks hold equally many rows, but for the last, which may lack fewer rows than there
/// are blocks: rows_per_block = ceil(rows / count), so count * rows_per_block - rows < count. Where
/// rows_per_block is rounded up to a `multiple`, it may lack that many times as many.
void expect_near_equal(const Layout& layout, Index multiple = 1) {
  for (const PlacedParameter& parameter : layout.parameters) {
    if (!parameter.spec.is_matrix()) continue;
    const RowBlocking& blocking = parameter.blocking;
    const Index last = blocking.rows_of(blocking.count() - 1);
    EXPECT_LT(blocking.rows_per_block - last, multiple * blocking.count()) << parameter.spec.name;
    EXPECT_GE(last, 1) << parameter.spec.name;
  }
}

/// As few blocks as the limit allows.
void expect_few(const Layout& layout, Index limit) {
  for (const PlacedParameter& parameter : layout.parameters) {
    if (!parameter.spec.is_matrix()) continue;
    const Index rows = limit / parameter.spec.columns;
    EXPECT_EQ(parameter.blocking.count(), ceil_div(parameter.spec.rows, rows))
        << parameter.spec.name;
  }
}

TEST(Subgroups, CoverEveryParameterOnceWhateverTheLimit) {
  const std::vector<ParameterSpec> specs = specs_of({"gpt2", 2, 24, 3, 16, 61});
  for (const Index limit : {96, 97, 120, 191, 192, 250, 312, 600, 1000, 2303, 2304, 5'000'000}) {
    SCOPED_TRACE(limit);
    const Layout layout = cut_into_subgroups(specs, limit, {});
    expect_partition(layout, specs);
    expect_near_equal(layout);
    expect_few(layout, limit);
    std::set<std::string> names;
    for (const Subgroup& subgroup : layout.subgroups) {
      EXPECT_LE(subgroup.count, limit) << subgroup.name;
      EXPECT_TRUE(names.insert(subgroup.name).second) << subgroup.name;
    }
  }
}

TEST(Subgroups, AnyNumberOfRowsIsCutNearEqually) {
  for (Index rows = 1; rows <= 40; ++rows)
    for (Index limit = 3; limit <= 3 * rows + 3; ++limit) {
      const std::vector<ParameterSpec> specs{matrix("w", rows, 3)};
      const Layout layout = cut_into_subgroups(specs, limit, {});
      expect_partition(layout, specs);
      expect_near_equal(layout);
      expect_few(layout, limit);
    }
}

// Where the limit is at least 64 rows: so a block's first row is aligned to 16 bytes in BF16.
TEST(Subgroups, LargeBlocksBeginAtMultiplesOf8) {
  for (const Index rows : {64, 65, 71, 72, 128, 129, 1000, 3072, 50257})
    for (Index most = 64; most <= rows + 8; most += most < 200 ? 1 : 97) {
      SCOPED_TRACE(testing::Message() << rows << " rows in blocks of at most " << most);
      const std::vector<ParameterSpec> specs{matrix("w", rows, 3)};
      const Layout layout = cut_into_subgroups(specs, 3 * most + 2, {});
      expect_partition(layout, specs);
      expect_near_equal(layout, 8);
      const RowBlocking& blocking = layout.parameters.front().blocking;
      EXPECT_LE(blocking.rows_per_block, most);
      EXPECT_LE(blocking.count(), ceil_div(rows, rows <= most ? most : most / 8 * 8));
      for (Index b = 0; b < blocking.count(); ++b) EXPECT_EQ(blocking.first_row(b) % 8, 0);
    }
  const Layout gpt2 = cut_into_subgroups(
      specs_of(find_preset("gpt2-124m", "model", preset_names())), 5'000'000, {});
  EXPECT_EQ(gpt2.subgroups.front().name, "token_embedding.weight[0:6288]");
}

TEST(Subgroups, BlocksAreNamedByTheirRows) {
  const Layout layout = cut_into_subgroups({matrix("w", 10, 2), matrix("whole", 3, 2)}, 8, {});
  EXPECT_THAT(counts_of(layout), ElementsAre(8, 8, 4, 6));
  EXPECT_EQ(layout.subgroups[0].name, "w[0:4]");
  EXPECT_EQ(layout.subgroups[2].name, "w[8:10]");
  EXPECT_EQ(layout.subgroups[3].name, "whole");
}

TEST(Subgroups, NothingGivesNothing) {
  const Layout layout = cut_into_subgroups({}, 1, {});
  EXPECT_TRUE(layout.parameters.empty());
  EXPECT_TRUE(layout.subgroups.empty());
}

TEST(Subgroups, VectorsOfOneDepthShareASubgroup) {
  const Layout layout = cut_into_subgroups(
      {vector("a.norm.weight", 4, 1), vector("a.norm.bias", 4, 1), matrix("a.w.weight", 2, 2, 1),
       vector("a.w.bias", 2, 1), vector("b.norm.weight", 4, 2), vector("b.norm.bias", 4, 2)},
      100, {});
  EXPECT_THAT(counts_of(layout), ElementsAre(10, 4, 8));
  EXPECT_EQ(layout.find("a.w.bias").first_subgroup, 0);
  EXPECT_EQ(layout.find("a.w.bias").offset, 8);
  EXPECT_EQ(layout.find("b.norm.bias").first_subgroup, 2);
  EXPECT_EQ(layout.find("b.norm.bias").offset, 4);
  EXPECT_EQ(layout.subgroups[0].depth, 1);
  EXPECT_EQ(layout.subgroups[2].depth, 2);
}

// Kernels read a norm's weight and bias from one buffer.
TEST(Subgroups, AFullSubgroupIsClosedButANormStaysTogether) {
  const Layout layout = cut_into_subgroups(
      {vector("n1.weight", 3, 1), vector("n1.bias", 3, 1), vector("n2.weight", 3, 1),
       vector("n2.bias", 3, 1), vector("b.bias", 2, 1)},
      8, {});
  EXPECT_THAT(counts_of(layout), ElementsAre(6, 8));
  EXPECT_EQ(layout.find("n2.weight").first_subgroup, 1);
  EXPECT_EQ(layout.find("n2.bias").first_subgroup, 1);
  EXPECT_NE(layout.subgroups[0].name, layout.subgroups[1].name);
}

TEST(Subgroups, NormsStayTogetherInEveryPreset) {
  for (const std::string& preset : preset_names("gpt2")) {
    SCOPED_TRACE(preset);
    ModelConfig config = find_preset(preset, "model", preset_names());
    // All layers are alike, and the largest models have millions of such subgroups.
    config.layers = std::min<Index>(config.layers, 2);
    // The smallest limit that is possible: the longest row or bias.
    const Layout layout = cut_into_subgroups(specs_of(config), 4 * config.width, {});
    for (const PlacedParameter& parameter : layout.parameters) {
      const std::string& name = parameter.spec.name;
      if (parameter.spec.is_matrix() || !name.ends_with(".weight")) continue;
      const std::string bias = name.substr(0, name.size() - 6) + "bias";
      EXPECT_EQ(layout.find(bias).first_subgroup, parameter.first_subgroup) << name;
    }
  }
}

TEST(Subgroups, ARowAboveTheLimitIsAnError) {
  EXPECT_THAT([] { cut_into_subgroups({matrix("m.weight", 3, 10)}, 9, {}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("sched.subgroup_params = 9"),
                                         HasSubstr("one row of m.weight"),
                                         HasSubstr("10 parameters"), HasSubstr("raise it"))));
  EXPECT_NO_THROW(cut_into_subgroups({matrix("m.weight", 3, 10)}, 10, {}));
}

TEST(Subgroups, AModulesVectorsAboveTheLimitAreAnError) {
  const std::vector<ParameterSpec> norm{vector("n.weight", 5), vector("n.bias", 5)};
  EXPECT_THAT(
      [&] { cut_into_subgroups(norm, 9, {}); },
      ThrowsMessage<Error>(AllOf(HasSubstr("the vectors of n (10 parameters)"), HasSubstr("= 9"))));
  EXPECT_NO_THROW(cut_into_subgroups(norm, 10, {}));
}

TEST(Subgroups, ALimitBelowOneIsAnError) {
  for (const Index limit : {0, -5})
    EXPECT_THAT([&] { cut_into_subgroups({}, limit, {}); },
                ThrowsMessage<Error>(HasSubstr("sched.subgroup_params must be at least 1")));
}

/// Names of the parameters in subgroups that decay.
std::set<std::string> decayed(const std::vector<ParameterSpec>& specs, const DecayGroups& groups) {
  const Layout layout = cut_into_subgroups(specs, 5'000'000, groups);
  std::set<std::string> names;
  for (const PlacedParameter& parameter : layout.parameters)
    if (layout.subgroups[static_cast<std::size_t>(parameter.first_subgroup)].decay)
      names.insert(parameter.spec.name);
  return names;
}

std::set<std::string> kernels_of_two_blocks() {
  std::set<std::string> names;
  for (const char* block : {"blocks.0.", "blocks.1."})
    for (const char* linear : {"attention.qkv", "attention.projection", "mlp.up", "mlp.down"})
      names.insert(std::string(block) + linear + ".weight");
  return names;
}

TEST(DecayGroups, DefaultIsTheMatricesOfTheBlocks) {
  EXPECT_EQ(decayed(specs_of({"gpt2", 2, 24, 3, 16, 61}), {}), kernels_of_two_blocks());
}

TEST(DecayGroups, EmbeddingsAndVectorsOnRequest) {
  const std::vector<ParameterSpec> specs = specs_of({"gpt2", 2, 24, 3, 16, 61});
  std::set<std::string> names = kernels_of_two_blocks();
  names.insert({"token_embedding.weight", "position_embedding.weight"});
  EXPECT_EQ(decayed(specs, {.vectors = false, .embeddings = true, .excluded = {}}), names);
  EXPECT_EQ(decayed(specs, {.vectors = true, .embeddings = true, .excluded = {}}).size(),
            specs.size());
  EXPECT_EQ(decayed(specs, {.vectors = true, .embeddings = false, .excluded = {}}).size(),
            specs.size() - 2);
}

TEST(DecayGroups, PatternsExcludeFurtherMatrices) {
  const std::vector<ParameterSpec> specs = specs_of({"gpt2", 2, 24, 3, 16, 61});
  const auto with = [&](std::vector<std::string> patterns) {
    return decayed(specs, {.vectors = false, .embeddings = false, .excluded = std::move(patterns)});
  };
  EXPECT_EQ(with({"blocks.1.*", "*.qkv.weight"}),
            (std::set<std::string>{"blocks.0.attention.projection.weight", "blocks.0.mlp.up.weight",
                                   "blocks.0.mlp.down.weight"}));
  EXPECT_EQ(with({"blocks.?.mlp.[ud]*"}).size(), 4U);
  EXPECT_EQ(with({"*"}).size(), 0U);
}

TEST(DecayGroups, APatternThatMatchesNoMatrixIsAMistake) {
  const std::vector<ParameterSpec> specs = specs_of({"gpt2", 2, 24, 3, 16, 61});
  const auto error_of = [&](const std::string& pattern) {
    return test::message_of<Error>([&] {
      cut_into_subgroups(
          specs, 1 << 20,
          {.vectors = false, .embeddings = false, .excluded = {"*.up.weight", pattern}});
    });
  };
  EXPECT_EQ(error_of("*.down.weight"), "");
  // A pattern names whole names, and vectors do not decay anyway.
  for (const char* pattern : {"mlp", "blocks.0", "", "*.up.weights", "blocks.2.*", "*.bias", "["})
    EXPECT_THAT(
        error_of(pattern),
        HasSubstr(fmt::format("optim.no_decay: '{}' matches no matrix of the model", pattern)));
}

TEST(CutIntoSubgroups, NotIntoMoreThanOneCanCount) {
  const auto cut = [](Index limit) {
    return [limit] { cut_into_subgroups({matrix("a.weight", 1'000'000, 2)}, limit, {}); };
  };
  EXPECT_NO_THROW(cut(10)());
  EXPECT_THAT(cut(9),
              testing::ThrowsMessage<Error>(HasSubstr("more than 200000: raise it above 10")));
}

TEST(DecayGroups, EveryBlockOfAMatrixDecaysAlike) {
  const Layout layout =
      cut_into_subgroups({matrix("a.weight", 10, 2), matrix("b.weight", 10, 2)}, 4,
                         {.vectors = false, .embeddings = false, .excluded = {"b.*"}});
  for (const Subgroup& subgroup : layout.subgroups)
    EXPECT_EQ(subgroup.decay, subgroup.name.starts_with("a")) << subgroup.name;
}

}  // namespace
}  // namespace dos::shape::cutter_test
