// SPDX-License-Identifier: Apache-2.0
#include "train/run_data.hpp"

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "data/missing.hpp"

namespace dos::train {
namespace {

using nlohmann::json;

json to_json(const data::TokenFileIdentity& identity) {
  json checksum;
  if (identity.checksum) checksum = hex_text(*identity.checksum);
  return {{"tokens", identity.tokens},
          {"ends", hex_text(identity.ends)},
          {"xxh3", std::move(checksum)}};
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
    return identity;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

data::TokenFileIdentity identity_of(const data::Dataset& dataset, const char* split) {
  const bool is_train = std::string_view(split) == "train";
  std::optional<data::TokenSums> sums;
  if (dataset.manifest) sums = is_train ? dataset.manifest->train_sums : dataset.manifest->val_sums;
  return data::identify(is_train ? dataset.train : dataset.val, sums);
}

/// "" where both are the same file, or nothing is known.
std::string difference(const json& before, const data::Dataset& dataset, const char* split) {
  const std::optional<data::TokenFileIdentity> then = parse_identity(before, split);
  const data::TokenFileIdentity now = identity_of(dataset, split);
  if (!then || then->matches(now)) return "";
  if (then->tokens != now.tokens)
    return fmt::format("had {} tokens, now {}", then->tokens, now.tokens);
  return fmt::format("has {} tokens as before, but other ones", now.tokens);
}

/// What two manifests must have in common to have one tokenizer.
bool same_tokenizer(const data::Manifest& a, const data::Manifest& b) {
  return describe_tokenizer(a) == describe_tokenizer(b);
}

bool holds(const std::filesystem::path& path, const std::string& contents) {
  return !data::is_missing(path) && read_text(path) == contents;
}

/// The run's own tokenizer; nullopt, with a warning, when it is damaged.
std::optional<data::Manifest> read_kept(const data::DatasetPaths& paths) {
  if (data::is_missing(paths.manifest)) return std::nullopt;
  try {
    data::Manifest kept = data::read_manifest(paths.manifest);
    static_cast<void>(data::read_model(kept, paths.manifest));
    return kept;
  } catch (const Error& error) {
    log::warn("the run's copy of the tokenizer is damaged and is replaced by the data set's ({})",
              error.what());
    return std::nullopt;
  }
}

}  // namespace

json describe_tokenizer(const std::optional<data::Manifest>& dataset) {
  if (!dataset) return nullptr;
  return {{"kind", dataset->tokenizer},
          {"vocabulary", dataset->vocabulary},
          {"model_hash", dataset->model_hash}};
}

json describe_data(const data::Dataset& dataset) {
  return {{"train", to_json(identity_of(dataset, "train"))},
          {"val", to_json(identity_of(dataset, "val"))}};
}

void expect_data_of(const CheckpointReader& checkpoint, const data::Dataset& dataset,
                    const std::string& prefix, bool may_differ) {
  const std::string path = (checkpoint.folder() / io::kManifestName).string();
  const json& tokenizer = checkpoint.manifest().tokenizer;
  const json present = describe_tokenizer(dataset.manifest);
  const bool comparable = tokenizer.is_object() && present.is_object();
  expect(!comparable || tokenizer == present,
         "{}: the data changed: made with tokenizer {}, data.path = {} has {}: use data prepared "
         "with that tokenizer",
         path, tokenizer.dump(), prefix, present.dump());
  if (may_differ) return;
  for (const char* split : {"train", "val"}) {
    const std::string changed = difference(checkpoint.manifest().data, dataset, split);
    expect(changed.empty(),
           "{}: the data changed: {}_{}.bin {}: put the data set that the run was trained on back "
           "or name it with --set data.path=PREFIX; --new-data goes on with this one",
           path, prefix, split, changed);
  }
}

KeptTokenizer::KeptTokenizer(const std::string& prefix,
                             const std::optional<data::Manifest>& dataset,
                             const std::filesystem::path& out, bool continues)
    : target_(out / kTokenizerPrefix), manifest_(dataset) {
  if (!manifest_) return;
  const data::DatasetPaths source(prefix);
  const std::optional<data::Manifest> kept = continues ? read_kept(target_) : std::nullopt;
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
