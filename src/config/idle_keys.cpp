// SPDX-License-Identifier: Apache-2.0
#include "config/idle_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optim/rules.hpp"

namespace dos::config {
namespace {

/// A key that is read only with others as they are there.
struct Condition {
  const char* key;
  bool (*is_set)(const Keys& keys, const Keys& defaults);
  bool (*is_read)(const TrainConfig& config);
  const char* readers;  ///< who reads it
};

constexpr Condition kConditions[] = {
    {"train.mtbf_hours",
     [](const Keys& k, const Keys& d) { return k.train.mtbf_hours != d.train.mtbf_hours; },
     [](const TrainConfig& c) { return c.train.checkpoint_every == kAuto; },
     "train.checkpoint_every=auto"},
    {"train.checkpoint_copy_every",
     [](const Keys& k, const Keys& d) {
       return k.train.checkpoint_copy_every != d.train.checkpoint_copy_every;
     },
     [](const TrainConfig& c) { return !c.train.checkpoint_local.empty(); },
     "train.checkpoint_local"},
    {"train.checkpoint_copy_rate",
     [](const Keys& k, const Keys& d) {
       return k.train.checkpoint_copy_rate != d.train.checkpoint_copy_rate;
     },
     [](const TrainConfig& c) { return !c.train.checkpoint_local.empty(); },
     "train.checkpoint_local"},
    {"train.activation_disks",
     [](const Keys& k, const Keys& /*d*/) { return !k.train.activation_disks.empty(); },
     [](const TrainConfig& c) {
       return c.train.activations == "auto" || c.activation_plan().moved > 0;
     },
     "train.activations=auto, host or disk"},
    {"optim.final_lr_ratio",
     [](const Keys& k, const Keys& d) { return k.optim.final_lr_ratio != d.optim.final_lr_ratio; },
     [](const TrainConfig& c) { return c.optim.schedule != "constant"; },
     "optim.schedule=cosine or linear"},
};

/// A number of the update rule.
struct RuleNumber {
  const char* key;
  double Keys::Optim::*value;
};
constexpr RuleNumber kRuleNumbers[] = {{"beta1", &Keys::Optim::beta1},
                                       {"beta2", &Keys::Optim::beta2},
                                       {"momentum", &Keys::Optim::momentum},
                                       {"eps", &Keys::Optim::eps}};

}  // namespace

std::vector<std::string> words_on_idle_keys(const TrainConfig& config) {
  const TrainConfig defaults;
  std::vector<std::string> words;
  for (const Condition& each : kConditions)
    if (each.is_set(config, defaults) && !each.is_read(config))
      words.push_back(fmt::format("{} is set and not used: it needs {}", each.key, each.readers));
  for (const RuleNumber& each : kRuleNumbers)
    if (config.optim.*each.value != defaults.optim.*each.value &&
        !optim::reads(config.optim.rule, each.key))
      words.push_back(fmt::format("optim.{} is set and not used: optim.rule={} does not read it",
                                  each.key, config.optim.rule));
  const Index warmup = config.optim.warmup;
  if (warmup != defaults.optim.warmup && warmup > config.train.steps)
    words.push_back(fmt::format(
        "optim.warmup = {} of train.steps = {}: the learning rate does not reach optim.lr", warmup,
        config.train.steps));
  if (config.train.stop_after > config.train.steps)
    words.push_back(fmt::format("train.stop_after = {} is beyond train.steps = {}, which end first",
                                config.train.stop_after, config.train.steps));
  return words;
}

}  // namespace dos::config
