// SPDX-License-Identifier: Apache-2.0
#include "hf/side_files.hpp"

#include <gmock/gmock.h>

#include <array>
#include <tuple>

#include "fails_with.hpp"
#include "hf/folder.hpp"
#include "json_mutations.hpp"

namespace dos::hf::side_files_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Files = std::map<std::string, std::string>;

constexpr std::array<Index, 1> kThree{3};
constexpr std::array<Index, 1> kNine{9};

/// A folder with these files.
class Folder {
 public:
  explicit Folder(const Files& files) {
    for (const auto& [name, text] : files) write(name, text);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name) << text;
  }
  [[nodiscard]] std::filesystem::path path() const { return scratch_.path(); }

 private:
  test::ScratchDirectory scratch_;
};

Files by_name(const std::vector<ExtraFile>& files) {
  Files result;
  for (const ExtraFile& file : files)
    EXPECT_TRUE(result.emplace(file.name, file.text).second) << file.name << " twice";
  return result;
}

const Files& instruct() {
  static const Files files{
      {"config.json", R"({"bos_token_id": 1, "pad_token_id": 7, "eos_token_id": [2, 3]})"},
      {"generation_config.json", R"({"temperature": 0.6, "eos_token_id": [2, 3], "top_p": 0.9})"},
      {"tokenizer.json", "the run's is another text of the same"},
      {"tokenizer_config.json",
       R"({"eos_token": {"content": "</s>"}, "chat_template": "{{ x }}"})"},
      {"chat_template.jinja", "{{ messages }}"},
      {"README.md", "not taken along"},
      {"vocab.json", "{}"}};
  return files;
}

TEST(SideFiles, AreReadWithTheirTokens) {
  const Folder folder(instruct());
  const SideFiles side(folder.path());
  EXPECT_THAT(side.ends(), ElementsAre(2, 3));
  EXPECT_EQ(side.tokens().begin, 1);
  EXPECT_EQ(side.tokens().padding, 7);
  EXPECT_THAT(side.tokens().ends, ElementsAre(2, 3));
  const auto files = by_name(side.files());
  EXPECT_EQ(files.size(), 5U);
  EXPECT_EQ(files.count("README.md"), 0U);
  EXPECT_EQ(files.at("chat_template.jinja"), "{{ messages }}");
}

TEST(SideFiles, NameTheClassThatReadsATokenizerMadeForThem) {
  const std::vector<ExtraFile> own{{"tokenizer.json", "made"},
                                   {"tokenizer_config.json", R"({"tokenizer_class": "Ours"})"}};
  Files files{
      {"tokenizer.model", "pieces"},
      {"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "legacy": false})"}};
  const auto config = [&] {
    const Folder folder(files);
    const Files merged = by_name(SideFiles(folder.path()).merged(own, {}, std::nullopt));
    return json::parse(merged.at("tokenizer_config.json"));
  };
  EXPECT_EQ(config(), json({{"tokenizer_class", "Ours"}, {"legacy", false}}));
  files["tokenizer.json"] = "the folder's, which its class reads";
  EXPECT_EQ(config(), json({{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}}));
}

TEST(SideFiles, OfATokenizerNeedOne) {
  Files files = instruct();
  files.erase("tokenizer.json");
  const Folder folder(files);
  EXPECT_EQ(by_name(SideFiles(folder.path()).files()).size(), 2U);
  folder.write("tokenizer.model", "");
  EXPECT_EQ(by_name(SideFiles(folder.path()).files()).size(), 5U);
  EXPECT_THAT(SideFiles(folder.path() / "none").files(), IsEmpty());
}

TEST(SideFiles, AreWrittenInPlaceOfOthers) {
  const Folder folder(instruct());
  const SideFiles side(folder.path());
  const test::ScratchDirectory to;
  std::filesystem::create_directories(to / "kept");
  std::ofstream(to / "kept/added_tokens.json") << "of another folder";
  side.write(to / "kept");
  EXPECT_EQ(by_name(SideFiles(to / "kept").files()), by_name(side.files()));
}

TEST(SideFiles, AreTakenAlongWordForWord) {
  const Folder folder(instruct());
  auto expected = instruct();
  for (const char* name : {"config.json", "README.md", "vocab.json"}) expected.erase(name);
  EXPECT_EQ(by_name(SideFiles(folder.path()).merged({}, {}, std::nullopt)), expected);
  EXPECT_EQ(by_name(SideFiles(folder.path()).merged({}, kThree, "</s>")), expected);
}

TEST(SideFiles, SayTheRunsTokenizerAndEnd) {
  const Folder folder(instruct());
  const auto files =
      by_name(SideFiles(folder.path())
                  .merged({{"tokenizer.json", "the run's"}, {"tokenizer_config.json", "plain"}},
                          kNine, "<end>"));
  EXPECT_EQ(files.at("tokenizer.json"), "the run's");
  EXPECT_EQ(json::parse(files.at("tokenizer_config.json")),
            json({{"eos_token", "<end>"}, {"chat_template", "{{ x }}"}}));
  EXPECT_EQ(json::parse(files.at("generation_config.json")),
            json({{"temperature", 0.6}, {"eos_token_id", {2, 3, 9}}, {"top_p", 0.9}}));
  folder.write("generation_config.json", "{}");
  EXPECT_EQ(json::parse(by_name(SideFiles(folder.path()).merged({}, kNine, std::nullopt))
                            .at("generation_config.json")),
            json({{"eos_token_id", 9}}));
  EXPECT_EQ(by_name(SideFiles().merged({{"a", "b"}}, kNine, std::nullopt)), (Files{{"a", "b"}}));
}

TEST(SideFiles, RefuseDamagedTokens) {
  for (const auto& [name, text, part] :
       {std::tuple("generation_config.json", R"({"eos_token_id": "x"})", "field 'eos_token_id'"),
        std::tuple("generation_config.json", R"({"eos_token_id": [1, 1.5]})", "'eos_token_id[1]'"),
        std::tuple("generation_config.json", "[]", "generation_config.json"),
        std::tuple("config.json", R"({"bos_token_id": {}})", "field 'bos_token_id'")}) {
    const Folder folder(Files{{name, text}});
    EXPECT_THAT([&] { SideFiles side(folder.path()); }, test::fails_with({part, "take it out"}));
  }
  // No token, as folders of the first LLaMA say it.
  const Folder folder(Files{{"config.json", R"({"pad_token_id": -1})"}});
  EXPECT_EQ(SideFiles(folder.path()).tokens().padding, std::nullopt);
}

TEST(SideFiles, StandDamage) {
  for (const char* name : {"generation_config.json", "tokenizer_config.json", "config.json"})
    test::expect_stands_damage(instruct().at(name), 300, [&](const std::string& text) {
      const Folder folder(Files{{"tokenizer.json", "{}"}, {name, text}});
      static_cast<void>(SideFiles(folder.path()).merged({}, kNine, "<end>"));
    });
}

}  // namespace
}  // namespace dos::hf::side_files_test
