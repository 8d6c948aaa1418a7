// SPDX-License-Identifier: Apache-2.0
// What it cost to have activations in backward that forward did not leave there.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/report/analysis.hpp"

namespace dos::trace {
namespace {

constexpr const char* kProducts = "products";
constexpr const char* kCheap = "norms and activation functions";

bool is_of_a_block(const Task& task) {
  return task.label.starts_with("blocks.");
}

/// Whether backward makes again what forward had made.
bool is_made_again(const Task& task) {
  const std::string_view codelet = task.codelet;
  return task.step > 0 && task.phase == "backward" && is_of_a_block(task) &&
         codelet.find("_forward") != codelet.npos && codelet.find("_backward") == codelet.npos;
}

bool is_product(const Task& task) {
  return task.codelet.starts_with("dos.linear") || task.codelet.starts_with("dos.attention");
}

/// The workers of a rank that run blocks of the model, and when each of them computed.
std::map<Index, Intervals> model_workers(const Trace& trace, int rank) {
  std::set<Index> workers;
  for (const Task& task : trace.tasks)
    if (task.rank == rank && task.step > 0 && is_of_a_block(task) &&
        (task.phase == "forward" || task.phase == "backward"))
      workers.insert(task.worker);
  std::map<Index, std::vector<Interval>> tasks;
  for (const Task& task : trace.tasks)
    if (task.rank == rank && workers.contains(task.worker))
      tasks[task.worker].push_back({task.start, task.end});
  std::map<Index, Intervals> computing;
  for (auto& [worker, all] : tasks) computing[worker] = unite(std::move(all));
  return computing;
}

/// What moved to one place and back.
struct Moves {
  std::vector<Interval> times;
  Index bytes = 0;
};

/// One hop of a buffer's contents.
struct Hop {
  enum class Kind { kOut, kWrite, kRead, kIn };
  Kind kind;  ///< from a device, to a disk, from there, to a device
  Interval time;
  Index bytes;
};

/// Of each buffer of a rank, in the order in which they began.
std::map<std::string, std::vector<Hop>> hops_of(const Trace& trace, int rank) {
  std::set<Index> devices;
  for (const auto& worker : trace.rank(rank).machine.workers)
    if (worker.kind != "cpu") devices.insert(worker.node);
  std::map<std::string, std::vector<Hop>> hops;
  for (const Transfer& copy : trace.transfers) {
    const bool goes_out = devices.contains(copy.from);
    // What goes from device to device is no move of a plan.
    if (copy.rank == rank && goes_out != devices.contains(copy.to) &&
        copy.buffer.find(".activations") != std::string::npos)
      hops[copy.buffer].push_back(
          {goes_out ? Hop::Kind::kOut : Hop::Kind::kIn, {copy.start, copy.end}, copy.bytes});
  }
  for (const Storage& row : trace.storage)
    if (row.rank == rank && row.purpose == "activations" && row.operation != "flush")
      hops[row.buffer].push_back({row.operation == "read" ? Hop::Kind::kRead : Hop::Kind::kWrite,
                                  {row.start, row.end},
                                  row.bytes});
  for (auto& [buffer, all] : hops)
    std::ranges::stable_sort(all, {}, [](const Hop& hop) { return hop.time.start; });
  return hops;
}

/// What passes through host memory on its way to a disk, or from there, is the disk's: a copy that
/// a write follows before the next one comes out, or that a read came before. Bytes count once, at
/// the place where they go.
void add_moves(const std::vector<Hop>& hops, Moves& host, Moves& disk) {
  for (auto hop = hops.begin(); hop != hops.end(); ++hop) {
    const bool is_copy = hop->kind == Hop::Kind::kOut || hop->kind == Hop::Kind::kIn;
    bool is_of_disk = !is_copy;
    if (hop->kind == Hop::Kind::kOut) {
      const auto next = std::find_if(hop + 1, hops.end(), [](const Hop& later) {
        return later.kind == Hop::Kind::kOut || later.kind == Hop::Kind::kWrite;
      });
      is_of_disk = next != hops.end() && next->kind == Hop::Kind::kWrite;
    } else if (hop->kind == Hop::Kind::kIn) {
      const auto before =
          std::find_if(std::make_reverse_iterator(hop), hops.rend(), [](const Hop& earlier) {
            return earlier.kind == Hop::Kind::kIn || earlier.kind == Hop::Kind::kRead;
          });
      is_of_disk = before != hops.rend() && before->kind == Hop::Kind::kRead;
    }
    Moves& moves = is_of_disk ? disk : host;
    moves.times.push_back(hop->time);
    if (is_copy != is_of_disk) moves.bytes += hop->bytes;
  }
}

/// While it moves, the mean worker that runs the model computes for a part of the time.
ActivationCost cost_of(const Moves& moves, const std::map<Index, Intervals>& workers,
                       const Interval& window) {
  const Intervals moving = intersect(unite(moves.times), {window});
  ActivationCost cost{.name = kProducts, .where = "", .bytes = static_cast<double>(moves.bytes)};
  cost.time = length(moving);
  double computed = 0;
  for (const auto& [worker, computing] : workers) computed += length(intersect(moving, computing));
  cost.exposed =
      cost.time - computed / static_cast<double>(std::max<Index>(1, std::ssize(workers)));
  return cost;
}

std::vector<ActivationCost> costs_of_rank(const Trace& trace, int rank, const Interval& window) {
  const std::map<Index, Intervals> workers = model_workers(trace, rank);
  Moves host;
  Moves disk;
  for (const auto& [buffer, hops] : hops_of(trace, rank)) add_moves(hops, host, disk);
  std::vector<ActivationCost> costs;
  for (const auto& [where, moves] :
       {std::pair<const char*, const Moves&>{"host", host}, {"disk", disk}}) {
    costs.push_back(cost_of(moves, workers, window));
    costs.back().where = where;
  }
  ActivationCost products{.name = kProducts, .where = "recompute"};
  ActivationCost cheap{.name = kCheap, .where = "recompute"};
  for (const Task& task : trace.tasks)
    if (task.rank == rank && is_made_again(task))
      (is_product(task) ? products : cheap).time += task.duration();
  for (ActivationCost* each : {&products, &cheap}) {
    each->time /= static_cast<double>(std::max<Index>(1, std::ssize(workers)));
    each->exposed = each->time;
    costs.push_back(*each);
  }
  return costs;
}

}  // namespace

std::vector<ActivationCost> activation_costs(const Trace& trace, const Interval& window,
                                             Index steps) {
  std::vector<ActivationCost> all;
  const double parts = static_cast<double>(std::max<Index>(1, steps) * std::ssize(trace.ranks));
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) {
    const std::vector<ActivationCost> costs = costs_of_rank(trace, rank, window);
    if (all.empty()) {
      for (const ActivationCost& cost : costs)
        all.push_back({.name = cost.name, .where = cost.where});
    }
    for (std::size_t i = 0; i < costs.size(); ++i) {
      all[i].bytes += costs[i].bytes / parts;
      all[i].time += costs[i].time / parts;
      all[i].exposed += costs[i].exposed / parts;
    }
  }
  std::erase_if(all, [](const ActivationCost& cost) { return cost.time == 0; });
  std::ranges::stable_sort(all, std::ranges::greater{}, &ActivationCost::exposed);
  return all;
}

}  // namespace dos::trace
