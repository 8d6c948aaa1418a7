// SPDX-License-Identifier: Apache-2.0
#include "train/export_run.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "config/train_config.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/chat/chat_encoder.hpp"
#include "data/chat/jinja.hpp"
#include "data/dataset.hpp"
#include "data/missing.hpp"
#include "data/piece_json.hpp"
#include "data/piece_tokens.hpp"
#include "data/tokenizer.hpp"
#include "hf/model_export.hpp"
#include "hf/side_files.hpp"
#include "io/run_folder.hpp"
#include "train/checkpoint_tensors.hpp"
#include "train/folder_tokenizer.hpp"
#include "train/model_source.hpp"
#include "train/run_data.hpp"

namespace dos::train {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// What a run knows of its tokenizer.
struct RunTokenizer {
  std::vector<hf::ExtraFile> files;
  /// A tokenizer.json for transformers, where no folder has one, and how its tokens may differ.
  std::optional<std::string> made_json{};
  std::string difference{};
  std::vector<Index> ends;              ///< of texts, then of answers
  std::optional<std::string> end_text;  ///< as the tokenizer writes the first
  std::optional<std::string> chat_template;
  std::string note;
  bool is_checkpoints = true;
};

/// `run` is the run's folder.
RunTokenizer tokenizer_of(const fs::path& run, const CheckpointReader& checkpoint) {
  const data::DatasetPaths paths(run / kTokenizerPrefix);
  // What is there and no file is refused by its name.
  if (data::is_missing(paths.manifest))
    return {.files = {},
            .ends = {},
            .end_text = {},
            .chat_template = {},
            .note = "the run has no tokenizer of its own: none is exported"};
  const data::DatasetManifest manifest = data::read_manifest(paths.manifest);
  const nlohmann::json& trained = checkpoint.manifest().tokenizer;
  if (trained.is_object() && trained != describe_tokenizer(manifest))
    return {.files = {},
            .ends = {},
            .end_text = {},
            .chat_template = {},
            .note = "the run's tokenizer is not the checkpoint's: none is exported",
            .is_checkpoints = false};
  RunTokenizer result;
  const auto tokenizer = data::make_tokenizer(manifest, paths.manifest);
  result.ends.push_back(tokenizer->end_of_text());
  if (manifest.chat) {
    const data::ChatTemplate& chat = manifest.chat->chat_template;
    const std::int32_t end = data::ChatEncoder(*tokenizer, chat).end_of_turn();
    if (end != result.ends.front()) result.ends.push_back(end);
    result.chat_template = data::jinja_of(chat);
  }
  if (manifest.model_file.empty()) {
    result.note =
        fmt::format("the tokenizer '{}' has no files that transformers reads: none is exported",
                    manifest.tokenizer);
    return result;
  }
  std::string contents = data::read_model(manifest, paths.manifest);
  const auto configure = [&](const std::string& text) {
    result.files.push_back({hf::kTokenizerConfigFile, text + "\n"});
  };
  if (manifest.tokenizer == data::kSentencePiece) {
    if (const auto whole = data::piece_tokenizer_json(contents, manifest.pieces)) {
      configure(data::piece_json_config(contents, manifest.pieces).dump(2));
      result.made_json = whole->dump() + "\n";
      result.difference = data::piece_json_difference(contents);
    } else {
      configure(data::piece_tokenizer_config(contents, manifest.pieces).dump(2));
    }
    result.files.push_back({"tokenizer.model", std::move(contents)});
  } else {
    result.end_text = data::token_text(contents, manifest.end_of_text, manifest.model_file);
    configure(hf::tokenizer_config_json(*result.end_text).dump(2));
    // Called as its kind is.
    result.files.push_back({manifest.tokenizer, std::move(contents)});
  }
  return result;
}

bool holds_tokenizer(const std::vector<hf::ExtraFile>& files) {
  return std::ranges::any_of(files, [](const hf::ExtraFile& file) {
    return file.name == data::kTokenizerJson || file.name == "tokenizer.model";
  });
}

/// Whether one of the files says how conversations are written.
bool holds_chat_template(const std::vector<hf::ExtraFile>& files) {
  return std::ranges::any_of(files, [](const hf::ExtraFile& file) {
    if (file.name != hf::kTokenizerConfigFile) return file.name.starts_with("chat_template.");
    const auto config = try_parse_json_object(file.text);
    return config && config->contains("chat_template");
  });
}

/// `side`: what the model takes along of the folder that it came from.
hf::ExportOptions options_of(const ExportRequest& request, DType dtype, const hf::SideFiles& side,
                             const RunTokenizer& tokenizer) {
  hf::ExportOptions options;
  options.config.dtype = dtype;
  options.config.ends = tokenizer.ends;
  options.config.tokens = side.tokens();
  options.shard_bytes = request.shard_bytes;
  std::vector<hf::ExtraFile> own = tokenizer.files;
  if (tokenizer.made_json && side.find(data::kTokenizerJson) == nullptr)
    own.push_back({data::kTokenizerJson, *tokenizer.made_json});
  options.files = side.merged(std::move(own), tokenizer.ends, tokenizer.end_text);
  if (tokenizer.chat_template && !holds_chat_template(options.files))
    options.files.push_back({data::kJinjaFile, *tokenizer.chat_template});
  return options;
}

/// The folder that a run's model came from; "" where there is none.
std::string base_of(const fs::path& run) {
  const fs::path file = run / io::kRunInfo;
  if (!is_file(file)) return "";
  const auto info = try_parse_json_object(read_text(file));
  const bool is_said = info && info->contains("init_from") && info->at("init_from").is_string();
  return is_said ? info->at("init_from").get<std::string>() : "";
}

/// Adapters are small, and are trained in FP32.
ExportOutcome export_adapters_of(const ExportRequest& request, const ModelSource& source) {
  const DType dtype = request.dtype.value_or(DType::kF32);
  const std::string base = base_of(source.run());
  const CheckpointTensors tensors(*source.checkpoint(), source.model());
  hf::export_adapters(
      request.folder, source.model(),
      [&](const hf::TensorName& name, Index first, std::span<float> out) {
        tensors.read(name, first, out);
      },
      dtype, base);
  ExportOutcome outcome{.source = source.folder().string(), .dtype = dtype, .notes = {}};
  outcome.notes.push_back(base.empty() ? "adapters of a model that came from no folder: --merge "
                                         "writes the whole model"
                                       : "adapters of " + base +
                                             "; --merge writes the whole model with them");
  return outcome;
}

ExportOutcome export_checkpoint(const ExportRequest& request, const ModelSource& source) {
  const CheckpointReader& checkpoint = *source.checkpoint();
  const shape::ModelConfig& model = source.model();
  const bool has_adapters = model.adapters.any();
  expect(has_adapters || !request.merge,
         "{}: the run has no adapters to be merged: leave --merge out",
         checkpoint.folder().string());
  if (has_adapters && !request.merge) return export_adapters_of(request, source);
  config::TrainConfig config;
  config::from_json(checkpoint.manifest().configuration,
                    (checkpoint.folder() / io::kManifestName).string(), config);
  RunTokenizer tokenizer = tokenizer_of(source.run(), checkpoint);
  const DType dtype = request.dtype.value_or(config.parameter_types().working);
  const hf::ExportOptions options = options_of(
      request, dtype, tokenizer.is_checkpoints ? source.side_files() : hf::SideFiles(), tokenizer);
  if (holds_tokenizer(options.files)) tokenizer.note.clear();
  const CheckpointTensors tensors(checkpoint, model);
  hf::export_model(
      request.folder, model,
      [&](const hf::TensorName& name, Index first, std::span<float> out) {
        tensors.read_merged(name, first, out);
      },
      options);
  ExportOutcome outcome{.source = checkpoint.folder().string(), .dtype = dtype, .notes = {}};
  if (!tokenizer.note.empty()) outcome.notes.push_back(tokenizer.note);
  const bool is_made = std::ranges::any_of(options.files, [&](const hf::ExtraFile& file) {
    return tokenizer.made_json && file.text == *tokenizer.made_json;
  });
  if (is_made && !tokenizer.difference.empty()) outcome.notes.push_back(tokenizer.difference);
  return outcome;
}

/// From one folder to another: other types, other shards.
ExportOutcome export_folder(const ExportRequest& request, const ModelSource& source) {
  const hf::ModelWeights& weights = *source.weights();
  expect(!request.merge, "{}: a folder has no adapters to be merged: leave --merge out",
         request.source.string());
  expect_tokens_within(request.source, source.model().vocabulary);
  const DType dtype = request.dtype.value_or(weights.is_bf16() ? DType::kBF16 : DType::kF32);
  const hf::ExportOptions options = options_of(request, dtype, source.side_files(), {});
  hf::export_model(
      request.folder, source.model(),
      [&](const hf::TensorName& name, Index first, std::span<float> out) {
        weights.read(weights.find(name.tensor), first, out);
      },
      options);
  ExportOutcome outcome{.source = request.source.string(), .dtype = dtype, .notes = {}};
  if (!holds_tokenizer(options.files))
    outcome.notes.emplace_back("the folder has no tokenizer: none is exported");
  return outcome;
}

}  // namespace

ExportOutcome export_run(const ExportRequest& request) {
  const ModelSource source(request.source, request.checkpoint);
  return source.checkpoint() != nullptr ? export_checkpoint(request, source)
                                        : export_folder(request, source);
}

}  // namespace dos::train
