// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::rt {

/// Whether a task is to run, asked when all that it waits for is done, by any thread. Who says no
/// leaves every buffer as it is, also those that the task would overwrite, and moves none.
struct Condition {
  bool (*holds)(const void* what) = nullptr;  ///< null: always
  const void* what = nullptr;                 ///< must outlive the task
};

}  // namespace dos::rt
