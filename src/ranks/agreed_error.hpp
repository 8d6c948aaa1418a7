// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"

namespace dos::ranks {

/// An Error that all ranks have found together: one of them may report it for all.
class AgreedError : public Error {
 public:
  using Error::Error;
};

}  // namespace dos::ranks
