// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"

namespace dos::platform {

/// MPI initialised for the life of the object (MPI_THREAD_SERIALIZED: any thread, one at a time).
/// Errors are returned, not fatal. In a build without MPI: rank 0 of 1. Construct once, in main.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;
  ~MpiEnvironment();

  [[nodiscard]] Index rank() const { return rank_; }
  [[nodiscard]] Index size() const { return size_; }
  /// Tags of messages lie in [0, largest_tag()].
  [[nodiscard]] Index largest_tag() const { return largest_tag_; }

  /// After a rank was lost: MPI is not finalised, which would wait for that rank. The destructor
  /// gives the others a second to find out for themselves.
  void abandon() noexcept { abandoned_ = true; }

  /// First line of the library's version text, or "none".
  static std::string library_version();
  /// Whether messages may lie in the memory of an NVIDIA GPU. From any thread. Pre: there is or was
  /// an object.
  static bool is_cuda_aware();

 private:
  Index rank_ = 0;
  Index size_ = 1;
  Index largest_tag_ = 0;
  bool abandoned_ = false;
};

/// What MPI reports of a message: usually that the other rank is gone.
class MpiError : public Error {
 public:
  MpiError(Index peer, const std::string& what) : Error(what), peer_(peer) {}
  [[nodiscard]] Index peer() const { return peer_; }

 private:
  Index peer_;
};

/// One end of a point-to-point message. Both ends name the same tag and number of bytes.
struct MpiMessage {
  enum class Direction { kSend, kReceive };
  Direction direction = Direction::kSend;
  std::span<std::byte> bytes;  ///< only read by a send
  Index peer = 0;
  Index tag = 0;
};

/// MPI counts the bytes of a message in an int.
inline constexpr Index kLargestMpiPart = Index{1} << 30;

/// Messages under way, none of whose functions wait. Longer ones than MPI can count go in parts.
/// Messages of one direction with the same peer and tag meet in the order in which they were
/// started. For one thread.
class MpiTransfers {
 public:
  /// Pre: both ends of a message have the same `largest_part`, at least 1.
  explicit MpiTransfers(const MpiEnvironment& environment, Index largest_part = kLargestMpiPart);
  MpiTransfers(const MpiTransfers&) = delete;
  MpiTransfers& operator=(const MpiTransfers&) = delete;
  ~MpiTransfers();

  /// Starts a message whose bytes stay where they are until test() names `id`, the caller's number
  /// for it, unique among the messages under way. Throws MpiError.
  void start(const MpiMessage& message, Index id);
  /// Appends the ids of messages that have ended since. Throws MpiError.
  void test(std::vector<Index>& ended);
  /// Messages under way.
  [[nodiscard]] Index active() const;
  /// Lets go of all messages under way, which nobody will take any more: for a program that ends.
  void forget() noexcept;

 private:
  struct Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace dos::platform
