// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "storage/engine.hpp"

namespace dos::storage {

// Transfers that their caller waits for; each throws Error with the transfer's fault. Not from a
// Done.

void read(Engine& engine, const DirectFile& file, Index offset, std::span<std::byte> memory,
          const Label& label = {});
void write(Engine& engine, const DirectFile& file, Index offset, std::string_view text,
           const Label& label = {});
void sync(Engine& engine, const DirectFile& file, const Label& label = {});
/// All at once: a file system may bring them to the device together.
void sync(Engine& engine, std::span<const DirectFile* const> files, const Label& label = {});

}  // namespace dos::storage
