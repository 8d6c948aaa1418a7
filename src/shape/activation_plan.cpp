// SPDX-License-Identifier: Apache-2.0
#include "shape/activation_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/error.hpp"

namespace dos::shape {
namespace {

struct Kind {
  std::string_view name;
  Index ActivationPlan::*count;
};
/// In the order of blocks.
constexpr std::array kKinds{
    Kind{"disk", &ActivationPlan::moved}, Kind{"host", &ActivationPlan::hosted},
    Kind{"recompute", &ActivationPlan::recomputed}, Kind{"selective", &ActivationPlan::selective}};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  fail(
      "train.activations = '{}': {}: use keep, selective, recompute, host, disk or auto, or counts "
      "of blocks, as in disk:4,recompute:2,selective:6",
      text, why);
}

Index parse_count(const std::string& text, std::string_view number) {
  Index count = 0;
  const auto [end, error] = std::from_chars(number.begin(), number.end(), count);
  if (error != std::errc() || end != number.end() || count < 1 || count > ActivationPlan::kAll)
    refuse(text, fmt::format("'{}' is no count of blocks", number));
  return count;
}

}  // namespace

ActivationPlan ActivationPlan::with_all_of(const ActivationPlan& other) const {
  const Index made = std::max(without_made(), other.without_made());
  const Index cheap = std::max(without_cheap(), other.without_cheap());
  const Index most_moved = std::max(moved, other.moved);
  // Without memory of the host, too.
  const Index nowhere = std::max(moved + recomputed, other.moved + other.recomputed);
  return {.moved = most_moved,
          .hosted = made - nowhere,
          .recomputed = nowhere - most_moved,
          .selective = cheap - made};
}

ActivationPlan parse_activation_plan(const std::string& text) {
  ActivationPlan plan;
  if (text == "keep" || text == "auto") return plan;
  std::istringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t colon = part.find(':');
    const auto kind =
        std::ranges::find(kKinds, std::string_view(part).substr(0, colon), &Kind::name);
    if (kind == kKinds.end()) refuse(text, fmt::format("'{}' is no way to have them", part));
    Index& count = plan.*kind->count;
    if (count != 0) refuse(text, fmt::format("{} comes twice", kind->name));
    count = colon == std::string::npos
                ? ActivationPlan::kAll
                : parse_count(text, std::string_view(part).substr(colon + 1));
  }
  return plan;
}

std::string activation_plan_text(const ActivationPlan& plan, Index blocks) {
  std::string text;
  for (const auto& [name, member] : kKinds) {
    const Index count = std::min(plan.*member, blocks);
    blocks -= count;
    if (count > 0) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, count);
  }
  return text.empty() ? "keep" : text;
}

BufferSets::BufferSets(Index blocks, Index shared, Index ring)
    : blocks_(blocks), shared_(std::min(shared, blocks)), ring_(std::min(ring, shared_)) {}

}  // namespace dos::shape
