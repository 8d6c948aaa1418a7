// SPDX-License-Identifier: Apache-2.0
#include "train/preparation.hpp"

#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "data/loader.hpp"
#include "dist/owners.hpp"
#include "models/registry.hpp"
#include "train/config_file.hpp"
#include "train/estimate.hpp"
#include "train/handshake.hpp"
#include "train/output_folder.hpp"
#include "train/rank_weights.hpp"
#include "train/run_info.hpp"

namespace dos::train {
namespace {

/// The checkpoint to continue from, if any. "auto" takes the last one if there is one.
std::optional<CheckpointReader> find_checkpoint(const LaunchOptions& options) {
  if (!options.resume) return std::nullopt;
  const bool automatic = *options.resume == "auto";
  const io::CheckpointStore store(options.out, /*keep=*/1,
                                  "start afresh without --resume, or name another --out");
  if (automatic && !store.last()) return std::nullopt;
  return CheckpointReader(store, automatic ? "last" : *options.resume);
}

TrainConfig merge(const LaunchOptions& options, const std::optional<CheckpointReader>& checkpoint) {
  TrainConfig config;
  if (checkpoint) {
    from_json(checkpoint->manifest().configuration,
              (checkpoint->folder() / io::kManifestName).string(), config);
    // It ended that part of the run, not this one.
    config.train.stop_after = TrainConfig().train.stop_after;
  }
  if (!options.config_file.empty()) read_config_file(options.config_file, config);
  for (const std::string& assignment : options.assignments) set_from_text(assignment, config);
  return config;
}

/// Throws Error unless both token files are long enough for the model.
void expect_suitable(const data::Dataset& dataset, const models::ModelConfig& model) {
  for (const data::TokenFile* file : {&dataset.train, &dataset.val})
    static_cast<void>(data::Loader(
        data::TokenFile(file->path()),
        {.context = model.context, .vocabulary = model.vocabulary, .seed = 0, .shuffle = false}));
}

}  // namespace

TrainConfig merge_configuration(const LaunchOptions& options) {
  return merge(options, find_checkpoint(options));
}

Preparation prepare(const LaunchOptions& options, Index ranks) {
  std::optional<CheckpointReader> checkpoint = find_checkpoint(options);
  TrainConfig config = merge(options, checkpoint);
  config.validate();
  if (config.dist.weights != kAutoWeights)
    static_cast<void>(dist::parse_weights("dist.weights", config.dist.weights, ranks));
  data::Dataset dataset = data::open_dataset(config.data.path);
  if (checkpoint) expect_data_of(*checkpoint, dataset, config.data.path, options.new_data);
  const bool continues = checkpoint && io::CheckpointStore(options.out).owns(checkpoint->folder());
  KeptTokenizer tokenizer(config.data.path, dataset.manifest, options.out, continues);
  models::ModelConfig model =
      config.resolve_model(dataset.manifest ? dataset.manifest->vocabulary : 0);
  expect_countable(model, config.run_shape(/*workers=*/config.train.batch));
  expect_suitable(dataset, model);
  if (checkpoint)
    io::expect_architecture(checkpoint->folder(), checkpoint->manifest(), to_json(model));
  tensor::Layout layout =
      optim::cut_into_subgroups(models::find_architecture(model.architecture).parameters(model),
                                config.sched.subgroup_params, config.decay_groups());
  return {std::move(checkpoint), std::move(config), std::move(dataset),
          std::move(model),      std::move(layout), std::move(tokenizer)};
}

Preparation prepare_together(const LaunchOptions& options, dist::Exchange& exchange) {
  std::optional<Preparation> mine;
  RankStart start;
  try {
    std::unique_ptr<io::RunLock> lock;
    if (exchange.rank() == 0) lock = lock_output(options);
    mine.emplace(prepare(options, exchange.ranks()));
    mine->lock = std::move(lock);
    const nlohmann::json checkpoint =
        mine->checkpoint ? nlohmann::json(mine->checkpoint->manifest().step) : nullptr;
    start.agreement = agreement_of(mine->config, mine->model, mine->dataset, checkpoint);
    // Ranks talk about each of them.
    start.agreement["options"] = {{"--dry-run", options.dry_run},
                                  {"--trace", !options.trace.empty()}};
  } catch (const Error& error) {
    start.error = error.what();
  }
  agree(exchange, start);
  exchange.configure({.timeout = dist::Seconds(mine->config.dist.timeout_s),
                      .numbers = std::ssize(mine->layout.subgroups)});
  return std::move(*mine);
}

}  // namespace dos::train
