// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::data {

struct PrepareConfig {
  std::string tokenizer;                      ///< bytes or sentencepiece
  Index vocab_size = 0;                       ///< sentencepiece: train a model; 0 = not given
  std::string model_type = "bpe";             ///< of the model to train: bpe or unigram
  std::filesystem::path model;                ///< sentencepiece: use this model; empty = not given
  double val_fraction = 0.1;                  ///< of every input file
  std::filesystem::path output;               ///< PREFIX of the files written
  std::vector<std::filesystem::path> inputs;  ///< text, one document a file

  /// Throws Error, naming the option and the remedy, when options contradict each other.
  void validate() const;
};

struct PrepareSummary {
  Index bytes = 0;
  Index vocabulary = 0;
  Index train_tokens = 0;
  Index val_tokens = 0;
};

/// Receives one line of progress at a time, without a newline.
using Progress = std::function<void(const std::string&)>;

/// Turns text files into the dataset PREFIX (see DatasetPaths). The last part of every file goes
/// to validation, so that both splits see the same kind of text: at least `val_fraction` of its
/// bytes, cut at the start of a line if one is near (half as far again), else between two
/// characters. An end-of-text token follows each part of each file. A trained tokenizer sees the
/// training part only.
/// Throws Error when an input is missing, unreadable or empty, the options do not fit the text, or
/// the output cannot be written; then no new file is left, and what was there before the last
/// stage, the putting in place, is untouched.
PrepareSummary prepare(const PrepareConfig& config, const Progress& progress);

/// Where the validation part of `text` starts. Pre: 0 < val_fraction < 1.
Index split_position(std::string_view text, double val_fraction);

}  // namespace dos::data
