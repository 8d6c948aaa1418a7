// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trace/report/analysis.hpp"

namespace dos::trace {

/// A word of the report and what it means there.
struct Term {
  std::string key;  ///< HTML: what stands for it in the drawing above, or ""
  std::string name;
  std::string meaning;
};

/// A definition a line; "" without one.
std::string definitions(const std::vector<Term>& terms);

/// The square that stands for a use of workers' time; of computing, which has a colour a phase, "".
std::string key_of(Use use);

/// Of those that some worker's time went to, without computing.
std::vector<Term> terms_of_uses(const Analysis& analysis);
/// Of the rows of iteration_chart() and of what ran in them.
std::vector<Term> terms_of_iteration(const Trace& trace, const Analysis& analysis);
/// Of categories of memory that do not speak for themselves.
std::vector<Term> terms_of_memory(const Analysis& analysis);

}  // namespace dos::trace
