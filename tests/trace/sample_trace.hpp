// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "trace/csv.hpp"
#include "trace/trace.hpp"
#include "trace/trace_files.hpp"

namespace dos::test {

/// A machine of two CPU workers and one device: node 1, a link of 1 GB/s each way.
inline trace::TraceManifest sample_manifest(int rank = 0, int ranks = 1) {
  trace::TraceManifest manifest;
  manifest.run = "run";
  manifest.program = "train_gpt";
  manifest.policy = "dos";
  manifest.model = "gpt2";
  manifest.rank = rank;
  manifest.ranks = ranks;
  manifest.configuration = {{"train", {{"steps", 2}}}};
  manifest.complete = true;
  manifest.machine.workers = {
      {0, "CUDA 0 (a GPU)", "cuda", 1}, {1, "CPU 0", "cpu", 0}, {2, "CPU 1", "cpu", 0}};
  manifest.machine.nodes = {{0, "NUMA 0", Index{1000}}, {1, "CUDA 0", std::nullopt}};
  manifest.machine.links = {{0, 1, 1e9}, {1, 0, 1e9}};
  return manifest;
}

/// Taken as soon as it was ready, data at hand.
inline trace::Task sample_task(const std::string& phase, Index step, Index worker, double start,
                               double end) {
  trace::Task task;
  task.codelet = "dos." + phase;
  task.label = phase;
  task.phase = phase;
  task.step = step;
  task.worker = worker;
  task.submitted = task.ready = task.taken = task.data_start = task.data_end = task.start = start;
  task.end = end;
  return task;
}

inline trace::Transfer sample_transfer(const std::string& buffer, Index from, Index to, Index bytes,
                                       double start, double end) {
  trace::Transfer copy;
  copy.buffer = buffer;
  copy.category = "optimizer states";
  copy.from = from;
  copy.to = to;
  copy.bytes = bytes;
  copy.start = start;
  copy.end = end;
  copy.measured = 1;
  return copy;
}

/// Of a checkpoint of step 1: "write" and "flush" on a disk, the others in memory.
inline trace::Storage sample_storage(const std::string& operation, Index bytes, double start,
                                     double end) {
  trace::Storage row;
  row.operation = operation;
  row.purpose = "checkpoint";
  row.disk = operation == "write" || operation == "flush" ? "/disk" : "";
  row.buffer = "first_moment.a";
  row.category = "optimizer states";
  row.bytes = bytes;
  row.step = 1;
  row.start = start;
  row.end = end;
  return row;
}

template <class Row>
void write_rows(const std::filesystem::path& folder, const std::vector<Row>& rows) {
  std::string text = trace::csv_header<Row>();
  for (const Row& row : rows) trace::append_row(text, row);
  std::ofstream(folder / Row::kFile) << text;
}

/// What a recorder leaves, of the first rank of `trace`.
inline void write_trace(const std::filesystem::path& folder, const trace::Trace& trace,
                        trace::TraceManifest manifest) {
  const std::filesystem::path part = trace::rank_folder(folder, manifest.rank);
  std::filesystem::create_directories(part);
  write_rows(part, trace.tasks);
  write_rows(part, trace.transfers);
  write_rows(part, trace.memory);
  write_rows(part, trace.spans);
  write_rows(part, trace.placements);
  write_rows(part, trace.communications);
  write_rows(part, trace.storage);
  manifest.rows = {{trace::Task::kFile, std::ssize(trace.tasks)},
                   {trace::Transfer::kFile, std::ssize(trace.transfers)},
                   {trace::Memory::kFile, std::ssize(trace.memory)},
                   {trace::Span::kFile, std::ssize(trace.spans)},
                   {trace::UpdatePlacement::kFile, std::ssize(trace.placements)},
                   {trace::Communication::kFile, std::ssize(trace.communications)},
                   {trace::Storage::kFile, std::ssize(trace.storage)}};
  std::ofstream(part / trace::kManifestName) << to_json(manifest).dump();
}

}  // namespace dos::test
