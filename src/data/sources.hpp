// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace dos::data {

/// A data set that a training draws samples from.
struct SourceName {
  std::string prefix;  ///< as open_dataset() takes it
  double weight = 1;   ///< its part of the samples, beside the weights of the others
};

/// "PREFIX:WEIGHT,PREFIX:WEIGHT", a list of at least one. Throws Error, naming data.sources, for an
/// empty prefix, one that comes twice, or a weight that is no positive number.
std::vector<SourceName> parse_sources(const std::string& text);

struct Source {
  SourceName name;
  Dataset dataset;
};
using Sources = std::vector<Source>;

/// Opens the data sets. Throws Error as open_dataset() does, and when two of them were made with
/// different tokenizers or chat templates. Pre: at least one.
Sources open_sources(const std::vector<SourceName>& names);

/// The first source that says with which tokenizer it was made; null where none does.
const Source* described(const Sources& sources);

/// How the conversations of the sources are written; nullopt where none has any.
std::optional<ChatData> chat_of(const Sources& sources);

}  // namespace dos::data
