// SPDX-License-Identifier: Apache-2.0
#include "inference/evaluation.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/random.hpp"
#include "base/target.hpp"
#include "fails_with.hpp"
#include "models/demand.hpp"
#include "scratch_directory.hpp"

namespace dos::inference::evaluation_test {
namespace {

using test::fails_with;

constexpr const char* kModels[] = {"gpt2", "llama3", "mistral", "qwen2", "qwen3"};

std::filesystem::path folder_of(const std::string& model) {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "tests/reference/hf_tiny" / model;
}

TEST(WindowGroups, PredictEveryTokenButTheFirstOnce) {
  for (std::uint64_t number = 0; number < 400; ++number) {
    const auto up_to = [&](std::uint64_t which, double most) {
      return 1 + static_cast<Index>(Philox(3).uniform(number, which) * most);
    };
    const Index tokens = 1 + up_to(0, 60);
    const Index length = up_to(1, 30);
    const Index batch = up_to(2, 6);
    Index next = 0;
    for (const WindowGroup& group : window_groups(tokens, length, batch)) {
      EXPECT_EQ(group.first, next);
      EXPECT_EQ(group.count % group.batch, 0);
      EXPECT_LE(group.batch, batch);
      // Only the last window is shorter.
      EXPECT_TRUE(group.length == length ||
                  (group.count == 1 && group.first + group.length == tokens - 1));
      next += group.count * group.length;
    }
    EXPECT_EQ(next, tokens - 1);
  }
}

TEST(WindowGroups, OneTokenHasNone) {
  EXPECT_TRUE(window_groups(1, 8, 2).empty());
}

/// A folder's model, and what transformers made of it in float64.
struct Reference {
  explicit Reference(const std::string& name)
      : source(folder_of(name), ""),
        expected(nlohmann::json::parse(std::ifstream(folder_of(name) / "inference.json"))) {
    data::TokenWriter writer(file, source.model().vocabulary);
    writer.append(expected.at("tokens").get<std::vector<std::int32_t>>());
    writer.commit();
  }

  test::ScratchDirectory scratch;
  std::filesystem::path file = scratch / "tokens.bin";
  train::ModelSource source;
  nlohmann::json expected;
};

// A logit sums some hundred products of numbers below 4 and a dozen roundings lie behind each: its
// error is below 4 * sqrt(1000) * 2^-24 = 8e-6, and so is that of a loss, which moves by no more
// than two logits' errors; the mean of 82 keeps less.
constexpr double kTolerance = 1e-5;

TEST(Evaluation, EqualsTransformersForEveryWindow) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  for (const char* name : kModels) {
    const Reference reference(name);
    const data::TokenFile file(reference.file);
    TrainedModel trained(session, reference.source);
    for (const auto& [window, loss] : reference.expected.at("losses").items())
      for (const Index batch : {1, 2, 5}) {
        SCOPED_TRACE(fmt::format("{} window {} batch {}", name, window, batch));
        const auto model = with_context(reference.source, std::stoll(window), "--context");
        Index last = 0;
        const Evaluation result = evaluate(trained, model, DType::kF32, file, nullptr, batch,
                                           [&](const Evaluation& done) {
                                             EXPECT_GT(done.tokens, last);
                                             last = done.tokens;
                                           });
        EXPECT_EQ(result.tokens, 82);
        EXPECT_EQ(last, 82);
        EXPECT_NEAR(result.mean(), loss.get<double>(), kTolerance);
      }
  }
}

TEST(Evaluation, WhatCountsAndWhatDoesNotAreAllTogether) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  const Reference reference("llama3");
  const data::TokenFile file(reference.file);
  TrainedModel trained(session, reference.source);
  const auto model = with_context(reference.source, 9, "--context");
  std::vector<std::int32_t> some(static_cast<std::size_t>(file.size()), 1);
  std::vector<std::int32_t> others = some;
  for (std::size_t i = 0; i < some.size(); ++i) {
    std::int32_t& element = i % 3 == 0 ? some[i] : others[i];
    element = input_only(element);
  }
  const auto masked = [&](const std::vector<std::int32_t>& elements) {
    data::MaskWriter writer(reference.scratch / "tokens.mask");
    writer.append(elements);
    (void)writer.finish();
    writer.commit();
    const data::MaskFile mask(reference.scratch / "tokens.mask");
    return evaluate(trained, model, DType::kF32, file, &mask, 2, [](const Evaluation&) {});
  };
  const Evaluation all =
      evaluate(trained, model, DType::kF32, file, nullptr, 2, [](const Evaluation&) {});
  const Evaluation first = masked(some);
  const Evaluation second = masked(others);
  // Of tokens 1 .. 82 those with i % 3 == 0 are 27.
  EXPECT_EQ(first.tokens, 55);
  EXPECT_EQ(second.tokens, 27);
  EXPECT_GT(second.loss, 0);
  EXPECT_NEAR(first.loss + second.loss, all.loss, 82 * 1e-7);
  EXPECT_THAT([&] { masked(std::vector<std::int32_t>(some.size(), input_only(1))); },
              fails_with({"no token counts"}));
}

