// SPDX-License-Identifier: Apache-2.0
// What part_writer.cpp, and nobody else, asks the task graph for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "checkpoint/part_writer.hpp"
#include "rt/device.hpp"

namespace dos::checkpoint {

/// A buffer of this rank and the access to it.
struct PartWriter::Read final : rt::AccessListener {
  Read(PartWriter& the_owner, const Part& the_part, std::size_t the_file)
      : owner(the_owner),
        part(the_part),
        file(the_file),
        pieces(pieces_of(the_part.extents)),
        uses(std::ssize(pieces)) {}

  void granted(void* memory) noexcept override { owner.granted(*this, memory); }

  PartWriter& owner;
  const Part& part;
  std::size_t file;
  std::size_t position = 0;
  std::vector<Extent> pieces;
  Sums* sums = nullptr;  ///< null: its update makes none
  // Under the owner's lock:
  const std::byte* data = nullptr;
  Clock::time_point since{};  ///< data is there
  std::size_t next = 0;       ///< piece to be submitted
  Index uses = 0;             ///< pieces whose bytes here are still needed
  bool is_let_go = false;     ///< whatever becomes of its bytes
  bool is_back = false;       ///< its access has ended
};

/// The sums that an update has left, for the reads of its parameters and states.
struct PartWriter::Sums final : rt::AccessListener {
  Sums(PartWriter& the_owner, const rt::Handle& the_handle)
      : owner(the_owner), handle(the_handle), words(static_cast<std::size_t>(handle.count())) {}

  void granted(void* data) noexcept override {
    std::memcpy(words.data(), data, words.size() * sizeof(std::int32_t));
    rt::end_access(handle, rt::kHostNode);
    owner.known(*this);
  }

  PartWriter& owner;
  const rt::Handle& handle;
  std::vector<std::int32_t> words;
  std::vector<Read*> reads{};
  bool are_known = false;  ///< under the owner's lock
};

/// Waits for what the next updates of some subgroups wait for.
struct PartWriter::Hurry final : rt::AccessListener {
  Hurry(PartWriter& the_owner, const rt::Handle& the_handle)
      : owner(the_owner), handle(the_handle) {}

  void granted(void* /*data*/) noexcept override {
    rt::end_access(handle, rt::kHostNode);
    owner.due(*this);
  }

  PartWriter& owner;
  const rt::Handle& handle;
  std::vector<Index> subgroups{};
};

}  // namespace dos::checkpoint
