// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace dos {

/// A message with what nobody can have meant, words of more than 4096 bytes, cut short.
std::string shortened(std::string_view message);

}  // namespace dos
