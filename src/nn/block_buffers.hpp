// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "codelets/operation.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::nn {

/// Buffers of one block in one lane by name, [tokens, width] each (shape::BlockShape has them).
/// Copies share them.
class BlockBuffers {
 public:
  void add(std::string name, std::shared_ptr<const rt::Handle> handle) {
    handles_.emplace_back(std::move(name), std::move(handle));
  }
  /// Pre: the block's shape has the name.
  void replace(std::string_view name, std::shared_ptr<const rt::Handle> handle) {
    const auto found = std::ranges::find(handles_, name, &Named::first);
    require(found != handles_.end(), "a name of the block's shape");
    found->second = std::move(handle);
  }

  /// Pre: the block's shape has the name.
  [[nodiscard]] const rt::Handle& operator[](std::string_view name) const {
    const auto found = std::ranges::find(handles_, name, &Named::first);
    require(found != handles_.end(), "a name of the block's shape");
    return *found->second;
  }

  void release(rt::Submitter& submitter) const {
    for (const auto& [name, handle] : handles_) submitter.release(*handle);
  }

 private:
  using Named = std::pair<std::string, std::shared_ptr<const rt::Handle>>;
  std::vector<Named> handles_;
};

}  // namespace dos::nn
