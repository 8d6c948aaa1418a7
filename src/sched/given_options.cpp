// SPDX-License-Identifier: Apache-2.0
#include "sched/given_options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "sched/policy_registry.hpp"

namespace dos::sched {
namespace {

template <class T>
std::string spelled(const char* spelling, const char* name, const T& value) {
  return fmt::format(fmt::runtime(spelling), name, value);
}

void expect_own(const std::string& policy, bool OptionsRead::*option, const std::string& given) {
  std::vector<std::string> readers;
  for (const Policy& each : policies()) {
    if (!(each.reads.*option)) continue;
    if (policy == each.name) return;
    readers.emplace_back(each.name);
  }
  fail("{}: policy {} does not read it: leave it out, or choose {}", given, policy,
       fmt::join(readers, ", "));
}

}  // namespace

void expect_read(const std::string& policy, const PolicyOptions& given, const char* spelling) {
  if (given.stride)
    expect_own(policy, &OptionsRead::stride, spelled(spelling, "stride", *given.stride));
  if (given.share)
    expect_own(policy, &OptionsRead::share, spelled(spelling, "share", *given.share));
  if (given.window)
    expect_own(policy, &OptionsRead::window, spelled(spelling, "window", *given.window));
  if (given.published)
    expect_own(policy, &OptionsRead::published, spelled(spelling, "published", true));
  expect(!given.published || !given.window,
         "{}: the published code streams through one buffer: leave it out",
         spelled(spelling, "window", given.window.value_or(0)));
}

void expect_window_fits(const Problem& problem, const PolicyOptions& given, const char* spelling) {
  if (!given.window) return;
  const units::Bytes slot =
      units::Params(static_cast<double>(problem.largest())) * problem.cost.held();
  for (Index g = 0; g < problem.gpus(); ++g) {
    const units::Bytes room = problem.memory[static_cast<std::size_t>(g)].update;
    const double most = std::floor(room / slot * (1 + 1e-12));
    expect(static_cast<double>(*given.window) <= most,
           "{}: so many subgroups of {:.4g} GB need {:.4g} GB, GPU {} has {:.4g} GB for states in "
           "the update: {}",
           spelled(spelling, "window", *given.window), slot.value() / 1e9,
           slot.value() / 1e9 * static_cast<double>(*given.window), g, room.value() / 1e9,
           most >= 1 ? fmt::format("at most {:.0f} fit", most)
                     : std::string("none fits, use smaller subgroups"));
  }
}

}  // namespace dos::sched
