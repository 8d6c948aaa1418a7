// SPDX-License-Identifier: Apache-2.0
#include "base/local_time.hpp"

#include "base/error.hpp"

namespace dos {

std::tm local_time(std::time_t time) {
  std::tm fields{};
  // fmt has had a function for this, and has it no more.
  expect(::localtime_r(&time, &fields) != nullptr,
         "time {}: no calendar has its year; set the clock", time);
  return fields;
}

}  // namespace dos
