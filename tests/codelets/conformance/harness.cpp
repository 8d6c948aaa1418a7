// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <utility>

#include "base/bf16.hpp"
#include "base/random.hpp"
#include "codelets/conformance/compare.hpp"
#include "codelets/conformance/poison.hpp"
#include "rt/device.hpp"

namespace dos::test {
namespace {

constexpr std::size_t kPage = 4096;

std::vector<Range> whole(Index count) {
  return {{0, count}};
}

void put_value(const Buffer& buffer, Index index, double uniform, const Contents& contents) {
  double value = 2 * uniform - 1;
  if (buffer.values == Values::kPositive) value = uniform + 0.5;
  if (buffer.values == Values::kTokens) value = uniform * static_cast<double>(buffer.vocabulary);
  switch (buffer.type) {
    case DType::kF32:
      contents.as<float>()[index] = static_cast<float>(value);
      return;
    case DType::kF64:
      contents.as<double>()[index] = value;
      return;
    case DType::kBF16:
      contents.as<BF16>()[index] = to_bf16(static_cast<float>(value));
      return;
    case DType::kI32:
      contents.as<std::int32_t>()[index] = static_cast<std::int32_t>(value);
      // Some are no targets (base/target.hpp).
      if (buffer.values == Values::kTokens && index % 4 == 1)
        contents.as<std::int32_t>()[index] = -1 - static_cast<std::int32_t>(value);
      return;
    default:
      fail("a conformance case has a buffer of type {}", name_of(buffer.type));
  }
}

/// The contents before the tasks run; the inputs are the same for every poison.
std::vector<Contents> contents_before(const Case& c, std::uint32_t poison) {
  constexpr std::uint64_t kSeed = 20;
  std::vector<Contents> all;
  for (const Buffer& buffer : c.buffers) {
    Contents contents(buffer);
    fill_words(contents.data(), contents.bytes(), poison);
    const Philox random(kSeed + all.size());
    for (const Range& range : buffer.inputs) {
      for (Index i = range.first; i < range.first + range.count; ++i) {
        put_value(buffer, i, random.uniform(static_cast<std::uint64_t>(i)), contents);
      }
    }
    all.push_back(std::move(contents));
  }
  return all;
}

void* elements_of(const rt::HostAccess& access, DType type) {
  if (size_of(type) == 8) return access.as<std::uint64_t>().data();
  if (size_of(type) == 2) return access.as<std::uint16_t>().data();
  return access.as<std::uint32_t>().data();
}

void fill_handles(rt::Submitter& submitter, const Case& c, const Handles& handles,
                  const std::vector<Contents>& contents, std::uint32_t poison) {
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const rt::Handle& handle = handles[static_cast<Index>(i)];
    if (c.buffers[i].scratch) {
      poison_scratch(submitter, handle, poison);
      continue;
    }
    const rt::HostAccess access(handle, rt::Mode::kWrite);
    std::memcpy(elements_of(access, handle.type()), contents[i].data(),
                static_cast<std::size_t>(contents[i].bytes()));
  }
}

/// What is wrong with the access mode of a buffer, "" for nothing.
std::string mode_fault(const Buffer& buffer, rt::Mode mode) {
  const auto covers = [&](const std::vector<Range>& ranges) {
    const std::vector<bool> covered = marks(buffer.count, ranges);
    return std::all_of(covered.begin(), covered.end(), std::identity{});
  };
  switch (mode) {
    case rt::Mode::kRead:
      return buffer.outputs.empty() && !buffer.scratch ? "" : "is declared kRead but changed";
    case rt::Mode::kWrite:
      return buffer.inputs.empty() && covers(buffer.outputs)
                 ? ""
                 : "is declared kWrite but not wholly overwritten";
    case rt::Mode::kReadWrite:
      return buffer.outputs.empty() ? "is declared kReadWrite but not changed" : "";
    case rt::Mode::kScratch:
      return buffer.scratch ? "" : "is declared kScratch but no work space";
  }
  return "has no access mode";
}

/// Watches the tasks of a case being submitted.
struct Watcher {
  const Case& c;
  const Handles& handles;
  Complaints& complaints;
  std::set<Index> seen{};

