// SPDX-License-Identifier: Apache-2.0
#include "config/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"
#include "base/toml_depth.hpp"
#include "config/options.hpp"

namespace dos::config {
namespace {

[[noreturn]] void fail_unknown(const std::string& name, const std::vector<std::string>& known,
                               const std::string& where) {
  fail("{}: unknown key '{}'{}; --help lists all", where, name, did_you_mean(name, known));
}

/// Throws Error starting with `where` when no key has the name.
Key& find_key(std::vector<Key>& keys, const std::string& name, const std::string& where) {
  const auto found = std::ranges::find(keys, name, &Key::name);
  if (found != keys.end()) return *found;
  std::vector<std::string> names;
  for (const Key& key : keys) names.push_back(key.name);
  fail_unknown(name, names, where);
}

const Option& find_plan_option(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Option& option : kOptions) {
    if (!option.is_for_plan()) continue;
    if (name == option.name) return option;
    names.emplace_back(option.name);
  }
  fail_unknown(name, names, where);
}

/// False when the key has no number of that name.
bool set_by_word(const std::string& word, const Key& key) {
  const std::optional<Index> meant = key.option->number_of(word);
  if (!meant) return false;
  if (auto* const* number = std::get_if<double*>(&key.value))
    **number = static_cast<double>(*meant);
  else
    *std::get<Index*>(key.value) = *meant;
  return true;
}

/// The text of a list that is written as an array; nothing where it is none of entries.
std::optional<std::string> joined(const toml::array& entries) {
  std::vector<std::string> texts;
  for (const toml::node& entry : entries) {
    const std::optional<std::string> text = entry.value_exact<std::string>();
    if (!text || text->empty() || text->find(',') != std::string::npos) return std::nullopt;
    texts.push_back(*text);
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

void assign_text(const toml::node& node, const Key& key, const std::string& where,
                 std::string& target) {
  const auto* any = std::get_if<Any>(&key.option->domain);
  const bool is_list = any != nullptr && any->is_list;
  const toml::array* array = node.as_array();
  const std::optional<std::string> text =
      is_list && array != nullptr ? joined(*array) : node.value_exact<std::string>();
  expect(text.has_value(), "{}: {} must be a string in quotes{}", where, key.name,
         is_list ? ", or an array of strings without commas" : "");
  target = *text;
}

void assign(const toml::node& node, const Key& key, const std::string& where) {
  const auto set = [&]<class T>(T* target, const char* kind) {
    // Exact: 1.5 is no integer, "1" is no number; but 1 is a fine 1.0.
    const std::optional<T> value = node.value_exact<T>();
    expect(value.has_value(), "{}: {} must be {}", where, key.name, kind);
    *target = *value;
  };
  if (set_by_word(node.value_exact<std::string>().value_or(""), key)) return;
  if (const auto* integer = std::get_if<Index*>(&key.value)) set(*integer, "an integer");
  if (const auto* flag = std::get_if<bool*>(&key.value)) set(*flag, "true or false");
  if (const auto* text = std::get_if<std::string*>(&key.value))
    assign_text(node, key, where, **text);
  if (const auto* number = std::get_if<double*>(&key.value)) {
    if (const auto whole = node.value_exact<Index>())
      **number = static_cast<double>(*whole);
    else
      set(*number, "a number");
  }
}

std::string place(const std::string& file, const toml::source_region& region) {
  return fmt::format("{}:{}", file, region.begin.line);
}

toml::table parse_toml(const std::string& text, const std::string& name) {
  expect_shallow_toml(text, name);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail("{}: {}", place(name, error.source()), error.description());
  }
}

void apply(const toml::table& table, const std::string& file, TrainConfig& config) {
  TrainConfig changed = config;
  std::vector<Key> keys = keys_of(changed);
  for (const auto& [section, node] : table) {
    const std::string prefix(section.str());
    const std::string where = place(file, node.source());
    const toml::table* members = node.as_table();
    if (members == nullptr) {
      find_key(keys, prefix, where);
      fail("{}: write section and key of {} without quotes", where, prefix);
    }
    for (const auto& [name, value] : *members) {
      const std::string value_place = place(file, value.source());
      assign(value, find_key(keys, prefix + "." + std::string(name.str()), value_place),
             value_place);
    }
  }
  config = changed;
}

template <class T>
bool parse(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse(const std::string& text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool parse(const std::string& text, std::string& value) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  value = quoted ? text.substr(1, text.size() - 2) : text;
  return true;
}

constexpr const char* type_name(Index /*of*/) {
  return "an integer";
}
constexpr const char* type_name(double /*of*/) {
  return "a number";
}
constexpr const char* type_name(bool /*of*/) {
  return "true or false";
}
constexpr const char* type_name(const std::string& /*of*/) {
  return "a string";
}

/// A key and what it is to be, as an option of the command line gives them.
struct Assignment {
  std::string where;
  std::string name;
  std::string text;

  template <class T>
  void read(T& value) const {
    expect(parse(text, value), "{}: '{}' is not {}", where, text, type_name(value));
  }
};

Assignment split(const std::string& assignment, const char* form) {
  const auto equals = assignment.find('=');
  const std::string where = "--set " + assignment;
  expect(equals != std::string::npos, "{}: write {}", where, form);
  return {where, assignment.substr(0, equals), assignment.substr(equals + 1)};
}

template <class T>
void set_planned(void (*set)(planner::PlanSettings&, T), const Assignment& given,
                 const Domain& domain, planner::PlanSettings& settings) {
  std::remove_cvref_t<T> value{};
  const auto* words = std::get_if<Range>(&domain);
  const bool is_word =
      words != nullptr && words->also_word != nullptr && given.text == words->also_word;
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, Index>)
    if (is_word) value = static_cast<T>(*words->also);
  if (!is_word) given.read(value);
  if constexpr (std::is_same_v<T, const std::string&>) {
    if (const auto* choice = std::get_if<Choice>(&domain))
      expect(std::ranges::count(choice->words(), value) > 0, "{}: '{}' is not known; known: {}",
             given.where, value, fmt::join(choice->words(), ", "));
    if (const auto* named = std::get_if<Named>(&domain)) named->expect_known(value);
  }
  planner::PlanSettings changed = settings;
  set(changed, value);
  changed.policy.validate();
  if constexpr (std::is_arithmetic_v<T>)
    if (const auto* range = std::get_if<Range>(&domain))
      expect(range->holds(static_cast<double>(value)), "{}: must {}", given.where, range->text());
  settings = changed;
}

/// All that a value of the domain may be, as far as they are words.
std::vector<std::string> words_of(const Domain& domain) {
  if (const auto* choice = std::get_if<Choice>(&domain)) return choice->words();
  if (const auto* named = std::get_if<Named>(&domain)) return named->known();
  if (const auto* range = std::get_if<Range>(&domain); range != nullptr && range->also_word)
    return {range->also_word};
  return {};
}

}  // namespace

void read_config_file(const std::filesystem::path& path, TrainConfig& config) {
  apply(parse_toml(read_text(path), path.string()), path.string(), config);
}

void set_from_text(const std::string& assignment, TrainConfig& config) {
  const Assignment given = split(assignment, "section.key=value");
  TrainConfig changed = config;
  std::vector<Key> keys = keys_of(changed);
  const Key& key = find_key(keys, given.name, given.where);
  if (!set_by_word(given.text, key))
    std::visit([&](auto* value) { given.read(*value); }, key.value);
  config = changed;
}

void set_from_text(const std::string& assignment, planner::PlanSettings& settings) {
  const Assignment given = split(assignment, "key=value");
  const PlanOption& option = find_plan_option(given.name, given.where).plan;
  std::visit(
      [&]<class Set>(Set set) {
        if constexpr (!std::is_same_v<Set, std::monostate>)
          set_planned(set, given, option.domain, settings);
      },
      option.set);
}

std::string to_toml(const TrainConfig& config) {
  TrainConfig copy = config;
  std::string text;
  std::string section;
  for (const Key& key : keys_of(copy)) {
    const auto dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}  # {}\n", key.name.substr(dot + 1), value_text(key), key.help);
  }
  return text;
}

std::vector<KeyDescription> training_keys() {
  TrainConfig defaults;
  std::vector<KeyDescription> all;
  for (const Key& key : keys_of(defaults))
    all.push_back({key.name, key.help, value_text(key), words_of(key.option->domain)});
  return all;
}

std::vector<KeyDescription> plan_keys() {
  std::vector<KeyDescription> all;
  for (const Option& option : kOptions)
    if (option.is_for_plan())
      all.push_back({option.name, option.plan.help, "", words_of(option.plan.domain)});
  return all;
}

std::string describe_keys() {
  std::string text =
      "Configuration keys (--set section.key=value, or [section] key = value in --config):\n";
  for (const KeyDescription& key : training_keys())
    text += fmt::format("  {:<24} {}  [{}]\n", key.name, key.help, key.value);
  return text;
}

std::string describe_plan_keys() {
  std::string text = "Keys of --set key=value:\n";
  for (const KeyDescription& key : plan_keys())
    text += fmt::format("  {:<24} {}\n", key.name, key.help);
  return text;
}

}  // namespace dos::config
