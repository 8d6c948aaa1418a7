// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace dos::checkpoint {

/// "", or what `work` threw.
template <class Work>
std::string fault_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace dos::checkpoint
