// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "data/chat/chat_writer.hpp"
#include "data/prepare.hpp"
#include "data/replacement.hpp"
#include "data/tokenizer.hpp"

/// What prepare() writes for a split.
namespace dos::data {

/// The files of a split: tokens, and of conversations a mask. Both appear on commit(), or not at
/// all.
class PartOutput {
 public:
  /// Throws Error when a file cannot be created.
  PartOutput(std::filesystem::path tokens, std::filesystem::path mask, const Tokenizer& tokenizer,
             const PrepareConfig& config)
      : path_(std::move(tokens)), mask_path_(std::move(mask)) {
    if (config.chat.empty())
      text_.emplace(path_, tokenizer.vocabulary());
    else
      chat_.emplace(path_, mask_path_, tokenizer.vocabulary(), tokenizer.end_of_text(),
                    config.context);
  }

  /// Takes the tokens of texts, or whole conversations.
  [[nodiscard]] TokenSink& sink() { return chat_ ? static_cast<TokenSink&>(*chat_) : *text_; }
  /// Tokens so far.
  [[nodiscard]] Index size() const { return chat_ ? chat_->size() : text_->size(); }
  /// Of conversations, so far.
  [[nodiscard]] ChatCounts counts() const { return chat_ ? chat_->counts() : ChatCounts{}; }
  [[nodiscard]] TokenWriter& tokens() { return chat_ ? chat_->tokens() : *text_; }
  /// Writes what waits, and adds what became of conversations to the summary. Called once, behind
  /// the last text; nullopt without a mask.
  [[nodiscard]] std::optional<MaskSums> finish(PrepareSummary& summary) {
    if (!chat_) return std::nullopt;
    chat_->finish();
    if (!summary.chat) summary.chat.emplace();
    *summary.chat += chat_->counts();
    return chat_->mask().finish();
  }
  /// Sends both files to the device. Called behind finish().
  void flush() {
    tokens().flush();
    if (chat_) chat_->mask().flush();
  }
  /// A mask of an earlier set goes where this one has none.
  void commit(Replacement& replacement) {
    replacement.commit(tokens(), path_);
    if (chat_)
      replacement.commit(chat_->mask(), mask_path_);
    else
      replacement.remove(mask_path_);
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path mask_path_;
  std::optional<TokenWriter> text_;
  std::optional<ChatWriter> chat_;
};

}  // namespace dos::data
