// SPDX-License-Identifier: Apache-2.0
#include "trace/chrome.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>

namespace dos::trace {
namespace {

// Threads of a process that are no worker: their numbers.
constexpr int kSubmitting = 10'000;
constexpr int kCommunication = 10'001;
constexpr int kStorage = 10'002;
constexpr int kFirstLink = 20'000;

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace) {}

  nlohmann::json write() {
    for (const TraceManifest& manifest : trace_.ranks) name_threads(manifest);
    for (const Task& task : trace_.tasks)
      add_bar(task.rank, static_cast<int>(task.worker), task.codelet, task.phase, task.start,
              task.end,
              {{"label", task.label},
               {"step", task.step},
               {"micro_batch", task.micro_batch},
               {"ready_us", task.ready},
               {"data_wait_us", task.data_end - task.data_start},
               {"bytes", task.bytes},
               {"flops", task.flops}});
    for (const Transfer& copy : trace_.transfers)
      add_bar(copy.rank, link_.at({copy.rank, copy.from, copy.to}), copy.buffer, "transfer",
              copy.start, copy.end,
              {{"bytes", copy.bytes},
               {"category", copy.category},
               {"end", copy.measured != 0 ? "measured" : "estimated"}});
    for (const Span& span : trace_.spans)
      add_bar(span.rank, kSubmitting, span.name, "host", span.start, span.end,
              {{"step", span.step}});
    for (const Communication& each : trace_.communications)
      add_pair(each, kCommunication, "mpi", each.operation,
               {{"peer", each.peer}, {"bytes", each.bytes}, {"step", each.step}});
    for (const Storage& each : trace_.storage) add_storage(each);
    for (const UpdatePlacement& each : trace_.placements)
      events_.push_back({{"ph", "i"},
                         {"s", "p"},
                         {"name", "plan: " + each.subgroup},
                         {"cat", "plan"},
                         {"pid", each.rank},
                         {"tid", kSubmitting},
                         {"ts", each.time},
                         {"args",
                          {{"node", each.node},
                           {"step", each.step},
                           {"params", each.params},
                           {"resident", each.resident != 0}}}});
    add_memory();
    const TraceManifest& first = trace_.ranks.front();
    return {{"traceEvents", std::move(events_)},
            {"displayTimeUnit", "ms"},
            {"otherData", {{"run", first.run}, {"policy", first.policy}, {"model", first.model}}}};
  }

 private:
  /// What may overlap: a pair of a beginning and an end with a number of its own. Pairs of one name
  /// are a row.
  template <class Row>
  void add_pair(const Row& row, int thread, const char* category, const std::string& text,
                nlohmann::json args) {
    const auto event = [&](const char* phase, double time) {
      return nlohmann::json{{"ph", phase},     {"cat", category}, {"name", text}, {"id", pairs_},
                            {"pid", row.rank}, {"tid", thread},   {"ts", time}};
    };
    nlohmann::json begin = event("b", row.start);
    begin["args"] = std::move(args);
    events_.push_back(std::move(begin));
    events_.push_back(event("e", row.end));
    ++pairs_;
  }

  void add_storage(const Storage& each) {
    add_pair(each, kStorage, "storage",
             each.disk.empty() ? each.operation : each.operation + ' ' + each.disk,
             {{"purpose", each.purpose},
              {"buffer", each.buffer},
              {"category", each.category},
              {"bytes", each.bytes},
              {"step", each.step}});
  }

  void name(const char* what, int rank, int thread, const std::string& text) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", text}}}});
  }

  void name_threads(const TraceManifest& manifest) {
    const int rank = manifest.rank;
    name("process_name", rank, 0, fmt::format("rank {} on {}", rank, manifest.host));
    for (const auto& worker : manifest.machine.workers)
      name("thread_name", rank, worker.id, worker.name);
    name("thread_name", rank, kSubmitting, "submitting thread");
    name("thread_name", rank, kCommunication, "MPI");
    name("thread_name", rank, kStorage, "storage");
    int next = kFirstLink;
    for (const auto& link : manifest.machine.links) {
      const auto node = [&](int id) {
        return manifest.machine.nodes.at(static_cast<std::size_t>(id)).name;
      };
      link_[{rank, link.from, link.to}] = next;
      name("thread_name", rank, next++,
           fmt::format("link {} -> {}", node(link.from), node(link.to)));
    }
  }

  void add_bar(int rank, int thread, const std::string& text, const std::string& category,
               double start, double end, nlohmann::json args) {
    events_.push_back({{"ph", "X"},
                       {"name", text},
                       {"cat", category},
                       {"pid", rank},
                       {"tid", thread},
                       {"ts", start},
                       {"dur", end - start},
                       {"args", std::move(args)}});
  }

  void add_memory() {
    std::map<std::pair<int, Index>, nlohmann::json> in_use;
    for (const Memory& row : trace_.memory) {
      nlohmann::json& node = in_use[{row.rank, row.node}];
      node[row.category] = row.bytes;
      events_.push_back({{"ph", "C"},
                         {"name", fmt::format("memory of node {}", row.node)},
                         {"pid", row.rank},
                         {"tid", 0},
                         {"ts", row.time},
                         {"args", node}});
    }
  }

  const Trace& trace_;
  nlohmann::json events_ = nlohmann::json::array();
  Index pairs_ = 0;
  std::map<std::tuple<int, Index, Index>, int> link_;
};

}  // namespace

nlohmann::json to_chrome(const Trace& trace) {
  return Writer(trace).write();
}

}  // namespace dos::trace
