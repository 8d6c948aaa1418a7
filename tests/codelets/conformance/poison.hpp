// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rt/handle.hpp"
#include "rt/submitter.hpp"

/// What fills all memory that a conformance case must not depend on.
namespace dos::test {

/// Words: as FP32 and FP64 a NaN, and an ordinary number. Both halves as BF16 are far from what
/// cases compute: no result is taken for one that was not written.
inline constexpr std::array<std::uint32_t, 2> kPoisons{0x7FFDA5A5U, 0x4E9C4D71U};

void fill_words(std::byte* memory, Index bytes, std::uint32_t word);

/// Submits a task that fills an FP32 work space of the session's only worker, a CPU or a GPU.
void poison_scratch(rt::Submitter& submitter, const rt::Handle& scratch, std::uint32_t word);

/// Fills what the session's only worker lends its tasks, if it is a GPU (rt::CudaWorkspace).
/// Returns when it is done.
void poison_workspace(rt::Submitter& submitter, std::uint32_t word);

}  // namespace dos::test
