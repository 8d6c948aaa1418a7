// SPDX-License-Identifier: Apache-2.0
#include "trace/paje.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trace/paje_types.hpp"
#include "trace/report/intervals.hpp"

namespace dos::trace {
namespace {

constexpr double kMicrosInMilli = 1e3;
constexpr double kBytesInMega = 1 << 20;
/// What overlaps, messages of a rank say, and is drawn beside each other.
constexpr std::size_t kMostRows = 8;
/// Among the disks of a rank, which are absolute paths.
constexpr const char* kWaits = "waits";

const char* colour_of(const std::string& phase) {
  if (phase == "forward") return "0.30 0.62 0.35";
  if (phase == "backward") return "0.85 0.50 0.20";
  if (phase == "reduce") return "0.58 0.40 0.74";
  if (phase == "update") return "0.20 0.45 0.75";
  return "0.55 0.55 0.55";
}

const char* storage_colour(const std::string& operation) {
  if (operation == "read") return "0.30 0.62 0.35";
  if (operation == "write") return "0.20 0.45 0.75";
  if (operation == "flush") return "0.47 0.20 0.93";
  if (operation == "copy") return "0.85 0.50 0.20";
  return "0.84 0.37 0.00";
}

/// Text inside quotes.
std::string quoted(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  return '"' + text + '"';
}

/// What waits or blocks the submitting thread: StarPU's name where it has one.
std::string user_state(const std::string& span) {
  return span == "wait" ? "W" : span;
}

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace) {}

