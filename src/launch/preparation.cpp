// SPDX-License-Identifier: Apache-2.0
#include "launch/preparation.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "config/config_file.hpp"
#include "config/folder_model.hpp"
#include "data/loader.hpp"
#include "fit/estimate.hpp"
#include "hf/adapter_config.hpp"
#include "hf/config_json.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/run_folder.hpp"
#include "launch/handshake.hpp"
#include "launch/output_folder.hpp"
#include "launch/rank_weights.hpp"
#include "ranks/gather.hpp"
#include "shape/owners.hpp"
#include "train/folder_tokenizer.hpp"
#include "train/run_info.hpp"

namespace dos::launch {
namespace {

/// The newest intact one of those that `is_wanted`; warns of the others.
template <class IsWanted>
std::optional<train::CheckpointReader> newest_intact(const io::CheckpointLevels& levels,
                                                     const IsWanted& is_wanted) {
  for (const io::CheckpointLevels::Found& each : levels.all()) {
    if (!is_wanted(each)) continue;
    try {
      return train::CheckpointReader(each.folder);
    } catch (const io::NewerFormat&) {
      throw;
    } catch (const Error& error) {
      log::warn("{}", error.what());
    }
  }
  return std::nullopt;
}

/// Where the link `last` is lost: the newest intact one, if it is later than what a link names.
/// nullopt: nothing is lost.
std::optional<train::CheckpointReader> find_without_link(
    const std::filesystem::path& folder, const io::CheckpointLevels& levels,
    const std::optional<io::CheckpointLevels::Found>& last) {
  std::error_code ignored;
  const bool has_link = std::filesystem::symlink_status(folder / "last", ignored).type() !=
                        std::filesystem::file_type::not_found;
  if (has_link || !levels.shared().has_any()) return std::nullopt;
  std::optional<train::CheckpointReader> newest =
      newest_intact(levels, [&](const auto& each) { return !last || each.step > last->step; });
  if (last && !newest) return std::nullopt;
  expect(newest.has_value(),
         "{}: no link 'last', and no intact checkpoint that is not set aside: name one, --resume "
         "STEP, or another --out",
         folder.string());
  log::warn("{}: no link 'last': taking the newest checkpoint that is intact, of step {}",
            folder.string(), newest->manifest().step);
  return newest;
}

/// A checkpoint's folder as its run knows it: what a shell completes ends in a slash, and `.` is
/// one that a person stands in.
std::filesystem::path named_plainly(const std::filesystem::path& folder) {
  const auto is_plain = [](const std::filesystem::path& path) {
    return path.has_filename() && path.filename() != "." && path.filename() != "..";
  };
  if (is_plain(folder)) return folder;
  std::filesystem::path plain = std::filesystem::absolute(folder);
  while (plain.has_relative_path() && (!plain.has_filename() || plain.filename() == "."))
    plain = plain.parent_path();
  return is_plain(plain) ? plain : std::filesystem::canonical(plain);
}

/// The checkpoint to continue from, if any. "auto" takes the last one if there is one.
std::optional<train::CheckpointReader> find_checkpoint(const LaunchOptions& options) {
  if (!options.resume) return std::nullopt;
  const io::CheckpointLevels levels(options.out, options.local_steps,
                                    "start afresh with --resume auto, or name another --out");
  if (*options.resume != "auto")
    return train::CheckpointReader(named_plainly(levels.resolve(*options.resume)));
  // Until more is known: the link may point to nothing.
  std::filesystem::path newest = options.out / io::kCheckpointsName / "last";
  try {
    const std::optional<io::CheckpointLevels::Found> last = levels.last();
    if (auto found = find_without_link(options.out / io::kCheckpointsName, levels, last))
      return found;
    if (!last) return std::nullopt;
    newest = named_plainly(last->folder);
    return train::CheckpointReader(newest);
  } catch (const io::NewerFormat&) {
    // A later release's steps: going back would write over them.
    throw;
  } catch (const Error& error) {
    std::optional<train::CheckpointReader> older = find_older_checkpoint(options, newest);
    if (!older) throw;
    log::warn("{}", error.what());
    return older;
  }
}

/// A run is no folder of weights, but has a model that can be made one.
void expect_no_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path run = io::run_of(folder);
  const bool is_run = std::filesystem::exists(run / io::kRunInfo, ignored) ||
                      std::filesystem::exists(run / io::kManifestName, ignored);
  expect(
      !is_run || std::filesystem::exists(folder / hf::kConfigFile, ignored),
      "--init-from {}: is of a run of train_gpt: write its model to a folder with export {} DIR, "
      "and name that",
      folder.string(), folder.string());
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
  if (takes_model) expect_no_run(options.init_from);
  if (takes_model) config.model.preset.clear();
  if (!options.config_file.empty()) config::read_config_file(options.config_file, config);
  for (const std::string& assignment : options.assignments)
    config::set_from_text(assignment, config);
  if (takes_model)
    config::take_folder_model(hf::read_config(options.init_from), options.init_from.string(),
                              config);
  if (takes_model && !options.lora_from.empty())
    config::take_folder_adapters(hf::read_adapter_config(options.lora_from),
                                 options.lora_from.string(), config);
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

std::optional<train::CheckpointReader> find_older_checkpoint(
    const LaunchOptions& options, const std::filesystem::path& checkpoint) {
  const std::optional<Index> step = io::CheckpointStore::step_of_folder(checkpoint);
  if (!step) return std::nullopt;
  const io::CheckpointLevels levels(options.out, options.local_steps);
  const bool was_local = levels.local() != nullptr && levels.local()->owns(checkpoint);
  return newest_intact(levels, [&](const io::CheckpointLevels::Found& each) {
    return each.step < *step || (each.step == *step && was_local && !each.is_local);
  });
}

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
  const bool continues = checkpoint && io::CheckpointLevels(options.out).owns(checkpoint->folder());
  train::KeptTokenizer tokenizer(sources, options.out, continues);
  const data::Source* described = data::described(sources);
  const bool takes_weights = !checkpoint && !options.init_from.empty();
  const Index tokens = described != nullptr ? described->dataset.manifest->vocabulary : 0;
  expect(!takes_weights || config.model.vocab >= tokens,
         "{}: the model knows {} tokens, but the tokenizer of {} has {}: prepare the text with the "
         "tokenizer of the model",
         options.init_from.string(), config.model.vocab,
         described == nullptr ? std::string() : described->name.prefix, tokens);
  if (takes_weights) train::expect_tokens_within(options.init_from, config.model.vocab);
  if (takes_weights && described != nullptr)
    train::expect_tokenizer_of(options.init_from, described->name.prefix,
                               *described->dataset.manifest);
  const shape::ModelConfig model = config.resolve_model(tokens);
  fit::expect_countable(model, config.run_shape({.count = config.train.batch}));
  expect_suitable(sources, model);
  if (checkpoint)
    io::expect_architecture(checkpoint->folder(), checkpoint->manifest(), train::to_json(model));
  std::vector<hf::ModelWeights> weights;
  if (takes_weights) weights.emplace_back(options.init_from, model);
  if (takes_weights && !options.lora_from.empty())
    weights.push_back(hf::ModelWeights::of_adapters(options.lora_from, model));
  return {std::move(checkpoint),
          std::move(weights),
          train::make_run(config, model),
          std::move(sources),
          std::move(tokenizer),
          takes_weights ? hf::SideFiles(options.init_from) : hf::SideFiles()};
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
    start.agreement["weights"] = nlohmann::json::array();
    for (const hf::ModelWeights& weights : mine->weights)
      start.agreement["weights"].push_back(weights.identity());
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
