// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched/policy.hpp"

namespace dos::sched {

/// Checks of options that a user has given for one plan. Configurations that serve several policies
/// are not held to them: there a policy ignores what is not its own.
/// `spelling` says how the user gives them, with name and value: "sched.{} = {}", "--{} {}".

/// Throws Error, with the policies that would read it, for an option that `policy` does not read. A
/// policy that is not in the registry reads none.
void expect_read(const std::string& policy, const PolicyOptions& given, const char* spelling);

/// Throws Error, with the largest that fits, when a GPU has no memory for the window that is asked
/// for. Pre: the policy reads it.
void expect_window_fits(const Problem& problem, const PolicyOptions& given, const char* spelling);

}  // namespace dos::sched
