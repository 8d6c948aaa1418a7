// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/tokenizer.hpp"
#include "train/model_source.hpp"

namespace dos::inference {

/// What the caller says of a model's tokenizer.
struct TokenizerChoice {
  std::filesystem::path file;  ///< tokenizer.json or its folder, or *.model; "": not given
  std::string data_prefix;     ///< of the data set whose tokenizer it is; "": not given
  bool takes_data = true;      ///< remedies may speak of --data
};

/// The tokenizer that was chosen, else the one that the model was trained with, as far as the model
/// says. Throws Error when there is none, it cannot be read, is known to be another one than the
/// model's, or has more tokens than the model.
std::unique_ptr<data::Tokenizer> find_tokenizer(const TokenizerChoice& choice,
                                                const train::ModelSource& source);

}  // namespace dos::inference
