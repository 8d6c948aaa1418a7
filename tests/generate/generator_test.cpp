// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/decoder.hpp"

namespace dos::generate {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr const char* kModels[] = {"gpt2", "llama3", "mistral", "qwen2", "qwen3"};

std::filesystem::path folder_of(const std::string& model) {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "tests/reference/hf_tiny" / model;
}

/// A vocabulary of which no token ends a text.
class Endless final : public data::Tokenizer {
 public:
  explicit Endless(Index vocabulary) : vocabulary_(vocabulary) {}
  [[nodiscard]] Tokens encode(std::string_view /*text*/) const override { return {}; }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> /*tokens*/) const override {
    return "";
  }
  [[nodiscard]] Index vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::string kind() const override { return "endless"; }
  [[nodiscard]] std::int32_t end_of_text() const override { return -1; }

 private:
  Index vocabulary_;
};

/// The most likely tokens behind a prompt.
Tokens continued(rt::Session& session, const train::ModelSource& source, Tokens tokens,
                 Index count) {
  const auto prompt = std::ssize(tokens);
  Generator generator(session, source, Generator::use(source, prompt, count));
  Index grown = 0;
  generator.generate(tokens, count, Sampler({.temperature = 0}), Endless(source.model().vocabulary),
                     [&] { ++grown; });
  EXPECT_EQ(grown, count);
  return {tokens.begin() + prompt, tokens.end()};
}

TEST(Generator, ContinuesAsTransformers) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  for (const char* name : kModels) {
    const train::ModelSource source(folder_of(name), "");
    const auto expected = nlohmann::json::parse(std::ifstream(folder_of(name) / "inference.json"));
    for (const auto& each : expected.at("greedy")) {
      const Tokens next = each.at("continuation");
      EXPECT_EQ(continued(session, source, each.at("prompt"), std::ssize(next)), next) << name;
    }
  }
}

/// Of at most the last `context` tokens, all computed for each.
Tokens computed_anew(rt::Session& session, const train::ModelSource& source, Tokens tokens,
                     Index count) {
  inference::TrainedModel trained(session, source);
  models::Decoder decoder(session, trained.parameters(), source.model(),
                          {.training = false, .logits_rows = 1});
  const Index context = source.model().context;
  Tokens result;
  for (Index i = 0; i < count; ++i) {
    const Index used = std::min(context, static_cast<Index>(tokens.size()));
    Tokens window(static_cast<std::size_t>(context) + 1, 0);
    std::copy(tokens.end() - used, tokens.end(), window.begin());
    const rt::Handle& logits = decoder.predict(trained.submitter(), window, used - 1);
    const rt::HostAccess access(logits, rt::Mode::kRead);
    const auto all =
        access.as<const float>().first(static_cast<std::size_t>(source.model().vocabulary));
    result.push_back(static_cast<std::int32_t>(std::ranges::max_element(all) - all.begin()));
    tokens.push_back(result.back());
  }
  return result;
}

// The window moves: by one token from the context's end on, or from the start on.
TEST(Generator, SeesTheLastTokensOfItsContext) {
  rt::Session session({.scheduler = "lws", .cpu_workers = 2});
  const train::ModelSource source(folder_of("gpt2"), "");
  const auto text = nlohmann::json::parse(std::ifstream(folder_of("gpt2") / "inference.json"))
                        .at("tokens")
                        .get<Tokens>();
  for (const Index prompt : {1, 20, 32, 33, 70}) {
    const Tokens tokens(text.begin(), text.begin() + prompt);
    EXPECT_EQ(continued(session, source, tokens, 40), computed_anew(session, source, tokens, 40))
        << prompt;
  }
}

TEST(Generator, NeedsRoomForItsTokensOnly) {
  const train::ModelSource source(folder_of("llama3"), "");
  EXPECT_EQ(source.model().context, 128);
  EXPECT_EQ(Generator::use(source, 5, 20).model.context, 25);
  EXPECT_EQ(Generator::use(source, 5, 20).continued->chunk, 5);
  EXPECT_EQ(Generator::use(source, 100, 28).model.context, 128);
  EXPECT_EQ(Generator::use(source, 100, 28).continued->chunk, 100);
  // Beyond the context all is computed again and again.
  EXPECT_EQ(Generator::use(source, 100, 29).continued->chunk, 128);
  EXPECT_EQ(Generator::use(source, 1, std::numeric_limits<Index>::max()).model.context, 128);
  EXPECT_EQ(Generator::use(source, 500, 1).model.context, 128);
}

}  // namespace
}  // namespace dos::generate
