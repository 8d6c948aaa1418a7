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

/// Rows inside a handle, each `stride` elements behind the one before.
struct RowsRef {
  const rt::Handle* handle = nullptr;
  Index stride = 0;
};

/// The buffer list of a task: fixed buffers, then the blocks of matrices.
template <class... Matrices>
std::vector<const rt::Handle*> buffer_list(std::initializer_list<const rt::Handle*> fixed,
                                           const Matrices&... matrices) {
  std::vector<const rt::Handle*> buffers(fixed);
  (buffers.insert(buffers.end(), matrices.blocks.begin(), matrices.blocks.end()), ...);
  return buffers;
}

}  // namespace dos::codelets
