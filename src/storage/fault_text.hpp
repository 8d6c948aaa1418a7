// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "storage/backend.hpp"
#include "storage/blocks.hpp"
#include "storage/direct_file.hpp"

namespace dos::storage {

/// What went wrong with a block of a transfer that reaches up to byte `end` of the file: `result`
/// is its Completion's.
std::string fault_text(const DirectFile& file, Kind kind, const Block& block, Index end,
                       Index result);

}  // namespace dos::storage
