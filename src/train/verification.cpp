// SPDX-License-Identifier: Apache-2.0
#include "train/verification.hpp"

#include <chrono>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "dist/gather.hpp"
#include "train/handshake.hpp"
#include "train/stop_signal.hpp"

namespace dos::train {
namespace {

bool has_sums(const data::Dataset& dataset) {
  return dataset.manifest && dataset.manifest->train_sums && dataset.manifest->val_sums;
}

/// Whether it is over. What it has found by then counts.
void wait(const data::Verification& verification, bool to_the_end) {
  constexpr std::chrono::milliseconds kMoment{500};
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  if (verification.wait_for(kMoment) || !to_the_end) return;
  log::info("reading all of the data before the start");
  while (!verification.wait_for(kBetweenLooks) && stop_signal() == 0) {
  }
}

}  // namespace

std::unique_ptr<data::Verification> start_verification(const LaunchOptions& options,
                                                       const Preparation& run,
                                                       const RankPlace& place) {
  if (options.dry_run && !options.verify) return nullptr;
  if (!has_sums(run.dataset) && !options.quiet)
    log::warn("{}: has no checksums, as only prepare_data writes them: damage is not noticed",
              run.config.data.path);
  if (place.position.local_rank != 0) return nullptr;
  return std::make_unique<data::Verification>(run.dataset, run.model.vocabulary);
}

void wait_for_verification(const LaunchOptions& options, const Preparation& run,
                           const data::Verification* verification, dist::Exchange* exchange) {
  std::string fault;
  if (verification != nullptr) {
    wait(*verification, options.verify || !has_sums(run.dataset));
    fault = verification->fault().value_or("");
  }
  if (exchange == nullptr) return expect(fault.empty(), "{}", fault);
  for (const std::string& found : dist::gather_texts(*exchange, fault))
    if (!found.empty()) throw AgreedError(found);
}

}  // namespace dos::train
