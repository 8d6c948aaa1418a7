// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_writer.hpp"

#include <algorithm>

#include "base/target.hpp"
#include "data/chat/best_fit.hpp"

namespace dos::data {
namespace {

/// Laid into windows together: 64 MiB of tokens.
constexpr Index kTokensAtOnce = Index{1} << 24;

}  // namespace

ChatCounts& ChatCounts::operator+=(const ChatCounts& other) {
  conversations += other.conversations;
  left_out += other.left_out;
  cut += other.cut;
  windows += other.windows;
  return *this;
}

ChatWriter::ChatWriter(const std::filesystem::path& tokens, const std::filesystem::path& mask,
                       Index vocabulary, std::int32_t end_of_text, Index context)
    : tokens_(tokens, vocabulary), mask_(mask), end_(input_only(end_of_text)), context_(context) {}

void ChatWriter::write(std::span<const std::int32_t> elements) {
  mask_.append(elements);
  std::vector<std::int32_t> plain(elements.begin(), elements.end());
  for (std::int32_t& token : plain) token = token_of(token);
  tokens_.append(plain);
}

void ChatWriter::append(std::span<const std::int32_t> elements) {
  const bool is_cut = context_ != 0 && std::ssize(elements) > context_;
  const auto kept = is_cut ? elements.first(static_cast<std::size_t>(context_)) : elements;
  if (std::ranges::none_of(kept, is_target)) {
    ++counts_.left_out;
    return;
  }
  ++counts_.conversations;
  counts_.cut += is_cut ? 1 : 0;
  std::vector<std::int32_t> conversation(kept.begin(), kept.end());
  if (context_ == 0 || std::ssize(kept) < context_) conversation.push_back(end_);
  if (context_ == 0) return write(conversation);
  waiting_tokens_ += std::ssize(conversation);
  waiting_.push_back(std::move(conversation));
  if (waiting_tokens_ >= kTokensAtOnce) write_windows();
}

void ChatWriter::write_windows() {
  std::vector<Index> lengths;
  for (const auto& conversation : waiting_) lengths.push_back(std::ssize(conversation));
  for (const std::vector<Index>& items : best_fit(lengths, context_)) {
    std::vector<std::int32_t> window;
    for (const Index item : items) {
      const auto& conversation = waiting_[static_cast<std::size_t>(item)];
      window.insert(window.end(), conversation.begin(), conversation.end());
    }
    window.resize(static_cast<std::size_t>(context_), end_);
    write(window);
    ++counts_.windows;
  }
  waiting_.clear();
  waiting_tokens_ = 0;
}

void ChatWriter::finish() {
  if (context_ == 0) return;
  write_windows();
  if (counts_.windows > 0) write(std::span(&end_, 1));
}

}  // namespace dos::data
