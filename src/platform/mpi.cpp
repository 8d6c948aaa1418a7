// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi.hpp"

#include <mpi.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <unordered_map>

#include "base/log.hpp"
#include "base/scoped_environment.hpp"
#include "platform/crash_signals.hpp"
#include "platform/topology.hpp"

namespace dos::platform {
namespace {

/// Launchers kill the other ranks when one leaves without MPI_Finalize: they are to say first what
/// they have found.
constexpr std::chrono::seconds kFarewell{1};

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return fmt::format("MPI error {}", code);
  std::string result(text.data(), static_cast<std::size_t>(length));
  std::replace(result.begin(), result.end(), '\n', ' ');
  return result;
}

void check(int code, const char* what) {
  expect(code == MPI_SUCCESS, "{}: {}", what, error_text(code));
}

/// MPI ends the program, with a call stack and a status of its own, where it may not open its
/// files, or cannot have memory that processes share, which is a file, too.
void expect_room_for_shared_memory() {
  constexpr rlim_t kFiles = 32;
  constexpr rlim_t kNeeded = rlim_t{8} << 20;  // UCX of MPICH 4.0 takes more than 4 MiB
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  expect(limit.rlim_cur >= kFiles,
         "{} files may be open at once (ulimit -n), and MPI needs {}: raise the limit",
         limit.rlim_cur, kFiles);
  ::getrlimit(RLIMIT_FSIZE, &limit);
  expect(limit.rlim_cur >= kNeeded,
         "files may have {} bytes at most (ulimit -f), and MPI needs {}: raise the limit",
         limit.rlim_cur, kNeeded);
  constexpr const char* kFolder = "/dev/shm";
  struct statvfs system {};
  if (::statvfs(kFolder, &system) != 0) return;  // MPI finds another place, or says so
  expect((system.f_flag & ST_RDONLY) == 0 && ::access(kFolder, W_OK) == 0,
         "{} cannot be written to, where MPI keeps the memory that processes share: mount it so",
         kFolder);
  const auto left = static_cast<rlim_t>(system.f_bavail) * system.f_frsize;
  expect(system.f_blocks == 0 || left >= kNeeded,
         "{} has {} bytes left, and MPI needs {}: make room there, or mount it larger", kFolder,
         left, kNeeded);
}

}  // namespace

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int provided = 0;
  expect_room_for_shared_memory();
  {
    // MPICH asks hwloc where the process runs, which would load OpenCL's drivers: 50 ms with PoCL.
    ScopedEnvironment while_it_starts;
    leave_out_components(while_it_starts, "-opencl");
    expect(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS,
           "MPI_Init_thread failed: start the program with mpiexec, srun or alone");
  }
  leave_crashes_to_the_system();
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  rank_ = rank;
  size_ = size;
  is_cuda_aware();  // asks once: later another thread may be inside MPI
  expect(provided >= MPI_THREAD_SERIALIZED || size_ == 1,
         "this MPI allows calls from the main thread only, several ranks need "
         "MPI_THREAD_SERIALIZED: use an MPICH built with threads");
  void* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &found),
        "MPI_TAG_UB");
  // The least that the standard promises.
  largest_tag_ = found != 0 ? *static_cast<const int*>(value) : 32767;
}

MpiEnvironment::~MpiEnvironment() {
  if (abandoned_) {
    std::this_thread::sleep_for(kFarewell);
    return;
  }
  const int code = MPI_Finalize();
  if (code != MPI_SUCCESS) log::error("MPI_Finalize failed with error {}", code);
}

std::string MpiEnvironment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<std::size_t>(length));
  version.resize(std::min(version.find('\n'), version.size()));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version;
}

/// The parts of the messages under way, in arrays of the same order.
struct MpiTransfers::Requests {
  struct Part {
    Index id;
    Index peer;
    int bytes;
    MpiMessage::Direction direction;
  };
  Index largest_part = kLargestMpiPart;
  std::vector<MPI_Request> handles;
  std::vector<Part> parts;
  std::unordered_map<Index, Index> parts_left;  ///< by id
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;

