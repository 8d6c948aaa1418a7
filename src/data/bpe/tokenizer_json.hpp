// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "data/bpe/added_tokens.hpp"
#include "data/bpe/pattern.hpp"

namespace dos::data::bpe {

/// One step of the cutting of text into pieces; each works on the pieces of the one before.
struct CutStep {
  std::optional<Pattern> pattern;  ///< none: the step cuts nothing
  bool only_matches = false;       ///< what the pattern does not match is dropped
  bool prefix_space = false;       ///< before the cut, a space goes before text without one
};

/// What a tokenizer.json of a byte-level BPE says.
struct TokenizerJson {
  std::vector<std::pair<std::string, std::int32_t>> vocabulary;  ///< tokens as they are written
  std::vector<std::pair<std::string, std::string>> merges;       ///< likewise
  bool ignore_merges = false;
  std::vector<AddedToken> added;
  bool composes = false;                     ///< text is brought into normalization form C
  std::vector<CutStep> cuts;                 ///< at least one has a pattern
  std::vector<std::int32_t> first_tokens;    ///< that the post-processor puts before each text
  std::optional<std::int32_t> last_token{};  ///< that it puts behind
};

/// The most tokens of a vocabulary.
inline constexpr Index kMostTokens = 10'000'000;

/// Reads the JSON of a file that messages call `place`. Truncation and padding are not read. Throws
/// Error, naming the field and the remedy, for what is not a byte-level BPE, or has parts that this
/// program does not know.
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& place);

}  // namespace dos::data::bpe
