// SPDX-License-Identifier: Apache-2.0
#include "trace/trace.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "base/file.hpp"
#include "trace/csv.hpp"
#include "trace/trace_files.hpp"

namespace dos::trace {
namespace {

constexpr double kMicro = 1e-6;

template <class Row>
void append_rows(std::vector<Row>& rows, const std::filesystem::path& folder,
                 const TraceManifest& manifest) {
  const std::string path = (folder / Row::kFile).string();
  std::vector<Row> found = parse_csv<Row>(read_text(path), path, !manifest.complete);
  if (manifest.complete) {
    const auto expected = manifest.rows.find(Row::kFile);
    expect(expected != manifest.rows.end() && expected->second == std::ssize(found),
           "{}: {} rows, but {} says {}: the file is cut off, copy it again", path, found.size(),
           kManifestName, expected == manifest.rows.end() ? 0 : expected->second);
  }
  for (Row& row : found) {
    row.rank = manifest.rank;
    rows.push_back(std::move(row));
  }
}

/// Whether the program that wrote the trace recorded it.
bool has_storage(const std::filesystem::path& folder, const TraceManifest& manifest) {
  std::error_code error;
  return manifest.rows.contains(Storage::kFile) ||
         std::filesystem::exists(folder / Storage::kFile, error);
}

std::string describe_gap(const TraceManifest& manifest) {
  return fmt::format(
      "rank {}: the trace is not complete ({})", manifest.rank,
      manifest.reason.empty() ? "the run did not end, or was killed" : manifest.reason);
}

void append_rank(Trace& trace, const std::filesystem::path& folder) {
  const TraceManifest& manifest = trace.ranks.back();
  append_rows(trace.tasks, folder, manifest);
  append_rows(trace.transfers, folder, manifest);
  append_rows(trace.memory, folder, manifest);
  append_rows(trace.spans, folder, manifest);
  append_rows(trace.placements, folder, manifest);
  append_rows(trace.communications, folder, manifest);
  if (has_storage(folder, manifest)) append_rows(trace.storage, folder, manifest);
  const auto node = [&](Index id) { return id >= 0 && id < std::ssize(manifest.machine.nodes); };
  const auto worker = [&](Index id) {
    return id >= 0 && id < std::ssize(manifest.machine.workers);
  };
  bool good = true;
  for (const Task& task : trace.tasks) good = good && worker(task.worker);
  for (const Transfer& copy : trace.transfers) good = good && node(copy.from) && node(copy.to);
  for (const Memory& row : trace.memory) good = good && node(row.node);
  for (const UpdatePlacement& row : trace.placements) good = good && node(row.node);
  expect(good,
         "{}: rows name a worker or memory node that {} does not know: the folder mixes traces",
         folder.string(), kManifestName);
  if (!manifest.complete) trace.warnings.push_back(describe_gap(manifest));
}

/// Of time 0 of a rank, on a clock that all ranks share.
double origin(const TraceManifest& manifest) {
  return manifest.epoch_us + manifest.clock_offset_us;
}

template <class Row>
void shift_and_sort(std::vector<Row>& rows, const std::vector<double>& shifts) {
  const auto times = [](Row& row, auto&& use) {
    if constexpr (requires { row.time; }) use(row.time);
    if constexpr (requires { row.submitted; }) {
      for (double* time : {&row.submitted, &row.ready, &row.taken, &row.data_start, &row.data_end})
        use(*time);
    }
    if constexpr (requires { row.start; }) {
      use(row.start);
      use(row.end);
    }
  };
  for (Row& row : rows)
    times(row, [&](double& time) { time += shifts[static_cast<std::size_t>(row.rank)]; });
  const auto start = [](const Row& row) {
    if constexpr (requires { row.time; })
      return row.time;
    else
      return row.start;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return start(a) < start(b); });
}

void estimate_ends(Trace& trace) {
  std::map<std::tuple<int, Index, Index>, double> busy_until;
  for (Transfer& copy : trace.transfers) {
    double& until = busy_until.try_emplace({copy.rank, copy.from, copy.to}, 0.0).first->second;
    const double rate = trace.bytes_per_s(copy.rank, copy.from, copy.to);
    if (copy.measured == 0 && rate > 0)
      copy.end = std::max(copy.end, std::max(copy.start, until) +
                                        static_cast<double>(copy.bytes) / (rate * kMicro));
    until = std::max(until, copy.end);
  }
}

}  // namespace

double Trace::bytes_per_s(int number, Index from, Index to) const {
  for (const rt::MachineView::Link& link : rank(number).machine.links)
    if (link.from == from && link.to == to) return link.bytes_per_s;
  return 0;
}

void align(Trace& trace) {
  double earliest = std::numeric_limits<double>::max();
  for (const TraceManifest& manifest : trace.ranks) earliest = std::min(earliest, origin(manifest));
  std::vector<double> shifts;
  for (const TraceManifest& manifest : trace.ranks) shifts.push_back(origin(manifest) - earliest);
  shift_and_sort(trace.tasks, shifts);
  shift_and_sort(trace.transfers, shifts);
  shift_and_sort(trace.memory, shifts);
  shift_and_sort(trace.spans, shifts);
  shift_and_sort(trace.placements, shifts);
  shift_and_sort(trace.communications, shifts);
  shift_and_sort(trace.storage, shifts);
  estimate_ends(trace);
}

Trace read_trace(const std::filesystem::path& folder) {
  std::error_code error;
  expect(std::filesystem::is_directory(folder, error),
         "{}: no such folder: give the one that train_gpt --trace wrote", folder.string());
  expect(std::filesystem::exists(rank_folder(folder, 0) / kManifestName, error),
         "{}: holds no trace ({} is missing): give the folder that train_gpt --trace wrote",
         folder.string(), (rank_folder(".", 0) / kManifestName).lexically_normal().string());
  Trace trace;
  for (int rank = 0; rank == 0 || rank < trace.ranks.front().ranks; ++rank) {
    const std::filesystem::path part = rank_folder(folder, rank);
    trace.ranks.push_back(read_manifest(part / kManifestName));
    const TraceManifest& manifest = trace.ranks.back();
    const TraceManifest& first = trace.ranks.front();
    expect(manifest.run == first.run && manifest.ranks == first.ranks && manifest.rank == rank,
           "{}: rank {} of {} of run {}, but {} is of run {}: the folder mixes traces",
           (part / kManifestName).string(), manifest.rank, manifest.ranks, manifest.run,
           rank_folder(folder, 0).string(), first.run);
    append_rank(trace, part);
  }
  if (!trace.ranks.front().configuration.is_object())
    trace.warnings.push_back(
        fmt::format("{} does not say how the run was configured: advice that depends on it (on "
                    "train.*, optim.clip, sched.share, dist.zero) is left out",
                    kManifestName));
  align(trace);
  return trace;
}

void expect_comparable(const Trace& a, const std::string& name_a, const Trace& b,
                       const std::string& name_b) {
  const TraceManifest& first = a.ranks.front();
  const TraceManifest& second = b.ranks.front();
  expect(first.model == second.model && first.ranks == second.ranks,
         "{} and {} cannot be compared: one is of {} on {} ranks, the other of {} on {}; compare "
         "runs of one model",
         name_a, name_b, first.model, first.ranks, second.model, second.ranks);
}

}  // namespace dos::trace
