// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::rt {

/// How a task uses a buffer. kWrite overwrites every element; what a task updates in part is
/// kReadWrite. kScratch is work space private to the worker.
enum class Mode { kRead, kWrite, kReadWrite, kScratch };

}  // namespace dos::rt
