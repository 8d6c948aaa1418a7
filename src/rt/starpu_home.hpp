// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/scoped_environment.hpp"

namespace dos::rt {

/// Where StarPU keeps what it measures of links and tasks: as its environment says, below the home
/// directory by default. StarPU aborts the program where it cannot write. So, in such a place, it
/// gets a private folder for the life of this object, with what can be read of the place, and
/// `kept` says where that stays for the next run: copied there at the end, if the folder above it
/// exists by then. "": nowhere. Says so in one line of the log.
class StarpuHome {
 public:
  /// Throws Error when there is no place for a private folder either.
  StarpuHome(const std::filesystem::path& kept, ScopedEnvironment& environment);
  StarpuHome(const StarpuHome&) = delete;
  StarpuHome& operator=(const StarpuHome&) = delete;
  ~StarpuHome();

 private:
  std::filesystem::path private_;  ///< "": StarPU has its own place
  std::filesystem::path kept_;
};

/// Why StarPU cannot keep measurements in the folder, "" if it can. Makes the folder.
std::string obstacle_to_measurements(const std::filesystem::path& sampling);

}  // namespace dos::rt
