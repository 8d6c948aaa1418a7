// SPDX-License-Identifier: Apache-2.0
// Updates that go ahead of the norm, as a protocol: every order in which the tasks of some steps
// can run, and every moment at which a redo can be decided, ends with the same values.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dos::optim::ahead_protocol_test {
namespace {

using Values = std::map<std::string, std::int64_t>;

enum class Access { kRead, kWrite, kReadWrite };

struct Task {
  std::string name;
  std::vector<std::pair<std::string, Access>> buffers;
  std::function<void(Values&)> run;
  std::function<bool(const Values&)> condition = nullptr;
};

/// Tasks wait for what was submitted before and uses the same buffers, unless both only read.
class Graph {
 public:
  void submit(Task task) {
    std::set<std::size_t> waits_for;
    for (std::size_t earlier = 0; earlier < tasks_.size(); ++earlier)
      for (const auto& [mine, my_access] : task.buffers)
        for (const auto& [other, access] : tasks_[earlier].buffers)
          if (mine == other && (my_access != Access::kRead || access != Access::kRead))
            waits_for.insert(earlier);
    tasks_.push_back(std::move(task));
    waits_for_.push_back(std::move(waits_for));
  }

  /// What the values may be in the end, over all orders.
  std::set<Values> ends(const Values& start) {
    ends_.clear();
    seen_.clear();
    go_on({std::vector<State>(tasks_.size(), State::kWaits), start});
    return ends_;
  }
  /// Situations that were reached.
  [[nodiscard]] std::size_t situations() const { return seen_.size(); }

 private:
  enum class State : std::uint8_t { kWaits, kRuns, kLeftOut, kDone };
  using Situation = std::pair<std::vector<State>, Values>;

  bool is_ready(const Situation& now, std::size_t task) const {
    for (const std::size_t earlier : waits_for_[task])
      if (now.first[earlier] != State::kDone) return false;
    return true;
  }

  /// A task is decided once it is ready, and then runs, or not, at any time.
  void go_on(const Situation& now) {
    if (!seen_.insert(now).second) return;
    bool is_end = true;
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      Situation next = now;
      State& state = next.first[task];
      if (state == State::kDone) continue;
      is_end = false;
      if (state == State::kWaits) {
        if (!is_ready(now, task)) continue;
        const auto& condition = tasks_[task].condition;
        state = condition == nullptr || condition(now.second) ? State::kRuns : State::kLeftOut;
      } else {
        if (state == State::kRuns) tasks_[task].run(next.second);
        state = State::kDone;
      }
      go_on(next);
    }
    if (is_end) ends_.insert(now.second);
  }

  std::vector<Task> tasks_;
  std::vector<std::set<std::size_t>> waits_for_;
  std::set<Situation> seen_;
  std::set<Values> ends_;
};

constexpr std::int64_t kNoNumber = -1;

/// Any function of all it depends on.
std::int64_t mixed(std::int64_t a, std::int64_t b, std::int64_t c) {
  return (a * 31 + b * 17 + c * 7 + 3) % 10007;
}
std::int64_t updated(std::int64_t value, std::int64_t gradient, std::int64_t factor) {
  return factor == kNoNumber ? value : mixed(value, gradient, factor);
}

/// What one thread computes, step by step, with the factor of each step.
Values in_turn(const std::vector<std::int64_t>& factors, int subgroups) {
  Values values;
  for (int i = 0; i < subgroups; ++i) values["p" + std::to_string(i)] = 100 + i;
  for (const std::int64_t factor : factors) {
    std::vector<std::int64_t> gradients;
    for (int i = 0; i < subgroups; ++i)
      gradients.push_back(mixed(values["p" + std::to_string(i)], i, 1));
    for (int i = 0; i < subgroups; ++i) {
      std::int64_t& p = values["p" + std::to_string(i)];
      p = updated(p, gradients[static_cast<std::size_t>(i)], factor);
    }
  }
  return values;
}

