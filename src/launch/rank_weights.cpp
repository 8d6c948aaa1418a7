// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_weights.hpp"
#include "base/json_text.hpp"
#include "ranks/agreed_error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/json.hpp"
#include "base/log.hpp"
#include "launch/handshake.hpp"
#include "planner/memory.hpp"
#include "platform/topology.hpp"
#include "ranks/gather.hpp"
#include "rt/cuda.hpp"
#include "sched/bound.hpp"
#include "shape/owners.hpp"

namespace dos::launch {
namespace {

units::ParamsPerSecond measured_rate(const std::filesystem::path& machines, const RankPlace& place,
                                     bool uses_gpus) {
  perfmodels::Machine machine = calibrated_machine(machines, place);
  if (!uses_gpus) machine.gpus.value = 0;
  return update_rate(perfmodels::rates_of(machine, place.position.local_size));
}

}  // namespace

perfmodels::Host this_host() {
  const platform::Topology topology = platform::read_topology();
  return {.name = platform::host_name(),
          .cores = topology.cores,
          .nvidia_gpus = std::ssize(rt::cuda_bus_ids())};
}

bool is_calibrated(const std::filesystem::path& machines) {
  std::error_code ignored;
  return std::filesystem::exists(machines / (platform::host_name() + ".toml"), ignored);
}

perfmodels::Machine calibrated_machine(const std::filesystem::path& machines,
                                       const RankPlace& place) {
  perfmodels::Host host = this_host();
  host.nvidia_gpus = place.visible_gpus;
  return perfmodels::find_machine("this", machines, host);
}

std::optional<perfmodels::GpuRates> measured_link(const std::filesystem::path& machines,
                                                  const RankPlace& place) {
  if (!is_calibrated(machines)) return std::nullopt;
  try {
    const perfmodels::Rates rates =
        perfmodels::rates_of(calibrated_machine(machines, place), place.position.local_size);
    if (!rates.gpus.empty()) return rates.gpus.front();
  } catch (const Error&) {
    // Said where the file is asked for.
  }
  return std::nullopt;
}

units::ParamsPerSecond update_rate(const perfmodels::Rates& rates) {
  // The bound is proportional to it.
  constexpr units::Params params{1e9};
  sched::Problem problem;
  problem.subgroups = {{.params = static_cast<Index>(params.value())}};
  problem.rates = rates;
  if (!rates.gpus.empty()) problem.cost.host_gradient = units::BytesPerParam(planner::kSumBytes);
  const units::Bytes enough = params * problem.cost.held();
  problem.memory.assign(rates.gpus.size(), {.update = enough, .resident = units::Bytes(0)});
  return params / sched::lower_bound(problem, {.busy_links = true, .residents = false}).time;
}

std::vector<double> relative_weights(const std::vector<double>& rates) {
  const double most = *std::max_element(rates.begin(), rates.end());
  std::vector<double> weights;
  for (const double rate : rates) {
    const double digit = std::pow(10, std::floor(std::log10(rate / most)) - 2);
    weights.push_back(std::round(rate / most / digit) * digit);
  }
  return weights;
}

std::vector<double> rank_weights(const std::string& text, const std::filesystem::path& machines,
                                 const RankPlace& place, bool uses_gpus,
                                 ranks::Exchange& exchange) {
  if (text != kAutoWeights) return shape::parse_weights("dist.weights", text, exchange.ranks());
  nlohmann::json mine;
  try {
    mine["rate"] = measured_rate(machines, place, uses_gpus).value();
  } catch (const Error& error) {
    mine["error"] = error.what();
  }
  const std::vector<std::string> all = ranks::gather_texts(exchange, json_text(mine));
  std::vector<double> rates;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const nlohmann::json its = parse_json_object(all[rank], "the message of a rank",
                                                 "start all ranks with the same program");
    if (its.contains("error"))
      throw ranks::AgreedError(
          fmt::format("dist.weights = auto: rank {} on its node: {}; or write one number a rank",
                      rank, its.at("error").get<std::string>()));
    rates.push_back(its.at("rate").get<double>());
  }
  const std::vector<double> weights = relative_weights(rates);
  if (exchange.rank() == 0)
    log::info("dist.weights = auto: {} of the fastest rank's {:.3g} Gparam/s",
              fmt::join(weights, ","), *std::max_element(rates.begin(), rates.end()) / 1e9);
  return weights;
}

}  // namespace dos::launch
