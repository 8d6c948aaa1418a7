// SPDX-License-Identifier: Apache-2.0
#include "data/sentencepiece.hpp"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "base/file.hpp"
#include "base/random.hpp"
#include "data/corpus.hpp"
#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::sentencepiece_test {
namespace {

using test::fails_with;

std::string train(const std::string& text, Index vocabulary, const std::string& algorithm) {
  const std::string_view view = text;
  return train_sentencepiece(std::span(&view, 1),
                             {.vocabulary = vocabulary, .algorithm = algorithm});
}

class SentencePiece : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::unique_ptr<Tokenizer> trained(Index vocabulary = 330) const {
    return make_sentencepiece_tokenizer(train(test::corpus(), vocabulary, GetParam()), "t.model");
  }
};

TEST_P(SentencePiece, HasExactlyTheVocabularyAskedFor) {
  const auto tokenizer = trained(337);
  EXPECT_EQ(tokenizer->vocabulary(), 337);
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->end_of_text(), 1);
}

TEST_P(SentencePiece, TrainingIsDeterministic) {
  EXPECT_EQ(train(test::corpus(), 330, GetParam()), train(test::corpus(), 330, GetParam()));
}

TEST_P(SentencePiece, DecodesToExactlyWhatItEncoded) {
  const auto tokenizer = trained();
  const std::string cases[] = {
      "",
      " ",
      "a",
      "   leading, inner   and trailing   ",
      "\n",
      "line\n\n\tindented\r\nline\r",
      std::string("nul\0nul", 7),
      "\xE2\x96\x81",                                  // SentencePiece's own space mark
      "a\xE2\x96\x81 \xE2\x96\x81\xE2\x96\x81z",       // and beside a space
      "\xE2\x96\x85 \xE2\x81\x87",                     // its marks of unknown text
      "<s></s><unk><|endoftext|><0x0A>",               // names of its special pieces
      "\xEF\xAC\x81 \xC2\xBD e\xCC\x81 \xEF\xBC\xA1",  // what normalization would change
      "\xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x98\x80 \xEF\xBF\xBD \xEF\xBB\xBF",
      "not UTF-8: \xFF \xC3 \x80\x80 \xED\xA0\x80 \xE2\x96",
      test::corpus(3),
  };
  for (const std::string& text : cases) {
    const auto tokens = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(tokens), text);
    EXPECT_EQ(std::ranges::count(tokens, tokenizer->end_of_text()), 0) << text;
  }
}

TEST_P(SentencePiece, DecodesRandomBytesExactly) {
  const auto tokenizer = trained();
  const Philox random(7);
  // Bytes that make and break characters, spaces and the space mark.
  constexpr std::string_view kAlphabet = "ab \n\xE2\x96\x81\xC3\xA9\xF0\x9F\x98\x80\xFF\xED";
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::string text;
    for (std::uint64_t i = 0; i < round % 40; ++i) {
      text.push_back(kAlphabet[random.block(i, round)[0] % kAlphabet.size()]);
    }
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST_P(SentencePiece, PartsCutAtLinesEncodeLikeTheWhole) {
  const auto tokenizer = trained();
  const std::string text = test::corpus(20);
  std::vector<std::int32_t> parts;
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t end = text.find('\n', first) + 1;
    const auto part = tokenizer->encode(std::string_view(text).substr(first, end - first));
    parts.insert(parts.end(), part.begin(), part.end());
    first = end;
  }
  EXPECT_EQ(parts, tokenizer->encode(text));
}

TEST_P(SentencePiece, PiecesAreShorterThanBytes) {
  const std::string text = test::corpus(20);
  EXPECT_LT(trained(500)->encode(text).size() * 3, text.size() * 2);
}

TEST_P(SentencePiece, SaysWhichVocabularySizesTheTextAllows) {
  EXPECT_THAT([&] { (void)trained(20); }, fails_with({"--vocab-size 20: too small", "raise it"}));
  EXPECT_THAT([&] { (void)trained(260); }, fails_with({"--vocab-size 260: too small", "need 2"}));
  EXPECT_THAT([&] { (void)trained(1'000'000); },
              fails_with({"--vocab-size 1000000: too large", "at most", "lower it"}));
  EXPECT_THAT([&] { (void)trained(-5); }, fails_with({"--vocab-size -5: must lie between"}));
  EXPECT_THAT([&] { (void)trained(Index{1} << 40); }, fails_with({"must lie between"}));
}

