// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/returns.hpp"

#include <algorithm>

#include "sched_starpu/runtime_version.hpp"

namespace dos::sched_starpu {
namespace {

bool is_home(starpu_data_handle_t buffer) {
  int is_valid = 0;
  starpu_data_query_status(buffer, static_cast<int>(home_of(buffer)), nullptr, &is_valid, nullptr);
  return is_valid != 0;
}

}  // namespace

void Returns::add(const std::vector<starpu_data_handle_t>& buffers, double now, double seconds,
                  double patience) {
  expected_by_ = std::max(expected_by_, now) + seconds;
  const double latest = now + patience * (expected_by_ - now);
  for (starpu_data_handle_t buffer : buffers) returns_.push_back({buffer, latest});
}

Index Returns::take_arrived(double now) {
  return static_cast<Index>(std::erase_if(
      returns_, [&](const Return& each) { return now >= each.latest || is_home(each.buffer); }));
}

Index Returns::forget() {
  const Index count = std::ssize(returns_);
  returns_.clear();
  return count;
}

}  // namespace dos::sched_starpu