  void operator()(const rt::TaskCall& call) {
    if (&call.codelet != c.codelet) {
      complaints.push_back(fmt::format("submits {} instead", call.codelet.symbol()));
      return;
    }
    for (std::size_t i = 0; i < call.buffers.size(); ++i) {
      const Index index = handles.index_of(call.buffers[i]);
      const std::string fault = mode_fault(c.buffers[static_cast<std::size_t>(index)],
                                           call.codelet.mode(static_cast<Index>(i)));
      if (!fault.empty()) complaints.push_back(fmt::format("buffer {} {}", index, fault));
      seen.insert(index);
    }
  }
};

/// Makes the copies on the session's device, if it has one, the only ones: what tasks do to them,
/// to those that they only read too, is then seen on the host.
void move_to_device(const Case& c, const Handles& handles) {
  const std::vector<rt::Device> devices = rt::devices();
  if (devices.empty()) return;
  for (std::size_t i = 0; i < c.buffers.size(); ++i)
    if (!c.buffers[i].scratch)
      rt::fetch(handles[static_cast<Index>(i)], devices.front().node, rt::Mode::kReadWrite);
}

std::vector<Contents> run_tasks(const Case& c, rt::Session& session, std::uint32_t poison,
                                Complaints& complaints) {
  std::vector<Contents> contents = contents_before(c, poison);
  const Handles handles(session, c.buffers);
  rt::Submitter submitter(session);
  fill_handles(submitter, c, handles, contents, poison);
  poison_workspace(submitter, poison);
  move_to_device(c, handles);
  Watcher watcher{c, handles, complaints};
  submitter.set_observer({.before = {}, .after = std::ref(watcher)});
  c.submit(submitter, handles);
  if (watcher.seen.size() != c.buffers.size()) {
    complaints.push_back(fmt::format("submits tasks over {} of the case's {} buffers",
                                     watcher.seen.size(), c.buffers.size()));
  }
  // A read access alone would not wait for a task that says it only reads.
  session.wait_all();
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (c.buffers[i].scratch) continue;
    const rt::Handle& handle = handles[static_cast<Index>(i)];
    const rt::HostAccess access(handle, rt::Mode::kRead);
    std::memcpy(contents[i].data(), elements_of(access, handle.type()),
                static_cast<std::size_t>(contents[i].bytes()));
  }
  return contents;
}

std::vector<Contents> run_tasks_on_cpu(const Case& c, std::uint32_t poison,
                                       Complaints& complaints) {
  const bool has_scratch = std::any_of(c.buffers.begin(), c.buffers.end(),
                                       [](const Buffer& buffer) { return buffer.scratch; });
  // One worker has one copy of the work space: the poisoned one.
  rt::Session session({.scheduler = "", .cpu_workers = has_scratch ? 1 : 2});
  return run_tasks(c, session, poison, complaints);
}

std::vector<Contents> run_kernel(const Case& c, std::uint32_t poison) {
  std::vector<Contents> contents = contents_before(c, poison);
  c.kernel(Memory(contents));
  return contents;
}

/// `run(poison, complaints)` runs the tasks and returns the buffers.
template <class Run>
Complaints complaints_about_runs(const Case& c, Likeness likeness, Run&& run) {
  Complaints complaints;
  std::vector<std::vector<Contents>> runs;
  for (const std::uint32_t poison : kPoisons) {
    const std::vector<Contents> before = contents_before(c, poison);
    const std::vector<Contents> expected = run_kernel(c, poison);
    const std::vector<Contents>& after = runs.emplace_back(run(poison, complaints));
    for (std::size_t i = 0; i < after.size(); ++i) {
      compare({static_cast<Index>(i), c.buffers[i], before[i], after[i], expected[i]}, likeness,
              complaints);
    }
  }
  for (std::size_t i = 0; i < c.buffers.size(); ++i) {
    compare_runs(static_cast<Index>(i), c.buffers[i], runs[0][i], runs[1][i], complaints);
  }
  return complaints;
}

}  // namespace

