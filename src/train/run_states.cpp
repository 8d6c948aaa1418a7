// SPDX-License-Identifier: Apache-2.0
#include "train/run_states.hpp"

namespace dos::train {

RunStates::RunStates(rt::Session& session, const Run& run,
                     const std::function<std::unique_ptr<storage::Backend>()>& storage) {
  if (run.config.activation_plan().moved > 0)
    activations_ =
        std::make_unique<offload::DiskActivations>(run.config.activation_disks(), storage());
  const offload::HomePlan plan = plan_homes(run, session.workers());
  if (!plan.has_disks()) return;
  has_parameters_ = plan.with_parameters;
  disks_ = std::make_unique<offload::DiskStates>(session, run.layout, plan, run.config.disks(),
                                                 storage());
}

std::vector<Index> RunStates::on_disks() const {
  return disks_ == nullptr ? std::vector<Index>() : disks_->subgroups();
}

std::vector<Index> RunStates::parameters_on_disks() const {
  return has_parameters_ ? on_disks() : std::vector<Index>();
}

void RunStates::open_all() {
  if (disks_ == nullptr) return;
  for (const Index subgroup : disks_->subgroups()) disks_->open(subgroup);
}

void RunStates::end_round() {
  if (disks_ != nullptr) disks_->end_round();
}

void RunStates::settle() {
  if (disks_ != nullptr) disks_->settle();
  if (activations_ != nullptr) activations_->settle();
}

std::string RunStates::fault() const {
  const std::string why = disks_ == nullptr ? "" : disks_->fault();
  return why.empty() && activations_ != nullptr ? activations_->fault() : why;
}

std::optional<offload::DiskTraffic> RunStates::take_traffic() {
  if (disks_ == nullptr && activations_ == nullptr) return std::nullopt;
  const offload::DiskTraffic before = taken_;
  taken_ = {};
  if (disks_ != nullptr) taken_ = disks_->traffic();
  if (activations_ != nullptr) {
    const offload::DiskTraffic moved = activations_->traffic();
    taken_.read_bytes += moved.read_bytes;
    taken_.written_bytes += moved.written_bytes;
  }
  return offload::DiskTraffic{.read_bytes = taken_.read_bytes - before.read_bytes,
                              .written_bytes = taken_.written_bytes - before.written_bytes};
}

void RunStates::set_step(Index step) {
  if (disks_ != nullptr) disks_->set_step(step);
  if (activations_ != nullptr) activations_->set_step(step);
}

void RunStates::set_recorder(trace::Recorder* recorder) {
  const auto observe = [&](auto* disks, std::optional<StorageTrace>& trace) {
    if (disks == nullptr) return;
    disks->observe(nullptr);
    trace.reset();
    if (recorder != nullptr) trace.emplace(*recorder);
    disks->observe(trace ? &*trace : nullptr);
  };
  observe(disks_.get(), trace_);
  observe(activations_.get(), activation_trace_);
}

}  // namespace dos::train
