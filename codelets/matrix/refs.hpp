// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/row_blocking.hpp"
#include "rt/handle.hpp"

namespace dos::codelets {

/// A matrix in row blocks, each block a handle of its own.
struct MatrixRef {
  RowBlocking blocking;
  std::vector<const rt::Handle*> blocks;
};

/// A vector inside a handle that holds several small tensors.
struct SliceRef {
  const rt::Handle* handle = nullptr;
  Index offset = 0;  ///< in elements
};

}  // namespace dos::codelets
