// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_slice.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"

namespace dos::io {
namespace {

/// The whole text as a number that is not negative.
std::optional<Index> number_in(std::string_view text) {
  Index number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

TensorSpec part_of(const TensorSpec& whole, Index first, Index end) {
  require(!whole.shape.empty() && first >= 0 && first < end && end <= whole.shape.front(),
          "rows of the tensor");
  TensorSpec part = whole;
  if (end - first == whole.shape.front()) return part;
  part.name = fmt::format("{}[{}:{}]", whole.name, first, end);
  part.shape.front() = end - first;
  return part;
}

TensorSpec with_suffix(const TensorSpec& part, std::string_view suffix) {
  TensorSpec changed = part;
  changed.name.insert(name_of_whole(part.name).size(), suffix);
  return changed;
}

std::optional<TensorSlice> parse_slice(std::string_view name) {
  if (name.empty() || name.back() != ']') return std::nullopt;
  const std::size_t bracket = name.rfind('[');
  const std::size_t colon = name.rfind(':');
  if (bracket == std::string_view::npos || colon == std::string_view::npos || colon < bracket)
    return std::nullopt;
  const std::optional<Index> first = number_in(name.substr(bracket + 1, colon - bracket - 1));
  const std::optional<Index> end = number_in(name.substr(colon + 1, name.size() - colon - 2));
  if (!first || !end || *first >= *end) return std::nullopt;
  return TensorSlice{.name = name.substr(0, bracket), .first = *first, .end = *end};
}

std::string_view name_of_whole(std::string_view name) {
  const std::optional<TensorSlice> slice = parse_slice(name);
  return slice ? slice->name : name;
}

}  // namespace dos::io
