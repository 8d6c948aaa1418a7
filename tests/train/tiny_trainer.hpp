// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "data/dataset.hpp"
#include "data/token_file.hpp"
#include "platform/blas.hpp"
#include "scratch_directory.hpp"
#include "train/trainer.hpp"

namespace dos::test {

/// A data set of 257 tokens in `folder`; returns its prefix.
inline std::string write_tiny_dataset(const ScratchDirectory& folder) {
  for (const char* name : {"data_train.bin", "data_val.bin"}) {
    data::TokenWriter writer(folder / name, 257);
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 500; ++i) tokens.push_back(i * i % 257);
    writer.append(tokens);
    writer.commit();
  }
  return folder / "data";
}

/// The same, where few tokens count, and some windows of 8 have none.
inline std::string write_masked_tiny_dataset(const ScratchDirectory& folder) {
  write_tiny_dataset(folder);
  data::DatasetManifest manifest;
  manifest.tokenizer = data::kBytes;
  manifest.vocabulary = 257;
  manifest.train_tokens = manifest.val_tokens = 500;
  manifest.chat = {.chat_template = data::find_chat_template("chatml"), .context = 0};
  const data::DatasetPaths paths(folder / "data");
  for (const auto& path : {paths.train_mask, paths.val_mask}) {
    data::MaskWriter writer(path);
    for (std::int32_t i = 0; i < 500; ++i) {
      const bool is_counted = i % 101 < 20 || i % 37 == 0;
      writer.append(std::array{is_counted ? 0 : -1});
    }
    manifest.train_mask = manifest.val_mask = writer.finish();
    writer.commit();
  }
  for (auto* sums : {&manifest.train_sums, &manifest.val_sums})
    *sums = data::TokenFile(paths.train).check(257, {});
  write_durably(paths.manifest, data::to_text(manifest));
  return folder / "data";
}

inline config::TrainConfig tiny_config(const std::string& data_path) {
  config::TrainConfig config;
  config.model = {
      .preset = "tiny", .layers = 2, .width = 16, .heads = 2, .context = 8, .vocab = 257};
  config.data.path = data_path;
  config.train.steps = 6;
  config.train.batch = 3;
  config.train.lanes = 2;
  config.train.validate_every = 0;
  config.train.validate_batches = 1;
  config.optim.warmup = 2;
  config.sched.subgroup_params = 1000;
  return config;
}

inline train::Run tiny_run(const config::TrainConfig& config) {
  return train::make_run(config, config.resolve_model(0));
}

using StorageMaker = std::function<std::unique_ptr<storage::Backend>()>;

/// A trainer of `config` that writes into `out`, which exists afterwards: alone, or as one of
/// several ranks.
inline std::unique_ptr<train::Trainer> make_trainer(
    rt::Session& session, const config::TrainConfig& config, const std::filesystem::path& out,
    const ranks::RankShare& share = {}, ranks::Exchange* exchange = nullptr,
    int message_node = rt::kHostNode, StorageMaker storage = &storage::make_backend,
    StorageMaker disk_storage = &storage::make_backend) {
  platform::blas::use_one_thread();
  std::filesystem::create_directories(out);
  return std::make_unique<train::Trainer>(
      session, train::TrainerInputs{.run = tiny_run(config).with(share),
                                    .out = out,
                                    .sources = data::open_sources(config.data_sources()),
                                    .tokenizer = nullptr,
                                    .quiet = true,
                                    .exchange = exchange,
                                    .message_node = message_node,
                                    .storage = std::move(storage),
                                    .disk_storage = std::move(disk_storage)});
}

}  // namespace dos::test
