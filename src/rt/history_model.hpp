// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/types.hpp"

namespace dos::rt {

/// Throws Error when StarPU has a history model of the codelet that it cannot read, one of another
/// version or damaged: it would end the program. Nothing when there is no model. A session must
/// run.
void expect_readable_history(const char* symbol);

/// The same of one file, of which `version` is expected.
void expect_history(const std::filesystem::path& file, Index version, const std::string& starpu);

/// Renames what expect_readable_history() would refuse to "<file>.damaged", so that StarPU measures
/// anew, and returns a line that says so; "" when nothing was wrong. Throws Error when it cannot be
/// renamed. A session must run that has not used the codelet yet.
std::string set_unreadable_history_aside(const char* symbol);

}  // namespace dos::rt
