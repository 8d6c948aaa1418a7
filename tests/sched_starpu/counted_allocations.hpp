// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::test {

/// Calls of operator new in a program that is linked with counted_allocations.cpp. One thread.
Index allocations();

}  // namespace dos::test
