// SPDX-License-Identifier: Apache-2.0
#include "launch/preparation.hpp"

#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "config/config_file.hpp"
#include "config/folder_model.hpp"
#include "data/loader.hpp"
#include "fit/estimate.hpp"
#include "hf/config_json.hpp"
#include "launch/handshake.hpp"
#include "launch/output_folder.hpp"
#include "launch/rank_weights.hpp"
#include "shape/owners.hpp"
#include "train/run_info.hpp"

namespace dos::launch {
namespace {

/// The checkpoint to continue from, if any. "auto" takes the last one if there is one.
std::optional<train::CheckpointReader> find_checkpoint(const LaunchOptions& options) {
  if (!options.resume) return std::nullopt;
  const bool automatic = *options.resume == "auto";
  const io::CheckpointStore store(options.out, /*keep=*/1,
                                  "start afresh without --resume, or name another --out");
  if (automatic && !store.last()) return std::nullopt;
  return train::CheckpointReader(store, automatic ? "last" : *options.resume);
}

config::TrainConfig merge(const LaunchOptions& options,
                          const std::optional<train::CheckpointReader>& checkpoint) {
  config::TrainConfig config;
  if (checkpoint) {
    config::from_json(checkpoint->manifest().configuration,
                      (checkpoint->folder() / io::kManifestName).string(), config);
    // It ended that part of the run, not this one.
    config.train.stop_after = config::TrainConfig().train.stop_after;
  }
  const bool takes_model = !checkpoint && !options.init_from.empty();
  if (takes_model) config.model.preset.clear();
  if (!options.config_file.empty()) config::read_config_file(options.config_file, config);
  for (const std::string& assignment : options.assignments)
    config::set_from_text(assignment, config);
  if (takes_model)
    config::take_folder_model(hf::read_config(options.init_from), options.init_from.string(),
                              config);
  return config;
}

/// Throws Error unless the token files are long enough for the model.
void expect_suitable(const data::Sources& sources, const shape::ModelConfig& model) {
  for (const auto& [name, dataset] : sources)
    for (const data::Split split : {data::Split::kTrain, data::Split::kValidation})
      static_cast<void>(data::open_split(
          dataset, split,
          {.context = model.context, .vocabulary = model.vocabulary, .seed = 0, .shuffle = false}));
}

}  // namespace

config::TrainConfig merge_configuration(const LaunchOptions& options) {
  return merge(options, find_checkpoint(options));
}

Preparation prepare(const LaunchOptions& options, Index ranks) {
  std::optional<train::CheckpointReader> checkpoint = find_checkpoint(options);
  const config::TrainConfig config = merge(options, checkpoint);
  config.validate();
  if (config.dist.weights != kAutoWeights)
    static_cast<void>(shape::parse_weights("dist.weights", config.dist.weights, ranks));
  data::Sources sources = data::open_sources(config.data_sources());
  if (checkpoint) train::expect_data_of(*checkpoint, sources, options.new_data);
  const bool continues = checkpoint && io::CheckpointStore(options.out).owns(checkpoint->folder());
  train::KeptTokenizer tokenizer(sources, options.out, continues);
  const data::Source* described = data::described(sources);
  const bool takes_weights = !checkpoint && !options.init_from.empty();
  const Index tokens = described != nullptr ? described->dataset.manifest->vocabulary : 0;
  expect(!takes_weights || config.model.vocab >= tokens,
         "{}: the model knows {} tokens, but the tokenizer of {} has {}: prepare the text with the "
         "tokenizer of the model",
         options.init_from.string(), config.model.vocab,
         described == nullptr ? std::string() : described->name.prefix, tokens);
  const shape::ModelConfig model = config.resolve_model(tokens);
  fit::expect_countable(model, config.run_shape(/*workers=*/config.train.batch));
  expect_suitable(sources, model);
  if (checkpoint)
    io::expect_architecture(checkpoint->folder(), checkpoint->manifest(), train::to_json(model));
  std::optional<hf::ModelWeights> weights;
  if (takes_weights) weights.emplace(options.init_from, model);
  return {std::move(checkpoint), std::move(weights), train::make_run(config, model),
          std::move(sources), std::move(tokenizer)};
}

Preparation prepare_together(const LaunchOptions& options, ranks::Exchange& exchange) {
  std::optional<Preparation> mine;
  RankStart start;
  try {
    std::unique_ptr<io::RunLock> lock;
    if (exchange.rank() == 0) lock = lock_output(options);
    mine.emplace(prepare(options, exchange.ranks()));
    mine->lock = std::move(lock);
    const nlohmann::json checkpoint =
        mine->checkpoint ? nlohmann::json(mine->checkpoint->manifest().step) : nullptr;
    start.agreement = agreement_of(mine->run, mine->sources, checkpoint);
    start.agreement["weights"] =
        mine->weights ? nlohmann::json(mine->weights->identity()) : nullptr;
    // Ranks talk about each of them.
    start.agreement["options"] = {{"--dry-run", options.dry_run},
                                  {"--trace", !options.trace.empty()}};
  } catch (const Error& error) {
    start.error = error.what();
  }
  agree(exchange, start);
  exchange.configure({.timeout = ranks::Seconds(mine->run.config.dist.timeout_s),
                      .numbers = std::ssize(mine->run.layout.subgroups)});
  return std::move(*mine);
}

}  // namespace dos::launch