void submit_steps(Graph& graph, const std::vector<std::int64_t>& factors, int subgroups) {
  std::int64_t number = 0;
  for (const std::int64_t factor : factors) {
    const auto bank = [&](int i, std::int64_t which) {
      return "bank" + std::to_string(which % 2) + "." + std::to_string(i);
    };
    const auto of = [](const char* kind, int i) { return kind + std::to_string(i); };
    std::vector<std::pair<std::string, Access>> gradients;
    for (int i = 0; i < subgroups; ++i) {
      const std::string g = of("g", i);
      const std::string w = of("w", i);
      graph.submit({"gradient", {{w, Access::kRead}, {g, Access::kWrite}}, [=](Values& v) {
                      v[g] = mixed(v[w], i, 1);
                    }});
      gradients.emplace_back(g, Access::kRead);
    }
    const auto update = [&](int i, const std::string& clip) {
      const std::string from = bank(i, number);
      const std::string to = bank(i, number + 1);
      const std::string g = of("g", i);
      const std::string w = of("w", i);
      return Task{"update",
                  {{from, Access::kRead},
                   {to, Access::kWrite},
                   {g, Access::kRead},
                   {w, Access::kWrite},
                   {clip, Access::kRead}},
                  [=](Values& v) { v[w] = v[to] = updated(v[from], v[g], v[clip]); }};
    };
    for (int i = 0; i < subgroups; ++i) graph.submit(update(i, "one"));
    gradients.emplace_back("factor", Access::kReadWrite);
    graph.submit({"norm", gradients, [=](Values& v) { v["factor"] = factor; }});
    graph.submit({"tell",
                  {{"factor", Access::kReadWrite}, {"told", Access::kWrite}},
                  [](Values& v) { v["told"] = v["factor"]; }});
    for (int i = 0; i < subgroups; ++i) {
      Task redo = update(i, "factor");
      redo.condition = [](const Values& v) { return v.at("told") != 1; };
      graph.submit(std::move(redo));
    }
    ++number;
  }
}

TEST(AheadProtocol, EveryOrderEndsWithTheSameValues) {
  constexpr std::int64_t kFactors[] = {1, 2, kNoNumber};
  for (const std::int64_t first : kFactors)
    for (const std::int64_t second : kFactors) {
      SCOPED_TRACE(testing::Message() << first << ", " << second);
      constexpr int kSubgroups = 3;
      Graph graph;
      submit_steps(graph, {first, second}, kSubgroups);
      Values start{{"one", 1}, {"factor", 1}, {"told", 1}};
      for (int i = 0; i < kSubgroups; ++i) {
        const std::string number = std::to_string(i);
        start["bank0." + number] = start["w" + number] = 100 + i;
        start["bank1." + number] = -7;
      }
      const std::set<Values> ends = graph.ends(start);
      EXPECT_GT(graph.situations(), 1000U);
      const Values expected = in_turn({first, second}, kSubgroups);
      for (const Values& end : ends)
        for (int i = 0; i < kSubgroups; ++i) {
          const std::string number = std::to_string(i);
          // After two steps the first bank is current again.
          EXPECT_EQ(end.at("bank0." + number), expected.at("p" + number));
          EXPECT_EQ(end.at("w" + number), expected.at("p" + number));
        }
      EXPECT_EQ(ends.size(), 1U);
    }
}

// Without the task that tells, a redo can be decided by what an earlier step has left.
TEST(AheadProtocol, TheFactorMustBeToldInOrder) {
  Graph graph;
  graph.submit({"norm", {{"factor", Access::kReadWrite}}, [](Values& v) { v["factor"] = 2; }});
  graph.submit({"tell", {{"told", Access::kWrite}}, [](Values& v) { v["told"] = 2; }});
  graph.submit({"redo",
                {{"factor", Access::kRead}, {"p", Access::kWrite}},
                [](Values& v) { v["p"] = v["factor"]; },
                [](const Values& v) { return v.at("told") != 1; }});
  EXPECT_EQ(graph.ends({{"factor", 1}, {"told", 1}, {"p", 0}}).size(), 2U);
}

}  // namespace
}  // namespace dos::optim::ahead_protocol_test
