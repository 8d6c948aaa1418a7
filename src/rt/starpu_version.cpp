// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_version.hpp"

#include <fmt/format.h>
#include <starpu.h>

#include "base/error.hpp"

namespace dos::rt {

std::string StarpuVersion::text() const {
  return fmt::format("{}.{}.{}", major, minor, release);
}

StarpuVersion starpu_of_the_build() {
  return {STARPU_MAJOR_VERSION, STARPU_MINOR_VERSION, STARPU_RELEASE_VERSION};
}

StarpuVersion loaded_starpu() {
  StarpuVersion version;
  starpu_get_version(&version.major, &version.minor, &version.release);
  return version;
}

std::string obstacle_to_starpu(const StarpuVersion& build, const StarpuVersion& loaded) {
  if (build.major == loaded.major && build.minor == loaded.minor) return "";
  return fmt::format(
      "StarPU {} is loaded, but the program was built with StarPU {}: load the module of {}.{} or "
      "put its folder first in LD_LIBRARY_PATH, or build the program with {}.{}",
      loaded.text(), build.text(), build.major, build.minor, loaded.major, loaded.minor);
}

void expect_starpu_of_the_build() {
  const std::string obstacle = obstacle_to_starpu(starpu_of_the_build(), loaded_starpu());
  expect(obstacle.empty(), "{}", obstacle);
}

}  // namespace dos::rt
