// SPDX-License-Identifier: Apache-2.0
#include "train/storage_trace.hpp"

#include "trace/clock.hpp"

namespace dos::train {

void StorageTrace::saw(const storage::Observation& observation) noexcept {
  const storage::Label& label = observation.label;
  const trace::TraceInterval interval(observation.start, observation.end);
  trace::StorageEvent event{.operation = name_of(observation.activity),
                            .purpose = name_of(label.purpose),
                            .buffer = trace::Name(label.buffer),
                            .category = label.category,
                            .bytes = observation.bytes,
                            .step = label.step,
                            .start_us = interval.start_us,
                            .end_us = interval.end_us};
  if (observation.file != nullptr) event.disk = disk_of(*observation.file);
  recorder_.record(event);
}

trace::Name StorageTrace::disk_of(const storage::DirectFile& file) {
  const auto [disk, is_new] = disks_.try_emplace(file.device());
  if (is_new) disk->second = trace::Name(file.mount_point().string());
  return disk->second;
}

}  // namespace dos::train
