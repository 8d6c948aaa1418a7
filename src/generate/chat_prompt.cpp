// SPDX-License-Identifier: Apache-2.0
#include "generate/chat_prompt.hpp"

#include <utility>

#include "base/error.hpp"
#include "data/chat/chat_encoder.hpp"
#include "data/dataset_manifest.hpp"

namespace dos::generate {
namespace {

class AnswerTokenizer final : public data::Tokenizer {
 public:
  AnswerTokenizer(std::unique_ptr<data::Tokenizer> base, std::int32_t end)
      : base_(std::move(base)), end_(end) {}

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    return base_->encode(text);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    return base_->decode(tokens);
  }
  [[nodiscard]] Index vocabulary() const override { return base_->vocabulary(); }
  [[nodiscard]] std::string kind() const override { return base_->kind(); }
  [[nodiscard]] std::int32_t end_of_text() const override { return end_; }

 private:
  std::unique_ptr<data::Tokenizer> base_;
  std::int32_t end_;
};

}  // namespace

ChatPrompt make_chat_prompt(const std::filesystem::path& manifest,
                            std::unique_ptr<data::Tokenizer> tokenizer,
                            const std::string& message) {
  const data::DatasetManifest read = data::read_manifest(manifest);
  expect(read.chat.has_value(),
         "{}: the model was not trained on conversations, so there is no chat template: leave "
         "--chat out",
         manifest.string());
  const data::ChatEncoder encoder(*tokenizer, read.chat->chat_template);
  std::vector<std::int32_t> tokens = encoder.encode_prompt(message);
  const std::int32_t end = encoder.end_of_turn();
  return {std::move(tokens), std::make_unique<AnswerTokenizer>(std::move(tokenizer), end)};
}

}  // namespace dos::generate
