// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi.hpp"

namespace dos::platform {

struct MpiTransfers::Requests {};

MpiEnvironment::MpiEnvironment(int& /*argc*/, char**& /*argv*/) {}

MpiEnvironment::~MpiEnvironment() = default;

std::string MpiEnvironment::library_version() {
  return "none";
}

MpiTransfers::MpiTransfers(const MpiEnvironment& /*environment*/, Index /*largest_part*/) {}

MpiTransfers::~MpiTransfers() = default;

void MpiTransfers::start(const MpiMessage& message, Index /*id*/) {
  throw MpiError(message.peer, "this program was built without MPI: build it with -DDOS_MPI=ON");
}

void MpiTransfers::test(std::vector<Index>& /*ended*/) {}

Index MpiTransfers::active() const {
  return 0;
}

void MpiTransfers::forget() noexcept {}

}  // namespace dos::platform