TEST(Evaluation, InBf16ComesNear) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  const Reference reference("llama3");
  TrainedModel trained(session, reference.source, DType::kBF16);
  const Evaluation result =
      evaluate(trained, with_context(reference.source, 16, "--context"), DType::kBF16,
               data::TokenFile(reference.file), nullptr, 2, [](const Evaluation&) {});
  // Each of some 20 roundings moves a number by 2^-9 of itself, logits are of size 1.
  const double expected = reference.expected.at("losses").at("16");
  EXPECT_NEAR(result.mean(), expected, 0.04);
  EXPECT_NE(result.mean(), expected);
}

TEST(TrainedModel, InBf16IsHalfOfOneInFp32) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  for (const char* name : kModels) {
    const Reference reference(name);
    const auto model = with_context(reference.source, 16, "--context");
    const data::TokenFile file(reference.file);
    Index exact = 0;
    {
      const TrainedModel trained(session, reference.source);
      exact = session.memory().now().total();
    }
    TrainedModel trained(session, reference.source, DType::kBF16);
    EXPECT_EQ(session.memory().now().total(), exact / 2);
    evaluate(trained, model, DType::kBF16, file, nullptr, 2, [](const Evaluation&) {});
  }
}

TEST(Evaluation, NeedsWhatIsSaidBefore) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  const Reference reference("qwen3");
  TrainedModel trained(session, reference.source);
  const Index before = session.memory().now().total();
  Index most = 0;
  const auto model = with_context(reference.source, 9, "--context");
  const data::TokenFile file(reference.file);
  evaluate(trained, model, DType::kF32, file, nullptr, 3, [&](const Evaluation&) {
    most = std::max(most, session.memory().now().total() - before);
  });
  const Use use = evaluation_use(model, DType::kF32, file.size(), 3, session);
  rt::MemoryBytes said = models::buffers(use.model, use.run, {.all = use.workers});
  EXPECT_EQ(most, said.total());
}

TEST(Evaluation, NamesATokenOutsideTheVocabulary) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 1});
  const train::ModelSource source(folder_of("qwen2"), "");
  const test::ScratchDirectory scratch;
  data::TokenWriter writer(scratch / "tokens.bin", 500);
  writer.append(std::vector<std::int32_t>{1, 2, 3, 4, 61});
  writer.commit();
  TrainedModel trained(session, source);
  EXPECT_THAT(
      [&] {
        evaluate(trained, with_context(source, 2, "--context"), DType::kF32,
                 data::TokenFile(scratch / "tokens.bin"), nullptr, 1, [](const Evaluation&) {});
      },
      fails_with({"tokens.bin: token 61 at position 4 is outside"}));
}

TEST(TrainedModel, ATableOfPositionsEnds) {
  const train::ModelSource gpt2(folder_of("gpt2"), "");
  EXPECT_EQ(with_context(gpt2, 0, "--context").context, 32);
  EXPECT_EQ(with_context(gpt2, 32, "--context").context, 32);
  EXPECT_THAT([&] { with_context(gpt2, 33, "--context"); },
              fails_with({"--context = 33", "a table of 32 positions"}));
  EXPECT_THAT([&] { with_context(gpt2, -1, "--context"); },
              fails_with({"--context must be at least 1, got -1"}));
  EXPECT_EQ(with_context(train::ModelSource(folder_of("llama3"), ""), 999, "--context").context,
            999);
}

TEST(TrainedModel, TooLittleMemoryIsFoundBefore) {
  const train::ModelSource source(folder_of("llama3"), "");
  Use use{.model = with_context(source, Index{1} << 24, "--context"),
          .run = {.batch = 64, .lanes = 2, .training = false},
          .workers = 2};
  EXPECT_THAT([&] { expect_room(source, use, "lower --batch"); },
              fails_with({"llama3: the model needs ", "use a machine with more, lower --batch"}));
  use.model.context = 16;
  EXPECT_NO_THROW(expect_room(source, use, ""));
}

}  // namespace
}  // namespace dos::inference::evaluation_test
