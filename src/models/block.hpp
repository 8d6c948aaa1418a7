// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "nn/lane_shape.hpp"
#include "nn/priority.hpp"
#include "rt/handle.hpp"
#include "rt/submitter.hpp"

namespace dos::models {

/// Buffers of one block in one lane, by the names of shape::BlockShape: [tokens, width] each.
/// Copies share them.
class BlockBuffers {
 public:
  void add(std::string_view name, std::shared_ptr<const rt::Handle> handle) {
    handles_.emplace_back(name, std::move(handle));
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
  using Named = std::pair<std::string_view, std::shared_ptr<const rt::Handle>>;
  std::vector<Named> handles_;
};

using nn::LaneShape;

/// The gradient of a block's input among the gradients of its shape.
inline constexpr std::string_view kInputGradient = "input";

/// One block of a decoder with its parameters: submits the tasks of forward and backward.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  virtual ~Block() = default;

  /// From the block's input in the residual stream [tokens, width] to its output. Without an output
  /// only `kept` is filled, for backward.
  virtual void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                       const BlockBuffers& kept, const rt::Handle* output,
                       const nn::Urgency& urgency) const = 0;

  /// From d_output to gradients[kInputGradient], and the gradients of the block's parameters that
  /// are trained, added to what is there if `accumulate`.
  virtual void backward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                        const BlockBuffers& kept, const rt::Handle& d_output,
                        const BlockBuffers& gradients, bool accumulate,
                        const nn::Urgency& urgency) const = 0;
};

}  // namespace dos::models
