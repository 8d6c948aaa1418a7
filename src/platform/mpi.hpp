// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/types.hpp"

namespace dos::platform {

/// MPI initialised for the life of the object (MPI_THREAD_FUNNELED). In a build without MPI: rank 0
/// of 1. Construct once, in main.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;
  ~MpiEnvironment();

  [[nodiscard]] Index rank() const { return rank_; }
  [[nodiscard]] Index size() const { return size_; }

  /// First line of the library's version text, or "none".
  static std::string library_version();

 private:
  Index rank_ = 0;
  Index size_ = 1;
};

}  // namespace dos::platform
