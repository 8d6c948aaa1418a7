// SPDX-License-Identifier: Apache-2.0
#include "trace/paje.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trace/report/intervals.hpp"

namespace dos::trace {
namespace {

constexpr double kMicrosInMilli = 1e3;
constexpr double kBytesInMega = 1 << 20;
/// Messages of a rank that are drawn beside each other.
constexpr std::size_t kMostMessages = 8;

/// Numbers of the event definitions below, as StarPU gives them.
enum EventId {
  kContainerType = 1,
  kEventType = 2,
  kStateType = 3,
  kVariableType = 4,
  kLinkType = 5,
  kEntityValue = 6,
  kCreateContainer = 7,
  kDestroyContainer = 8,
  kNewEvent = 9,
  kSetState = 10,
  kSetVariable = 13,
  kEndLink = 19,
  kSetTaskState = 20,
  kStartTransfer = 24,
};

struct Definition {
  EventId id;
  const char* name;
  const char* fields;  ///< "Name type ..."
};

constexpr std::array kDefinitions{
    Definition{kContainerType, "PajeDefineContainerType", "Alias string Type string Name string"},
    Definition{kEventType, "PajeDefineEventType",
               "Alias string Type string Name string Color color"},
    Definition{kStateType, "PajeDefineStateType", "Alias string Type string Name string"},
    Definition{kVariableType, "PajeDefineVariableType",
               "Alias string Type string Name string Color color"},
    Definition{kLinkType, "PajeDefineLinkType",
               "Alias string Type string StartContainerType string EndContainerType string Name "
               "string"},
    Definition{kEntityValue, "PajeDefineEntityValue",
               "Alias string Type string Name string Color color"},
    Definition{kCreateContainer, "PajeCreateContainer",
               "Time date Alias string Type string Container string Name string"},
    Definition{kDestroyContainer, "PajeDestroyContainer", "Time date Name string Type string"},
    Definition{kNewEvent, "PajeNewEvent", "Time date Type string Container string Value string"},
    Definition{kSetState, "PajeSetState", "Time date Container string Type string Value string"},
    Definition{kSetVariable, "PajeSetVariable",
               "Time date Container string Type string Value double"},
    Definition{kEndLink, "PajeEndLink",
               "Time date Type string Container string Value string EndContainer string Key "
               "string"},
    Definition{kSetTaskState, "PajeSetState",
               "Time date Container string Type string Value string Size string Params string "
               "Footprint string Tag string JobId string SubmitOrder string Priority string GFlop "
               "string X string Y string Iteration string Subiteration string NumaNodes string"},
    Definition{kStartTransfer, "PajeStartLink",
               "Time date Type string Container string Value string StartContainer string Key "
               "string Handle string HName string X string Y string"}};

/// Types of containers, variables, links and states with the aliases and names of StarPU's traces.
constexpr const char* kTypes =
    "1 MPIP 0 \"MPI Program\"\n"
    "1 P MPIP \"Program\"\n"
    "1 Mn P \"Memory Node\"\n"
    "1 T Mn \"Thread\"\n"
    "1 UT P \"User Thread\"\n"
    "1 Mm Mn \"Memory Manager\"\n"
    "1 W T \"Worker\"\n"
    "1 MPICt P \"MPI Communication Thread\"\n"
    "1 Sc P \"Scheduler\"\n"
    "2 prog_event P \"program event type\" \"0 0 0\"\n"
    "4 use Mm \"Used (MB)\" \"0 0 0\"\n"
    "4 bwi_mm Mm \"Bandwidth In (MB/s)\" \"0 0 0\"\n"
    "4 bwo_mm Mm \"Bandwidth Out (MB/s)\" \"0 0 0\"\n"
    "4 gf W \"GFlop/s\" \"0 0 0\"\n"
    "4 nsubmitted Sc \"Number of Submitted Uncompleted Tasks\" \"0 0 0\"\n"
    "4 nready Sc \"Number of Ready Tasks\" \"0 0 0\"\n"
    "5 F P Mm Mm \"Intra-node data Fetch\"\n"
    "3 WS W \"Worker State\"\n"
    "6 I WS \"Idle\" \"0.9 0.1 0.0\"\n"
    "6 Fi WS \"FetchingInput\" \"1.0 0.1 1.0\"\n"
    "3 US UT \"User Thread State\"\n"
    "6 No US \"Nothing\" \"0.0 0.0 0.0\"\n"
    "6 W US \"Waiting task\" \"0.9 0.1 0.0\"\n"
    "3 CtS MPICt \"Communication Thread State\"\n"
    "6 Sl CtS \"Sleeping\" \"0.9 0.1 0.0\"\n"
    "7 0.0 MPIroot MPIP 0 root\n";

const char* colour_of(const std::string& phase) {
  if (phase == "forward") return "0.30 0.62 0.35";
  if (phase == "backward") return "0.85 0.50 0.20";
  if (phase == "reduce") return "0.58 0.40 0.74";
  if (phase == "update") return "0.20 0.45 0.75";
  return "0.55 0.55 0.55";
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
  explicit Writer(const Trace& trace)
      : trace_(trace), message_rows_(lay_out(trace.communications)) {}

  std::string write() {
    std::string text;
    for (const Definition& each : kDefinitions) define(text, each);
    text += kTypes;
    define_values(text);
    for (const TraceManifest& manifest : trace_.ranks) add_containers(manifest);
    add_tasks();
    add_transfers();
    add_memory();
    add_spans();
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

  static void define(std::string& text, const Definition& definition) {
    text += fmt::format("%EventDef {} {}\n", definition.name, static_cast<int>(definition.id));
    std::string_view fields = definition.fields;
    while (!fields.empty()) {
      const std::size_t name = fields.find(' ');
      const std::size_t end = std::min(fields.find(' ', name + 1), fields.size());
      text += fmt::format("% {}\n", fields.substr(0, end));
      fields.remove_prefix(std::min(end + 1, fields.size()));
    }
    text += "%EndEventDef\n";
  }

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
    if (trace_.communications.empty()) return;
    std::size_t rows = 1;
    for (std::size_t i = 0; i < message_rows_.size(); ++i)
      if (trace_.communications[i].rank == manifest.rank)
        rows = std::max(rows, message_rows_[i] + 1);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::string name = message_container(manifest.rank, row);
      create(name, "MPICt", p + "p", name);
      line(0, "10 0.0 {} CtS Sl", name);
    }
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
    add_communications();
  }