Buffer reads(Index count, Values values, DType type) {
  return {.type = type, .count = count, .inputs = whole(count), .values = values};
}

Buffer writes(Index count, DType type) {
  return {.type = type, .count = count, .outputs = whole(count)};
}

Buffer updates(Index count, Values values, DType type) {
  return {.type = type,
          .count = count,
          .inputs = whole(count),
          .outputs = whole(count),
          .values = values};
}

Buffer works_in(Index count) {
  return {.count = count, .scratch = true};
}

Buffer reads_part(Index count, std::vector<Range> parts, DType type) {
  return {.type = type, .count = count, .inputs = std::move(parts)};
}

Buffer writes_part(Index count, std::vector<Range> parts, DType type) {
  return {.type = type, .count = count, .outputs = std::move(parts)};
}

Buffer updates_part(Index count, std::vector<Range> parts, DType type) {
  return {.type = type, .count = count, .inputs = parts, .outputs = parts};
}

void add_matrix(std::vector<Buffer>& buffers, const RowBlocking& blocking, Access access,
                Index rows_used, DType type) {
  for (Index b = 0; b < blocking.count(); ++b) {
    const Index used = std::clamp<Index>(rows_used - blocking.first_row(b), 0, blocking.rows_of(b));
    Buffer buffer{.type = type, .count = blocking.rows_of(b) * blocking.columns};
    const Range range{0, used * blocking.columns};
    if (access != Access::kWrites) buffer.inputs = {range};
    if (access != Access::kReads) buffer.outputs = {range};
    buffers.push_back(std::move(buffer));
  }
}

Handles::Handles(rt::Session& session, const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    handles_.push_back(
        buffer.scratch
            ? rt::Handle::scratch(session, "work space", buffer.type, buffer.count)
            : std::make_unique<rt::Handle>(
                  session,
                  rt::HandleSpec{.name = "buffer", .type = buffer.type, .count = buffer.count}));
  }
}

codelets::MatrixRef Handles::matrix(const RowBlocking& blocking, Index first) const {
  codelets::MatrixRef result{blocking, {}};
  for (Index b = 0; b < blocking.count(); ++b) result.blocks.push_back(&(*this)[first + b]);
  return result;
}

Index Handles::index_of(const rt::Handle* handle) const {
  const auto found = std::find_if(handles_.begin(), handles_.end(),
                                  [&](const auto& owned) { return owned.get() == handle; });
  require(found != handles_.end(), "the tasks use the case's handles");
  return found - handles_.begin();
}

void FreeAligned::operator()(std::byte* memory) const {
  std::free(memory);
}

Contents::Contents(const Buffer& buffer) : bytes_(buffer.count * size_of(buffer.type)) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kPage, static_cast<std::size_t>(bytes_)) != 0) {
    throw std::bad_alloc();
  }
  memory_.reset(static_cast<std::byte*>(memory));
}

std::vector<std::string> complaints_about(const Case& c, Likeness likeness) {
  return complaints_about_runs(c, likeness, [&](std::uint32_t poison, Complaints& complaints) {
    return run_tasks_on_cpu(c, poison, complaints);
  });
}

std::vector<std::string> complaints_on_device(const Case& c, rt::Session& session) {
  require(session.workers() == 1 && session.has_devices(), "a session of one device alone");
  return complaints_about_runs(c, Likeness::kNear,
                               [&](std::uint32_t poison, Complaints& complaints) {
                                 return run_tasks(c, session, poison, complaints);
                               });
}

}  // namespace dos::test
