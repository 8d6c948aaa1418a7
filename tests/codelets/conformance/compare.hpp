// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "codelets/conformance/harness.hpp"

/// What the conformance checks compare.
namespace dos::test {

using Complaints = std::vector<std::string>;

/// One buffer before and after the tasks, after the kernel, and the poison.
struct Comparison {
  Index index;
  const Buffer& buffer;
  const Contents& before;
  const Contents& after;
  const Contents& expected;
};

/// Which of `count` elements lie in the ranges.
std::vector<bool> marks(Index count, const std::vector<Range>& ranges);

/// Adds what is wrong with a buffer after the tasks, at most one complaint of a kind.
void compare(const Comparison& c, Likeness likeness, Complaints& complaints);

/// Adds a complaint when the outputs of two runs with different poisons differ.
void compare_runs(Index index, const Buffer& buffer, const Contents& first, const Contents& second,
                  Complaints& complaints);

}  // namespace dos::test
