// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "rt/memory_ledger.hpp"
#include "rt/trace_sink.hpp"
#include "trace/row_file.hpp"
#include "trace/rows.hpp"
#include "trace/trace_event.hpp"

namespace dos::trace {

/// The folder of one rank's part of a trace.
std::filesystem::path rank_folder(const std::filesystem::path& trace, int rank);

/// The buffers of a run, by the number that their copies carry, and the memory that they take.
class MemorySampler {
 public:
  explicit MemorySampler(int nodes) : nodes_(nodes) {}

  Index next() { return std::ssize(buffers_); }
  void add(Index number, rt::RawHandle handle, const rt::HandleSpec& spec);
  void remove(Index number) { at(number).handle = nullptr; }

  [[nodiscard]] const std::string& name(Index number) const;
  [[nodiscard]] const char* category(Index number) const;

  /// Rows for what has changed since the last call; with a step, for everything. Host memory is
  /// what the session's ledger counts.
  std::vector<Memory> sample(const rt::MemoryBytes& host, double now_us, Index step);

 private:
  struct Buffer {
    rt::RawHandle handle = nullptr;  ///< null: it is gone
    std::string name;
    MemoryCategory category{};
    Index bytes = 0;
  };
  Buffer& at(Index number) { return buffers_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] bool knows(Index number) const {
    return number >= 0 && number < std::ssize(buffers_);
  }
  [[nodiscard]] rt::MemoryBytes on_node(int node) const;

  int nodes_;
  std::vector<Buffer> buffers_;
  std::map<int, rt::MemoryBytes> last_;
};

/// The files of one rank, open for writing. Members throw Error as RowFile does.
class TraceFiles {
 public:
  explicit TraceFiles(const std::filesystem::path& folder);

  void add(const Event& event, const MemorySampler& buffers);
  void add(const Memory& memory) { memory_.add(memory); }
  void flush();
  [[nodiscard]] std::map<std::string, Index> rows() const;

 private:
  RowFile tasks_;
  RowFile transfers_;
  RowFile memory_;
  RowFile spans_;
  RowFile placements_;
  RowFile communications_;
  RowFile storage_;
};

}  // namespace dos::trace
