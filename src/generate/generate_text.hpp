// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/types.hpp"
#include "generate/sampler.hpp"

namespace dos::generate {

/// What the command line of generate says.
struct GenerateOptions {
  std::filesystem::path source;  ///< a run, a checkpoint, or a folder with config.json
  std::string checkpoint = "last";
  std::string data_prefix;  ///< "": the training run's
  /// A tokenizer.json or its folder, or a SentencePiece model (*.model); "": the source's or data
  /// set's.
  std::filesystem::path tokenizer;
  std::string prompt = "\n";
  std::filesystem::path prompt_file;  ///< holds the prompt instead; "": none
  bool chats = false;                 ///< the prompt is a message; its answer is printed, alone
  Index tokens = 200;
  SamplingOptions sampling;
  DType type = DType::kF32;  ///< of parameters, activations, keys and values
  bool says_speed = false;   ///< at the end, on standard error
  std::string scheduler;     ///< STARPU_SCHED; "": the default
};

/// Prints the prompt and its continuation to standard output, in whole UTF-8 characters: one that
/// the last token leaves unfinished is left out, bytes that are no UTF-8 become U+FFFD. Throws
/// Error when the model or its tokenizer cannot be read, or an option is out of range.
void generate_text(const GenerateOptions& options);

}  // namespace dos::generate
