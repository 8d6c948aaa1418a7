// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/pattern.hpp"

// Characters are bytes, of UTF-8.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "data/bpe/expression.hpp"

namespace dos::data::bpe {
namespace {

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

/// What PCRE2 works with, for one thread.
class Workspace {
 public:
  Workspace()
      : match_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kLeastStack, kMostStack, nullptr)) {
    expect(match_ && context_ && stack_, "no memory for regular expressions");
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }
  [[nodiscard]] pcre2_match_data* match() const { return match_.get(); }
  [[nodiscard]] pcre2_match_context* context() const { return context_.get(); }

 private:
  static constexpr std::size_t kLeastStack = 32 * 1024;
  static constexpr std::size_t kMostStack = 16 * 1024 * 1024;

  std::unique_ptr<pcre2_match_data, FreeMatch> match_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack_;
};

std::string words_of(int error) {
  std::array<PCRE2_UCHAR, 256> words{};
  pcre2_get_error_message(error, words.data(), words.size());
  return reinterpret_cast<const char*>(words.data());
}

}  // namespace

struct Pattern::Compiled {
  struct Free {
    void operator()(pcre2_code* taken) const { pcre2_code_free(taken); }
  };
  std::unique_ptr<pcre2_code, Free> code;
  decltype(&pcre2_match) match = nullptr;
  std::string expression;
  std::string place;
};

Pattern::Pattern(const std::string& expression, unsigned options, std::string place)
    : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                      expression.size(), PCRE2_UTF | options, &error, &offset,
                                      nullptr));
  expect(compiled_->code != nullptr,
         "{}: the pattern '{}' is no regular expression: {} at character {}; copy the file again",
         place, one_line(expression), words_of(error), offset + 1);
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  expect(matches_nothing == 0 && !expression.empty(),
         "{}: the pattern '{}' matches the empty text, which is no piece; use a tokenizer without "
         "it",
         place, one_line(expression));
  // Without it matches take longer, nothing else.
  const bool is_fast = pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE) == 0;
  compiled_->match = is_fast ? &pcre2_jit_match : &pcre2_match;
  compiled_->expression = expression;
  compiled_->place = std::move(place);
}

Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern::~Pattern() = default;

Pattern Pattern::pcre2(const std::string& expression) {
  return {expression, PCRE2_UCP, "this program"};
}

Pattern Pattern::regex(const std::string& expression, const std::string& place) {
  return {translate_expression(expression, place), PCRE2_UCP, place};
}

Pattern Pattern::literal(const std::string& text, const std::string& place) {
  return {text, PCRE2_LITERAL, place};
}

Extent Pattern::find(std::string_view text, std::size_t from) const {
  thread_local const Workspace workspace;
  const int found =
      pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  from, PCRE2_NO_UTF_CHECK, workspace.match(), workspace.context());
  if (found == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
  if (found < 0)
    fail(
        "{}: the pattern '{}' cannot be matched with this text: {}; use a tokenizer with a simpler "
        "one",
        compiled_->place, one_line(compiled_->expression), words_of(found));
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(workspace.match());
  return {place[0], place[1]};
}

}  // namespace dos::data::bpe
