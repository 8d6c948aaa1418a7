// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "platform/processor_time.hpp"
#include "spread.hpp"

namespace dos::bench {

/// What a way of moving data costs, a round each.
struct TransferReadings {
  std::vector<double> mb_per_s;
  std::vector<double> cpu_ms_per_gb;  ///< of all threads of the process

  /// Adds a round: `work` moves so many bytes.
  void measure(Index bytes, const std::function<void()>& work) {
    const double processor = platform::own_processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const auto size = static_cast<double>(bytes);
    mb_per_s.push_back(size / 1e6 / seconds.count());
    cpu_ms_per_gb.push_back((platform::own_processor_seconds() - processor) * 1e3 / (size / 1e9));
  }
};

/// Medians of both ways, and of `own` over `raw` round by round the median and the extremes. Pre:
/// as many rounds of each, at least one.
inline nlohmann::json comparison(const TransferReadings& own, const TransferReadings& raw) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < own.mb_per_s.size(); ++i)
    ratios.push_back(own.mb_per_s[i] / raw.mb_per_s[i]);
  const Spread ratio = spread_of(ratios);
  return {{"mb_per_s", spread_of(own.mb_per_s).median},
          {"raw_mb_per_s", spread_of(raw.mb_per_s).median},
          {"ratio", ratio.median},
          {"ratio_least", ratio.min},
          {"ratio_most", ratio.max},
          {"cpu_ms_per_gb", spread_of(own.cpu_ms_per_gb).median},
          {"raw_cpu_ms_per_gb", spread_of(raw.cpu_ms_per_gb).median}};
}

/// "1234 MB/s, raw ...": what comparison() gave, for people.
inline std::string in_words(const nlohmann::json& comparison) {
  const auto number = [&](const char* name) { return comparison.at(name).get<double>(); };
  return fmt::format(
      "{:.0f} MB/s, raw {:.0f} MB/s, ratio {:.3f} ({:.3f} to {:.3f}), processor {:.0f} ms/GB, raw "
      "{:.0f}",
      number("mb_per_s"), number("raw_mb_per_s"), number("ratio"), number("ratio_least"),
      number("ratio_most"), number("cpu_ms_per_gb"), number("raw_cpu_ms_per_gb"));
}

}  // namespace dos::bench