  std::string write() {
    std::string text = paje_header();
    define_values(text);
    for (const TraceManifest& manifest : trace_.ranks) add_containers(manifest);
    add_tasks();
    add_transfers();
    add_memory();
    add_spans();
    if (!trace_.communications.empty())
      for (const TraceManifest& manifest : trace_.ranks) add_communications(manifest.rank);
    add_storage();
    for (const auto& [key, changes] : steps_) add_variable(key, changes);
    destroy_containers();
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, line] : lines_) text += line;
    return text;
  }

 private:
  struct Variable {
    std::string container;
    std::string type;
    bool operator<(const Variable& other) const {
      return container != other.container ? container < other.container : type < other.type;
    }
  };

  void define_values(std::string& text) const {
    std::set<std::string> known;
    for (const Task& task : trace_.tasks)
      if (known.insert(task.codelet).second)
        text += fmt::format("6 {0} WS {0} \"{1}\"\n", quoted(task.codelet), colour_of(task.phase));
    known = {"wait"};
    for (const Span& span : trace_.spans)
      if (known.insert(span.name).second)
        text += fmt::format("6 {0} US {0} \"0.5 0.2 0.6\"\n", quoted(span.name));
    known.clear();
    for (const Communication& each : trace_.communications)
      if (known.insert(each.operation).second)
        text += fmt::format("6 {0} CtS {0} \"0.1 0.3 0.6\"\n", quoted(each.operation));
    known.clear();
    for (const Storage& each : trace_.storage)
      if (each.operation != "hold" && known.insert(each.operation).second)
        text += fmt::format("6 {0} StS {0} \"{1}\"\n", quoted(each.operation),
                            storage_colour(each.operation));
  }

  [[nodiscard]] std::string prefix(int rank) const {
    return trace_.ranks.size() == 1 ? "" : fmt::format("{}_", rank);
  }

  template <class... Args>
  void line(double time_us, fmt::format_string<Args...> text, Args&&... args) {
    lines_.emplace_back(time_us, fmt::format(text, std::forward<Args>(args)...) + '\n');
    end_ = std::max(end_, time_us);
  }

  void create(const std::string& alias, const char* type, const std::string& parent,
              const std::string& name) {
    line(0, "7 0.0 {} {} {} {}", alias, type, parent, quoted(name));
    created_.emplace_back(alias, type);
  }

  void add_containers(const TraceManifest& manifest) {
    const std::string p = prefix(manifest.rank);
    create(p + "p", "P", "MPIroot", "program " + p);
    create(p + "sched", "Sc", p + "p", p + "scheduler");
    for (const auto& node : manifest.machine.nodes) {
      create(fmt::format("{}mn{}", p, node.id), "Mn", p + "p",
             fmt::format("{}MEMNODE{}", p, node.id));
      create(fmt::format("{}mm{}", p, node.id), "Mm", fmt::format("{}mn{}", p, node.id),
             fmt::format("{}MEMMANAGER{}", p, node.id));
    }
    std::map<std::string, int> of_kind;
    for (const auto& worker : manifest.machine.workers) {
      create(fmt::format("{}t{}", p, worker.id), "T", fmt::format("{}mn{}", p, worker.node),
             fmt::format("{}T{}", p, worker.id));
      const std::string name =
          fmt::format("{}{}{}", p, starpu_kind(worker.kind), of_kind[worker.kind]++);
      create(fmt::format("{}w{}", p, worker.id), "W", fmt::format("{}t{}", p, worker.id), name);
      line(0, "10 0.0 {}w{} WS I", p, worker.id);
    }
    create(p + "ut0", "UT", p + "p", p + "UserThread0");
    line(0, "10 0.0 {}ut0 US No", p);
  }

  static std::string starpu_kind(const std::string& kind) {
    if (kind == "cpu") return "CPU";
    if (kind == "cuda") return "CUDA";
    return kind == "opencl" ? "OpenCL" : kind;
  }

  void add_tasks() {
    std::map<std::pair<int, Index>, const Task*> last;
    for (const Task& task : trace_.tasks) {
      const Task*& before = last[{task.rank, task.worker}];
      const double free_at = before == nullptr ? 0 : before->end;
      if (before != nullptr && task.start > free_at) set_idle(*before);
      const double fetch = std::max(free_at, task.data_start);
      if (task.data_end > task.data_start && task.start > fetch)
        line(fetch, "10 {:.6f} {}w{} WS Fi", fetch / kMicrosInMilli, prefix(task.rank),
             task.worker);
      add_task(task);
      if (before == nullptr || task.end >= before->end) before = &task;
    }
    for (const auto& [worker, task] : last) set_idle(*task);
  }

  void set_idle(const Task& task) {
    line(task.end, "10 {:.6f} {}w{} WS I", task.end / kMicrosInMilli, prefix(task.rank),
         task.worker);
  }

  void add_task(const Task& task) {
    const std::string p = prefix(task.rank);
    const double gflop = task.flops / 1e9;
    line(task.start,
         "20 {:.6f} {}w{} WS {} {} {} {:08x} {:016x} {}{} {}{} {} {:.6f} 0 0 {} {} \"\"",
         task.start / kMicrosInMilli, p, task.worker, quoted(task.codelet), task.bytes,
         quoted(task.label), task.footprint, task.number, p, task.number, p, task.number,
         task.priority, gflop, task.step, task.micro_batch);
    const double seconds = std::max(1e-9, task.duration() / 1e6);
    change({fmt::format("{}w{}", p, task.worker), "gf"}, task.start, task.end, gflop / seconds);
    change({p + "sched", "nsubmitted"}, task.submitted, task.end, 1);
    change({p + "sched", "nready"}, task.ready, std::max(task.ready, task.taken), 1);
  }

  void add_transfers() {
    Index key = 0;
    for (const Transfer& copy : trace_.transfers) {
      const std::string p = prefix(copy.rank);
      const double seconds = std::max(1e-9, (copy.end - copy.start) / 1e6);
      const double rate = static_cast<double>(copy.bytes) / kBytesInMega / seconds;
      line(copy.start, "24 {:.6f} F {}p {} {}mm{} com_{} {:x} {} 0 0", copy.start / kMicrosInMilli,
           p, copy.bytes, p, copy.from, key, key, quoted(copy.buffer));
      line(copy.end, "19 {:.6f} F {}p {} {}mm{} com_{}", copy.end / kMicrosInMilli, p, copy.bytes,
           p, copy.to, key++);
      change({fmt::format("{}mm{}", p, copy.from), "bwo_mm"}, copy.start, copy.end, rate);
      change({fmt::format("{}mm{}", p, copy.to), "bwi_mm"}, copy.start, copy.end, rate);
    }
  }

  void add_memory() {
    std::map<std::pair<int, Index>, std::map<std::string, Index>> in_use;
    for (const Memory& row : trace_.memory) {
      auto& node = in_use[{row.rank, row.node}];
      node[row.category] = row.bytes;
      Index total = 0;
      for (const auto& [category, bytes] : node) total += bytes;
      line(row.time, "13 {:.6f} {}mm{} use {:.6f}", row.time / kMicrosInMilli, prefix(row.rank),
           row.node, static_cast<double>(total) / kBytesInMega);
    }
  }

  void add_spans() {
    std::map<Index, double> step_start;
    for (const Task& task : trace_.tasks)
      if (task.step > 0) step_start.try_emplace(task.step, task.start);
    for (const auto& [step, start] : step_start)
      line(start, "9 {:.6f} prog_event {}p \"step {}\"", start / kMicrosInMilli, prefix(0), step);
    for (const Span& span : trace_.spans) {
      line(span.start, "10 {:.6f} {}ut0 US {}", span.start / kMicrosInMilli, prefix(span.rank),
           quoted(user_state(span.name)));
      line(span.end, "10 {:.6f} {}ut0 US No", span.end / kMicrosInMilli, prefix(span.rank));
    }
  }

  void add_communications(int rank) {
    std::vector<LaneState> states;
    for (const Communication& each : trace_.communications)
      if (each.rank == rank) states.push_back({each.start, each.end, each.operation});
    const std::string name = prefix(rank) + "mpict";
    add_lane({"MPICt", "CtS", "Sl"}, rank, {name, name}, states);
  }

  /// Of each rank what was held and copied and who waited for it, and what each disk did.
  void add_storage() {
    std::map<std::pair<int, std::string>, std::vector<LaneState>> lanes;
    for (const Storage& each : trace_.storage) {
      if (each.operation == "hold")
        change({prefix(each.rank) + "st", "held"}, each.start, each.end,
               static_cast<double>(each.bytes) / kBytesInMega);
      else
        lanes[{each.rank, each.operation == "wait" ? kWaits : each.disk}].push_back(
            {each.start, each.end, each.operation});
      lanes.try_emplace({each.rank, ""});  // of what is held
    }
    std::map<int, int> disks;
    for (const auto& [place, states] : lanes) {
      const auto& [rank, disk] = place;
      const std::string p = prefix(rank);
      LaneName name{p + "st", p + "STORAGE", " "};
      if (disk == kWaits) name = {p + "stw", p + "WAITS FOR STORAGE", " "};
      if (!disk.empty() && disk != kWaits)
        name = {fmt::format("{}disk{}x", p, disks[rank]++), p + "DISK " + disk, " "};
      add_lane({"St", "StS", "Id"}, rank, name, states);
      add_disk_rates(rank, disk, name.alias);
    }
  }

  void add_disk_rates(int rank, const std::string& disk, const std::string& container) {
    for (const Storage& each : trace_.storage) {
      if (each.rank != rank || each.disk != disk || each.disk.empty() || each.bytes == 0) continue;
      const double seconds = std::max(1e-9, (each.end - each.start) / 1e6);
      change({container, each.operation == "read" ? "bwr_st" : "bww_st"}, each.start, each.end,
             static_cast<double>(each.bytes) / kBytesInMega / seconds);
    }
  }

  /// What may overlap: each state is in a container of its own, as far as there are some; in the
  /// last one the state is that of what began last, until nothing is under way.
  struct LaneState {
    double start;
    double end;
    std::string state;
  };
  struct LaneType {
    const char* container;
    const char* states;
    const char* idle;
  };
  /// Of the first container; the others have a number behind it.
  struct LaneName {
    std::string alias;
    std::string text;
    const char* before_number = "";
  };
  void add_lane(const LaneType& type, int rank, const LaneName& name,
                const std::vector<LaneState>& states) {
    std::vector<Interval> intervals;
    for (const LaneState& each : states) intervals.push_back({each.start, each.end});
    const std::vector<std::size_t> rows = rows_of(intervals, kMostRows);
    std::vector<std::vector<LaneState>> by_row(1);
    for (std::size_t i = 0; i < states.size(); ++i) {
      by_row.resize(std::max(by_row.size(), rows[i] + 1));
      by_row[rows[i]].push_back(states[i]);
    }
    for (std::size_t row = 0; row < by_row.size(); ++row) {
      const std::string number = row == 0 ? "" : fmt::format("{}", row);
      create(name.alias + number, type.container, prefix(rank) + "p",
             row == 0 ? name.text : name.text + name.before_number + number);
      line(0, "10 0.0 {}{} {} {}", name.alias, number, type.states, type.idle);
      add_states(type, name.alias + number, by_row[row]);
    }
  }

  void add_states(const LaneType& type, const std::string& container,
                  const std::vector<LaneState>& states) {
    using Change = std::pair<double, const LaneState*>;  // null: an end
    std::vector<Change> changes;
    for (const LaneState& each : states) {
      changes.emplace_back(each.start, &each);
      changes.emplace_back(each.end, nullptr);
    }
    // An end that comes with a beginning stands behind it.
    std::ranges::stable_sort(changes, [](const Change& a, const Change& b) {
      return a.first != b.first ? a.first < b.first : a.second != nullptr && b.second == nullptr;
    });
    Index under_way = 0;
    for (const auto& [time, begun] : changes) {
      under_way += begun != nullptr ? 1 : -1;
      if (begun != nullptr)
        line(time, "10 {:.6f} {} {} {}", time / kMicrosInMilli, container, type.states,
             quoted(begun->state));
      else if (under_way == 0)
        line(time, "10 {:.6f} {} {} {}", time / kMicrosInMilli, container, type.states, type.idle);
    }
  }

  /// `amount` more from `start` to `end`.
  void change(const Variable& variable, double start, double end, double amount) {
    steps_[variable].emplace_back(start, amount);
    steps_[variable].emplace_back(end, -amount);
  }

  void add_variable(const Variable& variable, std::vector<std::pair<double, double>> changes) {
    std::sort(changes.begin(), changes.end());
    double value = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      value += changes[i].second;
      const bool last_of_time = i + 1 == changes.size() || changes[i + 1].first > changes[i].first;
      if (last_of_time)
        line(changes[i].first, "13 {:.6f} {} {} {:.6f}", changes[i].first / kMicrosInMilli,
             variable.container, variable.type, std::max(0.0, value));
    }
  }

  void destroy_containers() {
    const double end = end_;
    for (auto each = created_.rbegin(); each != created_.rend(); ++each)
      line(end, "8 {:.6f} {} {}", end / kMicrosInMilli, each->first, each->second);
    line(end, "8 {:.6f} MPIroot MPIP", end / kMicrosInMilli);
  }

  const Trace& trace_;
  std::vector<std::pair<double, std::string>> lines_;
  std::vector<std::pair<std::string, const char*>> created_;
  std::map<Variable, std::vector<std::pair<double, double>>> steps_;
  double end_ = 0;
};

}  // namespace

std::string to_paje(const Trace& trace) {
  return Writer(trace).write();
}

}  // namespace dos::trace
