// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/range.hpp"
#include "base/types.hpp"
#include "config/keys.hpp"
#include "planner/plan_settings.hpp"

namespace dos::config {

/// With a word for what is chosen.
constexpr Range or_auto(Range range) {
  range.also = kAuto;
  range.also_word = "auto";
  return range;
}

/// Where a value lies.
using Value = std::variant<Index*, double*, bool*, std::string*>;

/// What a value may be, beyond its type: a number of a range; one of two or three words; a name of
/// a registry, which refuses others in its own words; or anything, and why.
struct Choice {
  const char* first;
  const char* second;
  const char* third = nullptr;  ///< null: none

  [[nodiscard]] std::vector<std::string> words() const {
    if (third == nullptr) return {first, second};
    return {first, second, third};
  }
};
struct Named {
  std::vector<std::string> (*known)();
  void (*expect_known)(const std::string& name);
};
struct Any {
  const char* why;
  bool is_list = false;  ///< entries with commas between them; in a file an array of them, too
};
using Domain = std::variant<Range, Choice, Named, Any>;

constexpr Any list(const char* why) {
  return {why, true};
}

inline constexpr Range kModelSize{.least = 0, .words = "be at least 1 (or 0: the preset's)"};
/// Far above what is of use; the program keeps lists of these lengths.
inline constexpr double kMostDevices = 1'000;
/// Of memory; 0: all that is there.
inline constexpr Range kGigabytes{.least = 0, .most = 1e6, .note = " GB"};
inline constexpr Choice kPrecision{"fp32", "bf16"};
inline constexpr Choice kSpeculation{"off", "on", "auto"};
inline constexpr Any kFlag{"both values mean something"};
/// A flag of the model that is the preset's unless it is said.
inline constexpr Choice kPresetFlag{"preset", "on", "off"};

/// Who must have the same value.
enum class Scope : std::uint8_t {
  kRun,   ///< all ranks
  kNode,  ///< the ranks of a node at most: it changes nothing of what ranks compute together
};

/// Meaning, unit, and what 0 or "" stands for; with a list behind it that is made elsewhere.
struct Help {
  constexpr Help(const char* words, std::string (*names)() = nullptr) : text(words), list(names) {}
  [[nodiscard]] std::string full() const { return list == nullptr ? text : text + list(); }

  const char* text;
  std::string (*list)();
};

/// How `plan` reads a key, into settings that have defaults of their own.
struct PlanOption {
  using Set =
      std::variant<std::monostate, void (*)(planner::PlanSettings&, Index),
                   void (*)(planner::PlanSettings&, double), void (*)(planner::PlanSettings&, bool),
                   void (*)(planner::PlanSettings&, const std::string&)>;
  const char* help = "";
  Set set{};
  Domain domain = Any{"not read"};
  std::optional<double> unsaid{};  ///< train_gpt's number that leaves the choice to the policy
};

/// All that is known of a key.
struct Option {
  const char* name;
  Help help;
  Value (*value)(Keys& keys);  ///< null: train_gpt and its files do not know the key
  Domain domain;
  Scope scope = Scope::kRun;
  PlanOption plan{};  ///< without `set`: plan does not know the key

  /// The number that a word stands for; nullopt: it is none of the key's.
  [[nodiscard]] std::optional<Index> number_of(const std::string& word) const {
    const auto* range = std::get_if<Range>(&domain);
    if (range == nullptr || range->also_word == nullptr || word != range->also_word)
      return std::nullopt;
    return static_cast<Index>(*range->also);
  }

  [[nodiscard]] constexpr bool is_for_training() const { return value != nullptr; }
  [[nodiscard]] constexpr bool is_for_plan() const { return plan.set.index() != 0; }
};

/// The second list behind the first.
template <std::size_t First, std::size_t Second>
constexpr std::array<Option, First + Second> joined(const std::array<Option, First>& first,
                                                    const std::array<Option, Second>& second) {
  return [&]<std::size_t... I, std::size_t... J>(std::index_sequence<I...>,
                                                 std::index_sequence<J...>) {
    return std::array<Option, First + Second>{first[I]..., second[J]...};
  }
  (std::make_index_sequence<First>(), std::make_index_sequence<Second>());
}

constexpr Option plan_only(const char* name, PlanOption plan) {
  return {name, "", nullptr, plan.domain, Scope::kRun, plan};
}

}  // namespace dos::config
