// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/expression.hpp"

#include <string_view>

#include "base/error.hpp"
#include "base/json.hpp"
#include "data/utf8.hpp"

namespace dos::data::bpe {
namespace {

constexpr std::string_view kGeneralCategories =
    " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc "
    "Cf "
    "Co Cn ";

constexpr bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

class Translator {
 public:
  Translator(const std::string& expression, const std::string& place)
      : text_(expression), place_(place) {}

  std::string run() {
    while (position_ < text_.size()) {
      if (in_class_)
        step_in_class();
      else
        step();
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool at(std::string_view what) const {
    return std::string_view(text_).substr(position_).starts_with(what);
  }

  [[noreturn]] void refuse(std::string_view what) const {
    fail(
        "{}: the pattern '{}' has {} at character {}, which regular expression engines read in "
        "different ways; use a tokenizer without it",
        place_, one_line(text_), what, position_ + 1);
  }

  void copy(std::size_t count) {
    result_ += std::string_view(text_).substr(position_, count);
    position_ += count;
  }

  void step() {
    const char c = text_[position_];
    if (c == '\\') return escape();
    if (c == '[') {
      in_class_ = true;
      copy(1);
      if (at("^")) copy(1);
      if (at("]")) refuse("']' as the first of a class");
      return;
    }
    if (c == '(') return open();
    if (c == '^' || c == '$' || c == '.') refuse(fmt::format("'{}'", c));
    if (c == '}' && at("}+")) refuse("'}+'");
    copy(1);
  }

  void step_in_class() {
    if (at("\\")) return escape();
    if (at("[")) refuse("'[' in a class");
    if (at("&&")) refuse("'&&' in a class");
    if (at("]")) in_class_ = false;
    copy(1);
  }

  void open() {
    copy(1);
    if (!at("?")) return;
    for (const std::string_view kind : {"?:", "?=", "?!", "?i:"})
      if (at(kind)) return copy(kind.size());
    refuse("a group other than (?:...), (?i:...), (?=...) and (?!...)");
  }

  void escape() {
    const std::string_view rest = std::string_view(text_).substr(position_);
    if (rest.size() < 2) refuse("'\\' without a character");
    const char c = rest[1];
    if (c == 's' || c == 'S') {
      // PCRE2's own \s takes U+180E, which has not been white space since Unicode 6.3.
      result_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      position_ += 2;
    } else if (c == 'p' || c == 'P') {
      property(rest);
    } else if (c == 'd' || c == 'D' || c == 'r' || c == 'n' || c == 't') {
      copy(2);
    } else if (is_letter_or_digit(c) || utf8_character(rest.substr(1)) != 1) {
      refuse(fmt::format("'{}'", one_line(rest.substr(0, 1 + utf8_character(rest.substr(1))))));
    } else {
      copy(2);
    }
  }

  void property(std::string_view rest) {
    const std::size_t end = rest.find('}');
    if (rest.size() < 3 || rest[2] != '{' || end == std::string_view::npos)
      refuse("a property without {}");
    const std::string name(rest.substr(3, end - 3));
    if (name.empty() || name.find(' ') != std::string::npos ||
        kGeneralCategories.find(" " + name + " ") == std::string_view::npos)
      refuse(fmt::format("the property '{}', not a general category,", one_line(name)));
    copy(end + 1);
  }

  const std::string& text_;
  const std::string& place_;
  std::string result_;
  std::size_t position_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string translate_expression(const std::string& expression, const std::string& place) {
  return Translator(expression, place).run();
}

}  // namespace dos::data::bpe
