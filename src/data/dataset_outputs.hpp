// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/dataset.hpp"

namespace dos::data {

/// For a data set that is to be written. Throws Error when one of its token files, or its manifest,
/// would take the place of something else. `trains`: of a tokenizer that is to be trained, the same
/// for its model.
void expect_replaceable(const DatasetPaths& paths, bool trains);

/// Throws Error when PREFIX.model is there, holds something else, and no manifest of a data set
/// says that it is one's own: somebody's model, which may be worth hours.
void expect_replaceable_model(const DatasetPaths& paths, const std::string& contents);

}  // namespace dos::data
