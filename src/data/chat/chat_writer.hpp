// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "data/mask_file.hpp"
#include "data/token_file.hpp"

namespace dos::data {

/// What became of the conversations of a data set, or of a part of it.
struct ChatCounts {
  Index conversations = 0;  ///< that were written
  Index left_out = 0;       ///< without an answer, or without one before the end of their window
  Index cut = 0;            ///< at the end of their window
  Index windows = 0;        ///< 0 without windows

  ChatCounts& operator+=(const ChatCounts& other);
};

/// Writes conversations to a token file and its mask file. An end-of-text token, which does not
/// count, follows each.
///
/// With windows, conversations are laid whole into windows of `context` tokens (best fit, of some
/// 16 million tokens at a time), and what is left of a window is filled up with end-of-text. One
/// that is longer is cut; one of just that length goes without an end-of-text. Behind the last
/// window stands one more token, its last target.
class ChatWriter final : public TokenSink {
 public:
  /// `context` 0: one stream without windows. Throws Error when a file cannot be created.
  ChatWriter(const std::filesystem::path& tokens, const std::filesystem::path& mask,
             Index vocabulary, std::int32_t end_of_text, Index context);

  /// A conversation, as elements of a batch (base/target.hpp).
  void append(std::span<const std::int32_t> elements) override;
  /// Writes what waits. Called once, last.
  void finish();

  /// Tokens that were written or wait.
  [[nodiscard]] Index size() const noexcept { return tokens_.size() + waiting_tokens_; }
  [[nodiscard]] const ChatCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] TokenWriter& tokens() noexcept { return tokens_; }
  [[nodiscard]] MaskWriter& mask() noexcept { return mask_; }

 private:
  void write(std::span<const std::int32_t> elements);
  void write_windows();

  TokenWriter tokens_;
  MaskWriter mask_;
  std::int32_t end_;  ///< of text, an input only
  Index context_;
  ChatCounts counts_;
  std::vector<std::vector<std::int32_t>> waiting_;
  Index waiting_tokens_ = 0;
};

}  // namespace dos::data
