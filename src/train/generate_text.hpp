// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/types.hpp"
#include "train/sampler.hpp"

namespace dos::train {

/// What the command line of generate says.
struct GenerateOptions {
  std::filesystem::path out;
  std::string checkpoint = "last";
  std::string data_prefix;  ///< "": the training run's
  std::string prompt = "\n";
  Index tokens = 200;
  SamplingOptions sampling;
  std::string scheduler;  ///< STARPU_SCHED; "": the default
};

/// Prints the prompt and its continuation to standard output, in whole UTF-8 characters: one that
/// the last token leaves unfinished is left out, bytes that are no UTF-8 become U+FFFD. Throws
/// Error when the checkpoint or its tokenizer cannot be read, or an option is out of range.
void generate_text(const GenerateOptions& options);

}  // namespace dos::train
