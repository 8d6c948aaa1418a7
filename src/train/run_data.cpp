// SPDX-License-Identifier: Apache-2.0
#include "train/run_data.hpp"

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "data/missing.hpp"

namespace dos::train {
namespace {

using nlohmann::json;

json to_json(const data::TokenFileIdentity& identity) {
  json checksum;
  if (identity.checksum) checksum = hex_text(*identity.checksum);
  json file{{"tokens", identity.tokens},
            {"ends", hex_text(identity.ends)},
            {"xxh3", std::move(checksum)}};
  if (identity.mask) file["mask"] = hex_text(*identity.mask);
  return file;
}

/// As to_json() wrote it; nullopt for anything else.
std::optional<data::TokenFileIdentity> parse_identity(const json& data, const char* split) {
  try {
    const json& file = data.at(split);
    const std::optional<std::uint64_t> ends = parse_hex(file.at("ends").get<std::string>());
    if (!ends) return std::nullopt;
    data::TokenFileIdentity identity{
        .tokens = file.at("tokens").get<Index>(), .ends = *ends, .checksum = {}};
    if (file.at("xxh3").is_string())
      identity.checksum = parse_hex(file.at("xxh3").get<std::string>());
    if (file.contains("mask")) identity.mask = parse_hex(file.at("mask").get<std::string>());
    return identity;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

data::TokenFileIdentity identity_of(const data::Dataset& dataset, const char* split) {
  const bool is_train = std::string_view(split) == "train";
  std::optional<data::TokenSums> sums;
  std::optional<data::MaskSums> mask;
  if (const auto& manifest = dataset.manifest) {
    sums = is_train ? manifest->train_sums : manifest->val_sums;
    mask = is_train ? manifest->train_mask : manifest->val_mask;
  }
  return data::identify(is_train ? dataset.train : dataset.val, sums, mask);
}

json describe_splits(const data::Dataset& dataset) {
  return {{"train", to_json(identity_of(dataset, "train"))},
          {"val", to_json(identity_of(dataset, "val"))}};
}

/// "" where both are the same file, or nothing is known.
std::string difference(const json& before, const data::Dataset& dataset, const char* split) {
  const std::optional<data::TokenFileIdentity> then = parse_identity(before, split);
  const data::TokenFileIdentity now = identity_of(dataset, split);
  if (!then || then->matches(now)) return "";
  const std::string path =
      (std::string_view(split) == "train" ? dataset.train : dataset.val).path().string();
  if (then->tokens != now.tokens)
    return fmt::format("{} had {} tokens, now {}", path, then->tokens, now.tokens);
  if (then->mask != now.mask)
    return fmt::format("of the {} tokens of {} other ones count now", now.tokens, path);
  return fmt::format("{} has {} tokens as before, but other ones", path, now.tokens);
}

std::string names_of(const data::Sources& sources) {
  if (sources.size() == 1) return "data.path = " + sources.front().name.prefix;
  return fmt::format("data.sources with {}", sources.front().name.prefix);
}

bool has_many(const json& data) {
  return data.is_object() && data.contains("sources");
}

/// How the data that a checkpoint describes as `before` are named, in place of `sources`.
std::string settings_of(const json& before, const data::Sources& sources) {
  const bool are_many = sources.size() > 1;
  if (has_many(before))
    return are_many ? "--set data.sources=LIST" : "--set data.path= --set data.sources=LIST";
  return are_many ? "--set data.sources= --set data.path=PREFIX" : "--set data.path=PREFIX";
}

/// What has changed since a checkpoint described its data as `before`; "" for nothing.
std::string difference(const json& before, const data::Sources& sources) {
  const bool were_many = has_many(before);
  const std::vector<json> then =
      were_many ? before.at("sources").get<std::vector<json>>() : std::vector<json>{before};
  if (then.size() != sources.size())
    return fmt::format("they had {} sources, now {}", then.size(), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& [name, dataset] = sources[i];
    for (const char* split : {"train", "val"}) {
      std::string changed = difference(then[i], dataset, split);
      if (!changed.empty()) return changed;
    }
    if (were_many && then[i].is_object() && then[i].value("weight", json()) != json(name.weight))
      return fmt::format("{} had the weight {}, now {}", name.prefix,
                         then[i].value("weight", json()).dump(), name.weight);
  }
  return "";
}

/// What two manifests must have in common to have one tokenizer.
bool same_tokenizer(const data::DatasetManifest& a, const data::DatasetManifest& b) {
  return describe_tokenizer(a) == describe_tokenizer(b);
}

bool holds(const std::filesystem::path& path, const std::string& contents) {
  return !data::is_missing(path) && read_text(path) == contents;
}

/// The run's own tokenizer; nullopt, with a warning, when it is damaged.
std::optional<data::DatasetManifest> read_kept(const data::DatasetPaths& paths) {
  if (data::is_missing(paths.manifest)) return std::nullopt;
  try {
    data::DatasetManifest kept = data::read_manifest(paths.manifest);
    static_cast<void>(data::read_model(kept, paths.manifest));
    return kept;
  } catch (const Error& error) {
    log::warn("the run's copy of the tokenizer is damaged and is replaced by the data set's ({})",
              error.what());
    return std::nullopt;
  }
}

}  // namespace

json describe_tokenizer(const std::optional<data::DatasetManifest>& dataset) {
  if (!dataset) return nullptr;
  json known{{"kind", dataset->tokenizer},
             {"vocabulary", dataset->vocabulary},
             {"model_hash", dataset->model_hash}};
  if (dataset->tokenizer == data::kTokenizerJson) known["end_of_text"] = dataset->end_of_text;
  // What stands before a text says nothing of what tokens mean, nor do names of the model's own.
  if (const auto& pieces = dataset->pieces) {
    if (pieces->end_of_text) known["end_of_text"] = *pieces->end_of_text;
    for (const data::bpe::AddedToken& token : pieces->added)
      if (token.id >= pieces->count) known["added"][token.text] = token.id;
  }
  return known;
}

json describe_tokenizer(const data::Sources& sources) {
  const data::Source* source = data::described(sources);
  return describe_tokenizer(source == nullptr ? std::nullopt : source->dataset.manifest);
}

json describe_data(const data::Sources& sources) {
  if (sources.size() == 1) return describe_splits(sources.front().dataset);
  json list = json::array();
  for (const data::Source& source : sources) {
    list.push_back(describe_splits(source.dataset));
    list.back()["weight"] = source.name.weight;
  }
  return {{"sources", std::move(list)}};
}

void expect_data_of(const CheckpointReader& checkpoint, const data::Sources& sources,
                    bool may_differ) {
  const std::string path = (checkpoint.folder() / io::kManifestName).string();
  const json& tokenizer = checkpoint.manifest().tokenizer;
  const json present = describe_tokenizer(sources);
  const bool comparable = tokenizer.is_object() && present.is_object();
  expect(!comparable || tokenizer == present,
         "{}: the data changed: made with tokenizer {}, {} has {}: use data prepared with that "
         "tokenizer",
         path, json_text(tokenizer), names_of(sources), json_text(present));
  if (may_differ) return;
  expect(
      comparable || !tokenizer.is_object(),
      "{}: the data changed: made with tokenizer {}, but {} has no manifest any more, which says "
      "the tokenizer: put PREFIX.json back, or write the dataset again with prepare_data; "
      "--new-data goes on with tokens that nothing describes",
      path, json_text(tokenizer), names_of(sources));
  const std::string changed = difference(checkpoint.manifest().data, sources);
  expect(
      changed.empty(),
      "{}: the data changed: {}: put the data that the run was trained on back or name them with "
      "{}; --new-data goes on with these",
      path, changed, settings_of(checkpoint.manifest().data, sources));
}

KeptTokenizer::KeptTokenizer(const data::Sources& sources, const std::filesystem::path& out,
                             bool continues)
    : target_(out / kTokenizerPrefix) {
  const data::Source* described = data::described(sources);
  if (described == nullptr) return;
  manifest_ = described->dataset.manifest;
  manifest_->chat = data::chat_of(sources);
  const data::DatasetPaths source = data::find_dataset(described->name.prefix);
  const std::optional<data::DatasetManifest> kept = continues ? read_kept(target_) : std::nullopt;
  if (kept && !same_tokenizer(*kept, *manifest_))
    fail(
        "{}: describes another tokenizer than {}, which the run was trained with: the data "
        "changed; "
        "use data prepared with that tokenizer, or another --out",
        source.manifest.string(), target_.manifest.string());
  try {
    static_cast<void>(data::make_tokenizer(*manifest_, source.manifest));
    model_ = data::read_model(*manifest_, source.manifest);
  } catch (const Error& error) {
    if (kept && !manifest_->model_file.empty())
      fail("{}; the run has a good copy, {}", error.what(), target_.model.string());
    throw;
  }
  if (!manifest_->model_file.empty()) manifest_->model_file = target_.model.filename().string();
}

void KeptTokenizer::write() const {
  if (!manifest_) return;
  if (!model_.empty() && !holds(target_.model, model_)) write_durably(target_.model, model_);
  const std::string text = data::to_text(*manifest_);
  if (!holds(target_.manifest, text)) write_durably(target_.manifest, text);
}

}  // namespace dos::train
