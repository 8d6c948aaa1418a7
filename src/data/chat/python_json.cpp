// SPDX-License-Identifier: Apache-2.0
#include "data/chat/python_json.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

namespace dos::data {
namespace {

using nlohmann::ordered_json;

/// As repr() of a finite float: the fewest digits that give the number, with an exponent below 1e-4
/// and from 1e16 on.
std::string python_float(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::size_t sign = text[mark + 1] == '+' ? 1 : 0;
  std::from_chars(text.data() + mark + 1 + sign, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string result(buffer.data(), fixed.ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

class Writer {
 public:
  explicit Writer(Index indent) : indent_(static_cast<std::size_t>(indent)) {}

  void write(const ordered_json& value) {
    if (value.is_object()) {
      write_all(value, '{', '}', [&](const auto& item) {
        text_ += ordered_json(item.key()).dump() + ": ";
        write(item.value());
      });
    } else if (value.is_array()) {
      write_all(value, '[', ']', [&](const auto& item) { write(item.value()); });
    } else {
      text_ += value.is_number_float() ? python_float(value.get<double>()) : value.dump();
    }
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  template <class Each>
  void write_all(const ordered_json& value, char open, char close, const Each& each) {
    text_ += open;
    ++depth_;
    bool is_first = true;
    for (const auto& item : value.items()) {
      if (!is_first) text_ += indent_ > 0 ? "," : ", ";
      is_first = false;
      break_line();
      each(item);
    }
    --depth_;
    if (!is_first) break_line();
    text_ += close;
  }
  void break_line() {
    if (indent_ > 0) text_ += '\n' + std::string(indent_ * depth_, ' ');
  }

  std::size_t indent_;
  std::size_t depth_ = 0;
  std::string text_;
};

}  // namespace

std::string python_json(const ordered_json& value, Index indent) {
  Writer writer(indent);
  writer.write(value);
  return std::move(writer).take();
}

}  // namespace dos::data
