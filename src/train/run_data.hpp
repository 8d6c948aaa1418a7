// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "data/dataset.hpp"
#include "train/checkpoint.hpp"

namespace dos::train {

/// {"kind": "bytes", "vocabulary": 257, "model_hash": ""}: by what checkpoints know a tokenizer
/// again; null for a data set without a manifest.
nlohmann::json describe_tokenizer(const std::optional<data::Manifest>& dataset);

/// {"train": {"tokens": 900, "ends": "...", "xxh3": "..." or null}, "val": ...}: by what
/// checkpoints know a data set again.
nlohmann::json describe_data(const data::Dataset& dataset);

/// Throws Error, saying what has changed, unless the data set PREFIX is the one that the checkpoint
/// was trained on; with `may_differ` it need only have the same tokenizer. Data sets without a
/// manifest say nothing of their tokenizer.
void expect_data_of(const CheckpointReader& checkpoint, const data::Dataset& dataset,
                    const std::string& prefix, bool may_differ);

/// The data set's tokenizer, checked; to be kept in the output folder of a run, so that the run can
/// be used when the data set is gone.
class KeptTokenizer {
 public:
  /// Reads the tokenizer of the data set PREFIX. Throws Error when it is damaged, or when `out`
  /// holds another one and the run `continues` there.
  KeptTokenizer(const std::string& prefix, const std::optional<data::Manifest>& dataset,
                const std::filesystem::path& out, bool continues);

  /// Writes it into the folder unless it is there already.
  void write() const;

 private:
  data::DatasetPaths target_;
  std::optional<data::Manifest> manifest_;  ///< as it is to stand there
  std::string model_;
};

}  // namespace dos::train