TEST_P(SentencePiece, RefusesInputWithoutText) {
  for (const char* text : {"", "\n\n\t", "\xFF\xFE"}) {
    EXPECT_THAT([&] { (void)train(text, 300, GetParam()); }, fails_with({"no text to train"}));
  }
}

TEST_P(SentencePiece, TrainsOnTextThatNamesSpecialPieces) {
  std::string text = test::corpus();
  for (int i = 0; i < 1000; ++i) text += "<s> </s> <unk> <|endoftext|> <0x0A> \xE2\x96\x85\n";
  const auto tokenizer = make_sentencepiece_tokenizer(train(text, 340, GetParam()), "t.model");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST_P(SentencePiece, TrainsOnLinesOfAnyLength) {
  std::string text = test::corpus();
  std::ranges::replace(text, '\n', ' ');
  ASSERT_GT(text.size(), 20'000U);
  const auto tokenizer = make_sentencepiece_tokenizer(train(text, 400, GetParam()), "t.model");
  EXPECT_LT(tokenizer->encode(text).size() * 3, text.size() * 2);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SentencePiece, testing::Values("bpe", "unigram"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(SentencePieceModel, RefusesUnknownAlgorithms) {
  EXPECT_THAT([] { (void)train(test::corpus(), 330, "word"); },
              fails_with({"--model-type word", "bpe or unigram"}));
}

TEST(SentencePieceModel, RefusesWhatIsNoModel) {
  const std::string model = train(test::corpus(), 330, "bpe");
  for (const std::string& bad : {std::string(), std::string("not a model"),
                                 model.substr(0, model.size() / 2), std::string(1000, '\0')}) {
    EXPECT_THAT([&] { (void)make_sentencepiece_tokenizer(bad, "dir/bad.model"); },
                fails_with({"dir/bad.model: not a SentencePiece model"}));
  }
}

TEST(SentencePieceModel, LongTextIsSampledByLines) {
  // Every second line is of other characters: a sample of half the bytes takes every second line.
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += "the quick brown fox jumps over\n";
    text += "\xD0\x96\xD0\xB8\xD0\xB2\xD0\xB8 \xD0\xB8 \xD0\xB4\xD0\xB0\xD0\xB9 123456789\n";
  }
  const std::string_view view = text;
  const auto train_on = [&](Index sample_bytes) {
    return train_sentencepiece(
        std::span(&view, 1), {.vocabulary = 300, .algorithm = "bpe", .sample_bytes = sample_bytes});
  };
  const std::string zhe = "\xD0\x96";
  const auto whole = make_sentencepiece_tokenizer(train_on(std::ssize(text)), "t.model");
  EXPECT_EQ(whole->encode(zhe).size(), 1U);
  const auto half = make_sentencepiece_tokenizer(train_on(std::ssize(text) / 2 + 1), "t.model");
  EXPECT_EQ(half->encode(zhe).size(), 2U);
  EXPECT_EQ(half->decode(half->encode(text)), text);
}

using Options = std::unordered_map<std::string, std::string>;

/// A model as SentencePiece trains it by default, which normalizes and adds a space in front, but
/// for `changes`.
std::string default_model(const Options& changes) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "in.txt", test::corpus());
  Options options = changes;
  options.merge(Options{{"input", (scratch / "in.txt").string()},
                        {"vocab_size", "320"},
                        {"hard_vocab_limit", "true"},
                        {"eos_id", "2"},
                        {"byte_fallback", "false"},
                        {"minloglevel", "3"}});
  std::string model;
  EXPECT_TRUE(sentencepiece::SentencePieceTrainer::Train(options, nullptr, &model).ok());
  return model;
}

std::string random_words(const Philox& random, std::uint64_t round) {
  // Words, more and fewer spaces, newlines, other scripts, a byte that is no character, a word that
  // is not kept.
  const std::string alphabet[] = {"the",   "over",     "fox",
                                  "foxes", " ",        "  ",
                                  " ",     "     ",    ".\n",
                                  "\n\n",  "\xC3\xA9", "\xE6\xBC\xA2",
                                  "a",     "\xFF",     std::string(60, 'x'),
                                  "brown", "quick "};
  std::string text;
  for (std::uint64_t i = 0; i < round % 25; ++i)
    text += alphabet[random.block(i, round)[0] % std::size(alphabet)];
  return text;
}

/// Compares the tokens of random texts with what the library makes of each as a whole.
void expect_the_librarys_tokens(const std::string& model, const std::string& also) {
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
  const auto tokenizer = make_sentencepiece_tokenizer(model, "t.model");
  const Philox random(11);
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::string text = random_words(random, round);
    if (round % 3 == 0) text.insert(text.size() / 2, also);
    ASSERT_EQ(tokenizer->encode(text), processor.EncodeAsIds(text)) << text;
  }
}

