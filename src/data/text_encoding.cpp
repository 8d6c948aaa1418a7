// SPDX-License-Identifier: Apache-2.0
#include "data/text_encoding.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace dos::data {
namespace {

constexpr std::size_t kEncodeBytes = 64 * 1024;
constexpr std::size_t kLinesBytes = 1024 * 1024;

class MemorySink final : public TokenSink {
 public:
  void append(std::span<const std::int32_t> tokens) override {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  [[nodiscard]] std::vector<std::int32_t> take() { return std::move(tokens_); }

 private:
  std::vector<std::int32_t> tokens_;
};

}  // namespace

TextEncoding::TextEncoding(EncodingQueue& queue, const Tokenizer& tokenizer,
                           std::function<void(std::size_t bytes)> added)
    : queue_(queue), tokenizer_(tokenizer), added_(std::move(added)) {}

void TextEncoding::add(const TextInput& input, std::string_view text, TokenSink& writer) {
  if (text.empty()) return;
  if (input.has_lines())
    add_lines(input, text, writer);
  else
    add_document(text, writer);
}

void TextEncoding::add_document(std::string_view text, TokenSink& writer) {
  for (const std::int32_t token : tokenizer_.begin_of_text()) add_token(token, writer);
  for (const TextPart& part : tokenizer_.parts(text, kEncodeBytes)) {
    queue_.add(static_cast<Index>(part.length), writer,
               [this, part](std::size_t taken, std::vector<std::int32_t>& tokens) {
                 return tokenizer_.encode_part(part, taken, tokens);
               });
    added_(part.length);
  }
  add_token(tokenizer_.end_of_text(), writer);
}

void TextEncoding::add_token(std::int32_t token, TokenSink& writer) {
  queue_.add(0, writer, [token](std::size_t, std::vector<std::int32_t>& tokens) {
    tokens.push_back(token);
    return std::size_t{0};
  });
}

void TextEncoding::add_lines(const TextInput& input, std::string_view text, TokenSink& writer) {
  while (!text.empty()) {
    const std::size_t newline = text.find('\n', std::min(kLinesBytes, text.size() - 1));
    const std::string_view lines = text.substr(0, newline == text.npos ? newline : newline + 1);
    queue_.add(std::ssize(lines), writer,
               [this, &input, lines](std::size_t, std::vector<std::int32_t>& tokens) {
                 input.documents(lines, [&](const std::string& text_of_line) {
                   encode_document(text_of_line, tokens);
                 });
                 return std::size_t{0};
               });
    added_(lines.size());
    text.remove_prefix(lines.size());
  }
}

void TextEncoding::encode_document(const std::string& text,
                                   std::vector<std::int32_t>& tokens) const {
  const auto begin = tokenizer_.begin_of_text();
  tokens.insert(tokens.end(), begin.begin(), begin.end());
  const std::vector<std::int32_t> more = tokenizer_.encode(text);
  tokens.insert(tokens.end(), more.begin(), more.end());
  tokens.push_back(tokenizer_.end_of_text());
}

std::vector<std::int32_t> encode_all(const TextInput& input, const Tokenizer& tokenizer) {
  MemorySink sink;
  EncodingQueue queue(0);
  TextEncoding encoding(queue, tokenizer, [](std::size_t) {});
  encoding.add(input, input.train(), sink);
  queue.finish();
  return sink.take();
}

}  // namespace dos::data
