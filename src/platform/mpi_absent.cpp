// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi.hpp"

namespace dos::platform {

MpiEnvironment::MpiEnvironment(int& /*argc*/, char**& /*argv*/) {}

MpiEnvironment::~MpiEnvironment() = default;

std::string MpiEnvironment::library_version() {
  return "none";
}

}  // namespace dos::platform
