// SPDX-License-Identifier: Apache-2.0
#include "calibration/histories.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "calibration/update_set.hpp"
#include "rt/device.hpp"

namespace dos::calibration {
namespace {

void run(const UpdateSet& set, int worker) {
  for (Index runs = 0; runs < kHistoryRuns; runs += set.subgroups()) set.submit_updates(worker);
}

}  // namespace

void prime_histories(const rt::SessionConfig& config, const codelets::UpdateKind& kind,
                     std::span<const Index> subgroup_params, Index most_bytes) {
  for (const Index params : subgroup_params)
    expect(
        params * stored_bytes_per_parameter(kind) <= most_bytes,
        "--subgroup-params {}: one such subgroup takes {} of host memory, {} can be used: choose "
        "a smaller one",
        params, format_bytes(params * stored_bytes_per_parameter(kind)), format_bytes(most_bytes));
  rt::SessionConfig priming = config;
  priming.calibrates = true;
  rt::Session session(priming);
  rt::Submitter submitter(session);
  for (const Index params : subgroup_params) {
    const Index fitting = most_bytes / (params * stored_bytes_per_parameter(kind));
    const UpdateSet set(submitter, kind, std::min(fitting, session.cpu_workers()), params);
    run(set, rt::kAnyCpuWorker);
    session.wait_all();
    for (const rt::Device& device : rt::devices()) run(set, device.worker);
    session.wait_all();
    submitter.profile().take(submitter.tag().step);
  }
}

}  // namespace dos::calibration
