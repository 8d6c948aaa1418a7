// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::rt {

struct StarpuVersion {
  int major = 0;
  int minor = 0;
  int release = 0;

  /// "1.3.10".
  [[nodiscard]] std::string text() const;
};

/// Whose headers this program was compiled with.
StarpuVersion starpu_of_the_build();

/// Whose library this process has loaded.
StarpuVersion loaded_starpu();

/// "" when a program that was built with `build` may run with `loaded`, else what is wrong and what
/// to do. Major and minor version must agree: between them StarPU moves the fields of structures
/// that programs fill in. A release only repairs.
std::string obstacle_to_starpu(const StarpuVersion& build, const StarpuVersion& loaded);

/// Throws Error unless the loaded StarPU may stand for that of the build.
void expect_starpu_of_the_build();

}  // namespace dos::rt
