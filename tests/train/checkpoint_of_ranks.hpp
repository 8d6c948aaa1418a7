// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/contents.hpp"
#include "io/safetensors.hpp"
#include "ranks/gather.hpp"
#include "ranks/mpi_main.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::test {

/// Runs of a tiny model on all ranks of the program, which write to one folder.
class CheckpointOfRanks : public testing::Test {
 protected:
  struct Topology {
    Index zero = 1;
    Index subgroup_params = 1000;
    const char* precision = "fp32";
  };

  /// The same on all ranks of a node.
  [[nodiscard]] std::filesystem::path shared() {
    if (ranks::environment->size() == 1) return scratch_.path();
    return ranks::gather_texts(*exchange_, scratch_.path().string()).front();
  }

  void SetUp() override {
    if (ranks::environment->size() > 1)
      exchange_.emplace(*ranks::environment, ranks::ExchangeOptions{.numbers = 4096});
    folder_ = shared();
    config_ = tiny_config((folder_ / "data").string());
    if (ranks::environment->rank() == 0) write_tiny_dataset(scratch_);
    wait_for_all();
  }
  void TearDown() override {
    wait_for_all();
    if (exchange_) exchange_->close();
  }
  void wait_for_all() {
    if (exchange_) static_cast<void>(ranks::gather_texts(*exchange_, ""));
  }

  [[nodiscard]] std::unique_ptr<train::Trainer> make(
      rt::Session& session, const Topology& topology, const std::filesystem::path& out,
      StorageMaker storage = &storage::make_backend) {
    config_.sched.subgroup_params = topology.subgroup_params;
    config_.train.precision = topology.precision;
    if (!exchange_) return make_trainer(session, config_, out, {}, nullptr, rt::kHostNode, storage);
    const std::vector<double> weights(static_cast<std::size_t>(ranks::environment->size()), 1.0);
    return make_trainer(session, config_, out,
                        ranks::share_of(tiny_run(config_).layout, ranks::environment->rank(),
                                        weights, topology.zero),
                        &*exchange_, rt::kHostNode, std::move(storage));
  }

  /// Whether what this rank owns is what the checkpoint holds.
  static bool holds(const train::Trainer& trainer, const std::filesystem::path& checkpoint) {
    const auto is_held = [&](const checkpoint::FileContents& contents) {
      const io::SafetensorsFile file(checkpoint / contents.name);
      for (const checkpoint::Part& part : contents.parts) {
        const rt::HostAccess access(*part.handle, rt::Mode::kRead);
        const auto bytes = std::as_bytes(access.as<const float>());
        for (const checkpoint::Extent& extent : part.extents) {
          const auto saved = file.at(contents.tensors[extent.tensor].name).bytes;
          if (std::memcmp(saved.data() + extent.tensor_offset, bytes.data() + extent.buffer_offset,
                          static_cast<std::size_t>(extent.bytes)) != 0)
            return false;
        }
      }
      return true;
    };
    return std::ranges::all_of(
        checkpoint::written_contents(trainer.parameters(), trainer.optimizer()), is_held);
  }

  ScratchDirectory scratch_;
  std::optional<ranks::Exchange> exchange_;
  std::filesystem::path folder_;
  config::TrainConfig config_;
};

}  // namespace dos::test
