// SPDX-License-Identifier: Apache-2.0
#include "launch/dataset_check.hpp"
#include "ranks/agreed_error.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "launch/handshake.hpp"
#include "ranks/gather.hpp"
#include "train/stop_signal.hpp"

namespace dos::launch {
namespace {

bool has_sums(const data::Source& source) {
  const auto& manifest = source.dataset.manifest;
  return manifest && manifest->train_sums && manifest->val_sums;
}

/// Whether it is over. What it has found by then counts.
void wait(const data::Verification& verification, bool to_the_end) {
  constexpr std::chrono::milliseconds kMoment{500};
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  if (verification.wait_for(kMoment) || !to_the_end) return;
  log::info("reading all of the data before the start");
  while (!verification.wait_for(kBetweenLooks) && train::stop_signal() == 0) {
  }
}

}  // namespace

std::unique_ptr<data::Verification> start_verification(const LaunchOptions& options,
                                                       const Preparation& prepared,
                                                       const RankPlace& place) {
  if (options.dry_run && !options.verify) return nullptr;
  for (const data::Source& source : prepared.sources)
    if (!has_sums(source) && !options.quiet)
      log::warn("{}: has no checksums, as only prepare_data writes them: damage is not noticed",
                source.name.prefix);
  if (place.position.local_rank != 0) return nullptr;
  return std::make_unique<data::Verification>(prepared.sources, prepared.run.model.vocabulary);
}

void wait_for_verification(const LaunchOptions& options, const Preparation& prepared,
                           const data::Verification* verification, ranks::Exchange* exchange) {
  std::string fault;
  if (verification != nullptr) {
    wait(*verification, options.verify || !std::ranges::all_of(prepared.sources, has_sums));
    fault = verification->fault().value_or("");
  }
  fault = ranks::first_text(exchange, fault);
  if (exchange == nullptr) return expect(fault.empty(), "{}", fault);
  if (!fault.empty()) throw ranks::AgreedError(fault);
}

}  // namespace dos::launch
