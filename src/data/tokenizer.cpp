// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.hpp"

#include "base/error.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

class BytesTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    check(tokens);
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
      if (token != kEndOfText) text.push_back(static_cast<char>(token));
    }
    return text;
  }
  [[nodiscard]] Index vocabulary() const override { return kEndOfText + 1; }
  [[nodiscard]] std::string kind() const override { return kBytes; }
  [[nodiscard]] std::int32_t end_of_text() const override { return kEndOfText; }

 private:
  static constexpr std::int32_t kEndOfText = 256;
};

}  // namespace

std::vector<std::int32_t> Tokenizer::encode_quoting(std::string_view text,
                                                    std::span<const TextRange> /*quoted*/,
                                                    std::optional<std::int32_t> /*before*/) const {
  return encode(text);
}

std::optional<std::int32_t> Tokenizer::added_token(std::string_view /*text*/) const {
  return std::nullopt;
}

std::vector<TextPart> Tokenizer::parts(std::string_view text, std::size_t limit) const {
  std::vector<TextPart> result;
  while (!text.empty()) {
    const std::size_t length = line_part(text, limit);
    result.push_back({.text = text.substr(0, length), .length = length});
    text.remove_prefix(length);
  }
  return result;
}

std::size_t Tokenizer::encode_part(const TextPart& part, std::size_t taken,
                                   std::vector<std::int32_t>& tokens) const {
  require(taken == 0, "no token is of two parts");
  const std::vector<std::int32_t> more =
      part.token ? std::vector{*part.token} : encode(part.text.substr(0, part.length));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return 0;
}

void Tokenizer::check(std::span<const std::int32_t> tokens) const {
  for (const std::int32_t token : tokens) {
    expect(token >= 0 && token < vocabulary(),
           "token {} is outside the {} tokenizer's vocabulary of {}; use the tokenizer that the "
           "tokens were made with",
           token, kind(), vocabulary());
  }
}

std::unique_ptr<Tokenizer> make_bytes_tokenizer() {
  return std::make_unique<BytesTokenizer>();
}

}  // namespace dos::data
