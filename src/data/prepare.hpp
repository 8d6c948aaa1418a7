// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/chat/chat_writer.hpp"

namespace dos::data {

struct PrepareConfig {
  std::string tokenizer;  ///< bytes, sentencepiece, or a tokenizer.json, a *.model or their folder
  std::string end_of_text;  ///< tokenizer.json: the text of that token; "": as it says itself
  Index vocab_size = 0;     ///< sentencepiece: train a model; 0 = not given
  std::string model_type = "bpe";  ///< of the model to train: bpe or unigram
  std::filesystem::path model;     ///< sentencepiece: use this model; empty = not given
  double val_fraction = 0.1;       ///< of every input file
  std::string field;               ///< of JSON-lines (TextInput); "": see there
  std::string chat;   ///< lines are conversations: the template (find_chat_template()); "": text
  Index context = 0;  ///< of the windows into which conversations are laid; 0: none
  Index threads = 0;  ///< that encode; 0: one a core
  std::filesystem::path output;               ///< PREFIX of the files written
  std::vector<std::filesystem::path> inputs;  ///< text, one document a file, or JSON-lines

  /// Throws Error, naming the option and the remedy, when options contradict each other.
  void validate() const;
};

struct PrepareSummary {
  Index bytes = 0;
  Index vocabulary = 0;
  Index train_tokens = 0;
  Index val_tokens = 0;
  std::optional<ChatCounts> chat{};  ///< of conversations
};

/// Receives one line of progress at a time, without a newline.
using Progress = std::function<void(const std::string&)>;

/// Turns text files into the dataset PREFIX (see DatasetPaths). The last part of every file goes
/// to validation (TextInput::split), so that both splits see the same kind of text. An end-of-text
/// token follows each document, and each part of one that was split; begin_of_text() stands before.
/// Of conversations the data set has masks, too (ChatWriter).
/// A trained tokenizer sees the training part only. The files do not depend on the number of
/// threads.
/// Throws Error when an input is missing, unreadable or empty, the options do not fit the text, or
/// the output cannot be written; then no new file is left, and what was there before the last
/// stage, the putting in place, is untouched.
PrepareSummary prepare(const PrepareConfig& config, const Progress& progress);

}  // namespace dos::data