  /// Messages overlap: each is a state of a container of its own, as far as there are some; in the
  /// last one the state is that of the message that began last, until none is under way.
  void add_communications() {
    using Change = std::pair<double, const Communication*>;  // null: an end
    std::map<std::string, std::vector<Change>> changes;
    for (std::size_t i = 0; i < trace_.communications.size(); ++i) {
      const Communication& each = trace_.communications[i];
      const std::string container = message_container(each.rank, message_rows_[i]);
      changes[container].emplace_back(each.start, &each);
      changes[container].emplace_back(each.end, nullptr);
    }
    for (auto& [container, list] : changes) {
      // An end that comes with a beginning stands behind it.
      std::ranges::stable_sort(list, [](const Change& a, const Change& b) {
        return a.first != b.first ? a.first < b.first : a.second != nullptr && b.second == nullptr;
      });
      Index under_way = 0;
      for (const auto& [time, begun] : list) {
        under_way += begun != nullptr ? 1 : -1;
        if (begun != nullptr)
          line(time, "10 {:.6f} {} CtS {}", time / kMicrosInMilli, container,
               quoted(begun->operation));
        else if (under_way == 0)
          line(time, "10 {:.6f} {} CtS Sl", time / kMicrosInMilli, container);
      }
    }
  }

  [[nodiscard]] std::string message_container(int rank, std::size_t row) const {
    return prefix(rank) + (row == 0 ? "mpict" : fmt::format("mpict{}", row));
  }

  /// The row of each message among those of its rank.
  static std::vector<std::size_t> lay_out(const std::vector<Communication>& messages) {
    std::map<int, std::vector<Interval>> by_rank;
    for (const Communication& each : messages) by_rank[each.rank].push_back({each.start, each.end});
    std::map<int, std::vector<std::size_t>> rows;
    for (const auto& [rank, intervals] : by_rank) rows[rank] = rows_of(intervals, kMostMessages);
    std::map<int, std::size_t> next;
    std::vector<std::size_t> result;
    for (const Communication& each : messages) result.push_back(rows[each.rank][next[each.rank]++]);
    return result;
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
  const std::vector<std::size_t> message_rows_;  ///< of each of trace_.communications
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
