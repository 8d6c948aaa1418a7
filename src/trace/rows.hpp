// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/types.hpp"

namespace dos::trace {

// The rows of a trace's files. Each visits its columns in their order: writer, reader and
// docs/traces.md know them by this list. Times in microseconds since StarPU's start on that rank; a
// reader puts all ranks on one clock. `rank` is no column: a rank has files of its own.

/// A task that a worker ran.
struct Task {
  static constexpr const char* kFile = "tasks.csv";
  std::string codelet;
  std::string label;      ///< what it worked on: a subgroup or a layer
  std::string phase;      ///< init, forward, backward, reduce, update, validation
  Index step = 0;         ///< from 1; 0: of none
  Index micro_batch = 0;  ///< of the step, from 0; -1: of none
  Index worker = 0;
  Index number = 0;  ///< order of submission, from 0
  Index priority = 0;
  Index footprint = 0;  ///< hash of what its duration depends on
  double flops = 0;
  Index bytes = 0;  ///< of its buffers
  double submitted = 0;
  double ready = 0;       ///< its dependencies were met
  double taken = 0;       ///< its worker got it
  double data_start = 0;  ///< its worker began to wait for its buffers
  double data_end = 0;
  double start = 0;
  double end = 0;
  int rank = 0;

  [[nodiscard]] double duration() const { return end - start; }

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("codelet", self.codelet);
    visitor("label", self.label);
    visitor("phase", self.phase);
    visitor("step", self.step);
    visitor("micro_batch", self.micro_batch);
    visitor("worker", self.worker);
    visitor("number", self.number);
    visitor("priority", self.priority);
    visitor("footprint", self.footprint);
    visitor("flops", self.flops);
    visitor("bytes", self.bytes);
    visitor("submitted_us", self.submitted);
    visitor("ready_us", self.ready);
    visitor("taken_us", self.taken);
    visitor("data_start_us", self.data_start);
    visitor("data_end_us", self.data_end);
    visitor("start_us", self.start);
    visitor("end_us", self.end);
  }
};

/// A copy of a buffer from one memory node to another.
struct Transfer {
  static constexpr const char* kFile = "transfers.csv";
  std::string buffer;
  std::string category;  ///< of memory
  Index from = 0;        ///< memory nodes
  Index to = 0;
  Index bytes = 0;
  double start = 0;
  double end = 0;
  /// 1: the copy was over at `end`; 0: it was only started then, and a reader estimates its end.
  Index measured = 0;
  int rank = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("buffer", self.buffer);
    visitor("category", self.category);
    visitor("from", self.from);
    visitor("to", self.to);
    visitor("bytes", self.bytes);
    visitor("start_us", self.start);
    visitor("end_us", self.end);
    visitor("measured", self.measured);
  }
};

/// Bytes of a category on a memory node, from `time` to the next row of both.
struct Memory {
  static constexpr const char* kFile = "memory.csv";
  double time = 0;
  Index node = 0;
  std::string category;
  Index bytes = 0;
  Index step = 0;  ///< sampled when this step was over; 0: in between
  int rank = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("time_us", self.time);
    visitor("node", self.node);
    visitor("category", self.category);
    visitor("bytes", self.bytes);
    visitor("step", self.step);
  }
};

/// What the submitting thread did: wait, checkpoint, validation.
struct Span {
  static constexpr const char* kFile = "spans.csv";
  std::string name;
  Index step = 0;
  double start = 0;
  double end = 0;
  int rank = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("name", self.name);
    visitor("step", self.step);
    visitor("start_us", self.start);
    visitor("end_us", self.end);
  }
};

/// Where the scheduler sent an update.
struct UpdatePlacement {
  static constexpr const char* kFile = "placements.csv";
  std::string subgroup;
  Index step = 0;
  Index params = 0;
  double time = 0;
  Index node = 0;      ///< of memory, of the workers that were to run it
  Index resident = 0;  ///< 1: its states stay there
  int rank = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("subgroup", self.subgroup);
    visitor("step", self.step);
    visitor("params", self.params);
    visitor("time_us", self.time);
    visitor("node", self.node);
    visitor("resident", self.resident);
  }
};

/// An operation between ranks.
struct Communication {
  static constexpr const char* kFile = "mpi.csv";
  std::string operation;
  Index peer = 0;  ///< rank; -1: all
  Index bytes = 0;
  Index step = 0;
  double start = 0;
  double end = 0;
  int rank = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("operation", self.operation);
    visitor("peer", self.peer);
    visitor("bytes", self.bytes);
    visitor("step", self.step);
    visitor("start_us", self.start);
    visitor("end_us", self.end);
  }
};

/// Something between memory and a file.
struct Storage {
  static constexpr const char* kFile = "storage.csv";
  /// read, write: a transfer between buffer and disk; flush: what was written reached the device;
  /// copy: the buffer's bytes went to other memory first; hold: nobody could change the buffer;
  /// wait: of a hold, a task waited for nothing else.
  std::string operation;
  std::string purpose;   ///< checkpoint, checkpoint copy (to the second level),
                         ///< states (that live on disks); "": unknown
  std::string disk;      ///< where its file system is mounted; "" in memory
  std::string buffer;    ///< "" of none, as a file's header
  std::string category;  ///< of memory
  Index bytes = 0;
  Index step = 0;  ///< that they belong to; not the one that ran meanwhile
  double start = 0;
  double end = 0;
  int rank = 0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("operation", self.operation);
    visitor("purpose", self.purpose);
    visitor("disk", self.disk);
    visitor("buffer", self.buffer);
    visitor("category", self.category);
    visitor("bytes", self.bytes);
    visitor("step", self.step);
    visitor("start_us", self.start);
    visitor("end_us", self.end);
  }
};

}  // namespace dos::trace
