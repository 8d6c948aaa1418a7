// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "apps/parser.hpp"
#include "base/types.hpp"

namespace dos::apps {

/// --precision, which says what a trained model computes in.
void add_precision(Parser& parser, DType& type);

/// Prints what ended the program, one line, and returns its status. What no user can cause is
/// presented as the defect that it is.
int report_failure(const char* program, const std::exception& error);

}  // namespace dos::apps