TEST(SentencePieceModel, WordsBecomeWhatTheWholeTextBecomes) {
  const Options plain{{"normalization_rule_name", "identity"},
                      {"remove_extra_whitespaces", "false"},
                      {"byte_fallback", "true"},
                      {"allow_whitespace_only_pieces", "true"}};
  const std::string mark = "\xE2\x96\x81";
  for (const char* type : {"bpe", "unigram"}) {
    SCOPED_TRACE(type);
    Options of_type = plain;
    of_type["model_type"] = type;
    expect_the_librarys_tokens(default_model(of_type), mark);
    of_type["split_by_whitespace"] = "false";  // pieces go on after a space
    expect_the_librarys_tokens(default_model(of_type), mark);
    of_type["remove_extra_whitespaces"] = "true";
    expect_the_librarys_tokens(default_model(of_type), mark);
    expect_the_librarys_tokens(default_model({{"model_type", type}}), mark);
  }
}

TEST(SentencePieceModel, OtherModelsWorkAsSentencePieceDoes) {
  for (const char* byte_fallback : {"false", "true"}) {
    const std::string model = default_model({{"byte_fallback", byte_fallback}});
    const auto tokenizer = make_sentencepiece_tokenizer(model, "t.model");
    sentencepiece::SentencePieceProcessor processor;
    ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
    const std::string text = "  the \xEF\xAC\x81rst  overfox\nand \xE2\x96\x81 underplay ";
    const auto tokens = tokenizer->encode(text);
    EXPECT_EQ(tokens, processor.EncodeAsIds(text));
    EXPECT_EQ(tokenizer->decode(tokens), processor.DecodeIds(tokens));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("and over")), "and over");
    EXPECT_EQ(tokenizer->end_of_text(), 2);
    EXPECT_EQ(tokenizer->vocabulary(), 320);
  }
}

TEST(SentencePieceModel, RefusesModelsWithoutAnEnd) {
  const std::string model = default_model({{"eos_id", "-1"}});
  EXPECT_THAT([&] { (void)make_sentencepiece_tokenizer(model, "dir/t.model"); },
              fails_with({"dir/t.model", "no end-of-sentence piece", "--eos_id"}));
}

TEST(SentencePieceModel, RefusesForeignTokens) {
  const auto tokenizer = make_sentencepiece_tokenizer(train(test::corpus(), 330, "bpe"), "t.model");
  for (const std::int32_t bad : {-1, 330}) {
    EXPECT_THAT(
        [&] {
          (void)tokenizer->decode(std::array{5, bad});
        },
        fails_with({"token " + std::to_string(bad), "sentencepiece", "330"}));
  }
}

TEST(SentencePieceModel, SpecialTokensDecodeVisiblyOrToNothing) {
  const auto tokenizer = make_sentencepiece_tokenizer(train(test::corpus(), 330, "bpe"), "t.model");
  EXPECT_EQ(tokenizer->decode(std::array{1}), "");
  EXPECT_EQ(tokenizer->decode(std::array{0}), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace dos::data::sentencepiece_test
