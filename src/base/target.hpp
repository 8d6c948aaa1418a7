// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

/// A token of a batch is an input of the model and the target of the row before it. One whose
/// prediction does not count in the loss stands there as its complement, a negative number.
namespace dos {

/// The token that an element of a batch stands for.
DOS_HD constexpr std::int32_t token_of(std::int32_t element) {
  return element < 0 ? ~element : element;
}

/// Whether its prediction counts.
DOS_HD constexpr bool is_target(std::int32_t element) {
  return element >= 0;
}

/// The element of a token that is an input only. Pre: token >= 0.
DOS_HD constexpr std::int32_t input_only(std::int32_t token) {
  return ~token;
}

}  // namespace dos
