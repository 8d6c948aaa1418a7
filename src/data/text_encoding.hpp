// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/encoding_queue.hpp"
#include "data/text_input.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

/// Hands texts to a queue document by document, each with begin_of_text() before it and
/// end_of_text() behind it.
class TextEncoding {
 public:
  /// `added` is told the bytes of each job. Queue and tokenizer must outlive the object, and it the
  /// queue's work.
  TextEncoding(EncodingQueue& queue, const Tokenizer& tokenizer,
               std::function<void(std::size_t bytes)> added);

  /// `text` is a part of the input, of JSON-lines whole lines; its tokens go to `writer`. As
  /// EncodingQueue::add().
  void add(const TextInput& input, std::string_view text, TokenSink& writer);

 private:
  void add_document(std::string_view text, TokenSink& writer);
  void add_token(std::int32_t token, TokenSink& writer);
  void add_lines(const TextInput& input, std::string_view lines, TokenSink& writer);
  void encode_document(const std::string& text, std::vector<std::int32_t>& tokens) const;

  EncodingQueue& queue_;
  const Tokenizer& tokenizer_;
  std::function<void(std::size_t)> added_;
};

/// All of a file that was not split, in the tokens that prepare() writes of it: 4 bytes of memory
/// each. Uses all cores. Throws Error as TextInput::documents() does.
std::vector<std::int32_t> encode_all(const TextInput& input, const Tokenizer& tokenizer);

}  // namespace dos::data
