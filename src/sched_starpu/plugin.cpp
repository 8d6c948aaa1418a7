// SPDX-License-Identifier: Apache-2.0
// libstarpu_dos.so: the policies for any program on StarPU 1.4 that is started with
// STARPU_SCHED_LIB.
#include <starpu.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "sched_starpu/guarded.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu {
namespace {

/// StarPU's own, and what else STARPU_SCHED may be.
std::vector<std::string> other_names() {
  std::vector<std::string> names{"help", "heft"};
  for (starpu_sched_policy** each = starpu_sched_get_predefined_policies(); *each != nullptr;
       ++each)
    if ((*each)->policy_name != nullptr) names.emplace_back((*each)->policy_name);
  return names;
}

starpu_sched_policy* find(const char* name) {
  std::vector<std::string> known = other_names();
  // Null leaves the name to StarPU.
  if (std::ranges::find(known, name) != known.end()) return nullptr;
  for (starpu_sched_policy* each : policies()) {
    known.emplace_back(each->policy_name);
    if (std::string_view(each->policy_name) != name) continue;
    // What is wrong with them is said before StarPU starts its workers.
    static_cast<void>(settings_from_environment());
    return each;
  }
  std::string all;
  for (const std::string& each : known) all += (all.empty() ? "" : ", ") + each;
  fail("no policy '{}'{}; there are {}", name, did_you_mean(name, known), all);
}

}  // namespace
}  // namespace dos::sched_starpu

extern "C" {

starpu_sched_policy* starpu_get_sched_lib_policy(const char* name) {
  return dos::sched_starpu::guarded("STARPU_SCHED", [&] { return dos::sched_starpu::find(name); });
}

/// For STARPU_SCHED=help: ends with a null.
starpu_sched_policy** starpu_get_sched_lib_policies() {
  static std::vector<starpu_sched_policy*> all = [] {
    std::vector<starpu_sched_policy*> result = dos::sched_starpu::policies();
    result.push_back(nullptr);
    return result;
  }();
  return all.data();
}
}
