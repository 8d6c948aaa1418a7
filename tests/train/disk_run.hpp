// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/checkpoint_run.hpp"

namespace dos::test {

/// Runs whose states live on disks, of storage that meets with mishaps.
class DiskRun : public CheckpointRun {
 protected:
  DiskRun() {
    for (const char* name : {"disk0", "disk1"}) std::filesystem::create_directory(scratch_ / name);
    disks_ = (scratch_ / "disk0").string();
    // More subgroups than slots.
    config_.sched.subgroup_params = 500;
  }

  /// A trainer with states on disks_, on storage that meets with mishaps.
  [[nodiscard]] std::unique_ptr<train::Trainer> on_disks(const std::filesystem::path& out,
                                                         const Plan& plan = {}) {
    config::TrainConfig config = config_;
    config.sched.disks = disks_;
    config.sched.host_memory = host_memory_;
    const auto storage = [plan]() -> std::unique_ptr<storage::Backend> {
      if (!plan) return storage::make_backend();
      return std::make_unique<FaultyBackend>(storage::make_backend(), plan);
    };
    return make_trainer(session_, config, out, {}, nullptr, rt::kHostNode, &storage::make_backend,
                        storage);
  }
  void train_on_disks(const std::filesystem::path& out, const Plan& plan = {}) {
    const auto made = on_disks(out, plan);
    made->start_fresh();
    made->run();
  }

  static std::vector<double> of_metrics(const std::filesystem::path& out, const char* key) {
    std::vector<double> values;
    std::ifstream lines(out / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains(key))
        values.push_back(json.at(key).get<double>());
    return values;
  }

  std::string disks_;
  double host_memory_ = 0;
};

}  // namespace dos::test
