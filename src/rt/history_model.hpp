// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/types.hpp"

namespace dos::rt {

/// Throws Error when StarPU has a history model of the codelet that another version of it wrote, or
/// that has no version: it would end the program when it reads that. Nothing when there is no
/// model. A session must run.
void expect_readable_history(const char* symbol);

/// The same of one file, of which `version` is expected.
void expect_history_version(const std::filesystem::path& file, Index version,
                            const std::string& starpu);

}  // namespace dos::rt