  void start(const MpiMessage& message, std::span<std::byte> bytes, Index id);
  void expect_success(int index, const MPI_Status& status, int code) const;
  void remove_ended();
};

void MpiTransfers::Requests::start(const MpiMessage& message, std::span<std::byte> bytes,
                                   Index id) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto count = static_cast<int>(bytes.size());
  const auto peer = static_cast<int>(message.peer);
  const auto tag = static_cast<int>(message.tag);
  const bool sends = message.direction == MpiMessage::Direction::kSend;
  const int code =
      sends ? MPI_Isend(bytes.data(), count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request)
            : MPI_Irecv(bytes.data(), count, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request);
  if (code != MPI_SUCCESS)
    throw MpiError(message.peer, fmt::format("cannot {} rank {}: {}",
                                             sends ? "send to"
                                                   : "receive "
                                                     "from",
                                             message.peer, error_text(code)));
  handles.push_back(request);
  parts.push_back({id, message.peer, count, message.direction});
  ++parts_left[id];
}

void MpiTransfers::Requests::expect_success(int index, const MPI_Status& status, int code) const {
  const Part& part = parts[static_cast<std::size_t>(index)];
  const bool sends = part.direction == MpiMessage::Direction::kSend;
  if (code != MPI_SUCCESS)
    throw MpiError(part.peer, fmt::format("a message {} rank {} failed: {}", sends ? "to" : "from",
                                          part.peer, error_text(code)));
  int received = part.bytes;
  if (!sends) MPI_Get_count(&status, MPI_BYTE, &received);
  if (received != part.bytes)
    throw MpiError(part.peer, fmt::format("rank {} sent {} bytes where {} belong", part.peer,
                                          received, part.bytes));
}

void MpiTransfers::Requests::remove_ended() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    handles[kept] = handles[i];
    parts[kept++] = parts[i];
  }
  handles.resize(kept);
  parts.resize(kept);
}

MpiTransfers::MpiTransfers(const MpiEnvironment& /*environment*/, Index largest_part)
    : requests_(std::make_unique<Requests>()) {
  require(largest_part >= 1, "parts of at least one byte");
  requests_->largest_part = largest_part;
}

MpiTransfers::~MpiTransfers() {
  if (!requests_->handles.empty())
    log::error("{} messages were under way when their owner ended", requests_->parts_left.size());
}

void MpiTransfers::start(const MpiMessage& message, Index id) {
  require(!requests_->parts_left.contains(id), "one message an id");
  std::span<std::byte> rest = message.bytes;
  do {
    const auto part = std::min(rest.size(), static_cast<std::size_t>(requests_->largest_part));
    requests_->start(message, rest.first(part), id);
    rest = rest.subspan(part);
  } while (!rest.empty());
}

void MpiTransfers::test(std::vector<Index>& ended) {
  Requests& all = *requests_;
  if (all.handles.empty()) return;
  all.indices.resize(all.handles.size());
  all.statuses.resize(all.handles.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(all.handles.size()), all.handles.data(), &count,
                                all.indices.data(), all.statuses.data());
  expect(code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS, "MPI_Testsome: {}", error_text(code));
  if (count == MPI_UNDEFINED || count == 0) return;
  for (int i = 0; i < count; ++i) {
    const int index = all.indices[static_cast<std::size_t>(i)];
    const MPI_Status& status = all.statuses[static_cast<std::size_t>(i)];
    all.expect_success(index, status, code == MPI_SUCCESS ? MPI_SUCCESS : status.MPI_ERROR);
    const Index id = all.parts[static_cast<std::size_t>(index)].id;
    const auto left = all.parts_left.find(id);
    if (--left->second > 0) continue;
    all.parts_left.erase(left);
    ended.push_back(id);
  }
  all.remove_ended();
}

Index MpiTransfers::active() const {
  return static_cast<Index>(requests_->parts_left.size());
}

void MpiTransfers::forget() noexcept {
  requests_->handles.clear();
  requests_->parts.clear();
  requests_->parts_left.clear();
}

}  // namespace dos::platform
