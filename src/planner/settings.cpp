// SPDX-License-Identifier: Apache-2.0
#include "planner/settings.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace dos::planner {
namespace {

template <class T>
T number(const std::string& text, const std::string& where, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  expect(error == std::errc() && end == text.data() + text.size(), "{}: '{}' is not {}", where,
         text, kind);
  return value;
}

Index integer(const std::string& text, const std::string& where) {
  return number<Index>(text, where, "an integer");
}

bool flag(const std::string& text, const std::string& where) {
  expect(text == "true" || text == "false", "{}: '{}' is not true or false", where, text);
  return text == "true";
}

/// Whether the text is the second of two names.
bool second_of(const std::string& text, const std::string& where, const std::string& first,
               const std::string& second) {
  expect(text == first || text == second, "{}: '{}' is not known; known: {}, {}", where, text,
         first, second);
  return text == second;
}

struct Key {
  const char* name;
  const char* help;
  void (*set)(Settings& settings, const std::string& text, const std::string& where);
};

using Text = const std::string&;

constexpr std::array kKeys{
    Key{"sched.subgroup_params", "parameters of a subgroup, at most; 0: chosen",
        [](Settings& s, Text t, Text w) {
          s.subgroup_params = integer(t, w);
          expect(s.subgroup_params >= 0, "{}: must be at least 0", w);
        }},
    Key{"sched.stride", "every stride-th subgroup on the GPU",
        [](Settings& s, Text t, Text w) { s.policy.stride = integer(t, w); }},
    Key{"sched.share", "part of the parameters on the GPU, 0 to 1",
        [](Settings& s, Text t, Text w) { s.policy.share = number<double>(t, w, "a number"); }},
    Key{"sched.window", "streamed subgroups on a GPU at once",
        [](Settings& s, Text t, Text w) { s.policy.window = integer(t, w); }},
    Key{"sched.published", "true: model the published code",
        [](Settings& s, Text t, Text w) { s.policy.published = flag(t, w); }},
    Key{"sched.resident", "false: no state stays on the GPU",
        [](Settings& s, Text t, Text w) { s.policy.residents = flag(t, w); }},
    Key{"sched.half_duplex", "true: one direction of a link at a time",
        [](Settings& s, Text t, Text w) { s.policy.half_duplex = flag(t, w); }},
    Key{"sched.gradient_flush", "gradients of CPU subgroups leave the GPU in: backward, update",
        [](Settings& s, Text t, Text w) {
          s.flush_in_update = second_of(t, w, "backward", "update");
        }},
    Key{"sched.flush_mode", "flush during backward: async, blocking (with sched.published)",
        [](Settings& s, Text t, Text w) {
          s.flush_is_blocking = second_of(t, w, "async", "blocking");
        }},
    Key{"dist.zero", "what ranks share: 1 states, 2 gradients too, 3 working parameters too",
        [](Settings& s, Text t, Text w) {
          s.zero = integer(t, w);
          expect(s.zero >= 1 && s.zero <= 3, "{}: must be 1, 2 or 3", w);
        }},
    Key{"dist.exchange", "direct: through host memory; collective: between GPUs, once a node",
        [](Settings& s, Text t, Text w) {
          s.exchange = second_of(t, w, "direct", "collective") ? ExchangeWay::kCollective
                                                               : ExchangeWay::kDirect;
        }},
    Key{"train.recompute", "keep only the blocks' inputs, compute the rest again",
        [](Settings& s, Text t, Text w) { s.recompute = flag(t, w); }},
    Key{"train.precision", "of working parameters and gradients: bf16, fp32",
        [](Settings& s, Text t, Text w) { s.fp32 = second_of(t, w, "bf16", "fp32"); }},
};

}  // namespace

void set_from_text(const std::string& assignment, Settings& settings) {
  const std::string where = "--set " + assignment;
  const auto equals = assignment.find('=');
  expect(equals != std::string::npos, "{}: write key=value", where);
  const std::string name = assignment.substr(0, equals);
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (name == key.name) {
      key.set(settings, assignment.substr(equals + 1), where);
      settings.policy.validate();
      return;
    }
    names.emplace_back(key.name);
  }
  fail("{}: unknown key '{}'{}; --help lists all", where, name, did_you_mean(name, names));
}

std::string describe_settings() {
  std::string text = "Keys of --set key=value:\n";
  for (const Key& key : kKeys) text += fmt::format("  {:<24} {}\n", key.name, key.help);
  return text;
}

}  // namespace dos::planner
