// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "data/sources.hpp"
#include "train/checkpoint.hpp"

namespace dos::train {

/// {"kind": "bytes", "vocabulary": 257, "model_hash": ""}: by what checkpoints know a tokenizer
/// again; null for a data set without a manifest.
nlohmann::json describe_tokenizer(const std::optional<data::DatasetManifest>& dataset);
nlohmann::json describe_tokenizer(const data::Sources& sources);

/// {"train": {"tokens": 900, "ends": "...", "xxh3": "..." or null, "mask": "..." where there is
/// one}, "val": ...}: by what checkpoints know a data set again. Of several sources: {"sources":
/// [{"weight": 0.7, "train":
/// ..., "val": ...}]}.
nlohmann::json describe_data(const data::Sources& sources);

/// Throws Error, saying what has changed, unless the data sets are those that the checkpoint was
/// trained on, with the same weights; with `may_differ` it need only have the same tokenizer. Data
/// sets without a manifest say nothing of their tokenizer.
void expect_data_of(const CheckpointReader& checkpoint, const data::Sources& sources,
                    bool may_differ);

/// The data set's tokenizer, checked, and its chat template, if there is one; to be kept in the
/// output folder of a run, so that the run can be used when the data set is gone.
class KeptTokenizer {
 public:
  /// Reads the tokenizer of the sources, where one of them describes it. Throws Error when it is
  /// damaged, or when `out` holds another one and the run `continues` there.
  KeptTokenizer(const data::Sources& sources, const std::filesystem::path& out, bool continues);

  /// Writes it into the folder unless it is there already.
  void write() const;

 private:
  data::DatasetPaths target_;
  std::optional<data::DatasetManifest> manifest_;  ///< as it is to stand there
  std::string model_;
};

}  // namespace dos::train
