// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "inference/evaluation.hpp"

namespace dos::inference {

/// What the command line of `evaluate` says.
struct EvaluateOptions {
  std::filesystem::path source;     ///< a run, a checkpoint, or a folder with config.json
  std::string checkpoint = "last";  ///< of a run
  std::string data_prefix;          ///< whose validation split is evaluated, or
  std::filesystem::path tokens;     ///< a token file, or
  std::filesystem::path text;       ///< a text, or JSON-lines (data::TextInput)
  std::filesystem::path tokenizer;  ///< of `text` (TokenizerChoice); "": the model's own
  Index context = 0;                ///< tokens of a window; 0: the model's
  Index batch = 0;                  ///< windows at a time; 0: one for each worker
  DType type = DType::kF32;         ///< of activations and working parameters
  std::string scheduler;            ///< STARPU_SCHED; "": the default
};

/// The loss of a trained model over a data set's validation split, a token file or a text: all
/// tokens but the first, of conversations what assistants say. `progress` receives the sums so far
/// and the number of tokens in all. Throws Error when an option is out of range, the model or the
/// tokens cannot be read, the model's tokenizer is known to be another, or memory is too small.
Evaluation evaluate_model(const EvaluateOptions& options,
                          const std::function<void(const Evaluation&, Index all)>& progress);

}  // namespace dos::inference
