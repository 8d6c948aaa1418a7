// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "apps/parser.hpp"
#include "base/types.hpp"

namespace dos::apps {

/// --precision, which says what a trained model computes in.
void add_precision(Parser& parser, DType& type);

/// An exception that leaves a thread is told as report_failure() tells it, and ends the program
/// with its status: memory or threads may lack inside a library.
void expect_exceptions_of_threads(const char* program);

/// Prints what ended the program, one line, and returns its status. What no user can cause is
/// presented as the defect that it is.
int report_failure(const char* program, const std::exception& error);

}  // namespace dos::apps
