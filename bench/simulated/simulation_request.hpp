// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "perfmodels/starpu_bus.hpp"
#include "sched/policy.hpp"
#include "simulated/node_protocol.hpp"

namespace dos::bench {

/// What a user asks of update_phase, as given.
struct Request {
  std::string machine;
  perfmodels::Host host{};  ///< that the machine 'this' stands for
  std::string params = "5.12G";
  std::string subgroup = "0";
  std::string policy = "dos";
  std::optional<double> gpu_memory{};  ///< GB
  Index gpus = 1;
  Index steps = 3;
  Index warm_ups = kWarmUps;
  bool busy_links = false;
  bool here = false;  ///< on this machine, whose CPU and links share DRAM
  Slowness slow{};
  sched::PolicyOptions options{};
};

/// A simulated update phase, checked and complete: plain values that a process can hand to another.
struct UpdatePhase {
  std::string machine;  ///< the machine file's name
  std::string policy;
  sched::PolicyOptions options{};
  sched::Problem problem;      ///< rates of the simulated node, subgroups in order
  sched::Cut cut;              ///< Cut::size as it is, but for the last subgroup
  units::Bytes gpu_memory{0};  ///< what each GPU holds: states, working parameters, gradients
  Index steps = 0;             ///< that count
  Index warm_ups = kWarmUps;   ///< before them
  Slowness slow{};
};

/// "16000000", "16M", "5.12G", "5.12e9". Throws Error naming `option` unless it is a whole number
/// of parameters of at least `least`.
Index parse_params(const std::string& option, const std::string& text, Index least);

/// The machine file of a name that may be short: `name` where its GPUs can be dealt to ranks of
/// `gpus` each, else `name`-4x, say; "this" stands for `host`. Throws Error with the numbers of
/// GPUs that there are.
perfmodels::Machine machine_of(const std::string& name, Index gpus,
                               const std::filesystem::path& folder,
                               const perfmodels::Host& host = {});

/// The update phase of one rank with `gpus` GPUs and its part of the node. Without a size of
/// subgroups the planner chooses one. Throws Error, with value, place and remedy in one line.
UpdatePhase prepare(const Request& request, const std::filesystem::path& machines);

}  // namespace dos::bench
