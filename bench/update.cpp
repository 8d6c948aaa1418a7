// SPDX-License-Identifier: Apache-2.0
// An update kernel beside plain additions over the same arrays, round about, in one process: how
// near the fused update comes to what memory allows.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "codelets/update/update_stream.hpp"
#include "reference/all.hpp"
#include "spread.hpp"
#include "update_arrays.hpp"

namespace dos::bench {
namespace {

using codelets::UpdateArrays;
using codelets::UpdateKind;
using codelets::UpdateStream;
using reference::Tracked;

constexpr Index kSamples = 1000;
constexpr codelets::Hyperparameters kHyper{
    .beta1 = 0.9F, .beta2 = 0.999F, .momentum = 0.9F, .eps = 1e-8F, .weight_decay = 0.1F};
constexpr float kLearningRate = 1e-3F;
constexpr Index kStep = 10;

/// A thread's share of the parameters.
struct Part {
  Index first;
  Index count;
};

Part part_of(Index params, int threads, int thread) {
  const Index first = params * thread / threads;
  return {first, params * (thread + 1) / threads - first};
}

/// All values positive, so that the additions of the stream keep states valid.
void touch(const Arrays& arrays, const Part& part) {
  const UpdateArrays& a = arrays.all();
  for (Index i = part.first; i < part.first + part.count; ++i) {
    const auto wave = static_cast<float>(i % 1021) / 1021.0F;
    arrays.set_gradient(i, 1e-3F * (wave + 0.5F));
    a.p[i] = wave - 0.5F;
    for (Index s = 0; s < arrays.states(); ++s) a.states[s][i] = 1e-3F * wave;
    if (a.w != nullptr) a.w[i] = to_bf16(a.p[i]);
  }
}

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  require(sched_getaffinity(0, sizeof set, &set) == 0, "cannot read the processor affinity");
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &set)) processors.push_back(i);
  }
  return processors;
}

void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  require(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0, "cannot pin a thread");
}

struct Sample {
  Index index;
  Tracked p;
  std::vector<Tracked> states;
};

std::vector<Sample> take_samples(const Arrays& arrays) {
  const UpdateArrays& a = arrays.all();
  std::vector<Sample> samples;
  const auto take = [&](Index i) {
    samples.push_back({.index = i, .p = Tracked(static_cast<double>(a.p[i])), .states = {}});
    for (Index s = 0; s < arrays.states(); ++s)
      samples.back().states.emplace_back(static_cast<double>(a.states[s][i]));
  };
  const Index stride = std::max<Index>(1, a.count / kSamples);
  for (Index i = 0; i < a.count; i += stride) take(i);
  if (a.count > 0) take(a.count - 1);
  return samples;
}

/// Samples that differ from the reference by more than rounding, or whose working parameter is not
/// the rounded parameter.
Index count_wrong(std::vector<Sample> samples, const Arrays& arrays) {
  const UpdateArrays& a = arrays.all();
  const reference::RuleFormula formula = reference::formula_of(rule_of(arrays.kind()).name);
  const auto differs = [](float got, const Tracked& expected) {
    return !(std::abs(static_cast<double>(got) - expected.value) <= expected.error);
  };
  Index wrong = 0;
  for (Sample& s : samples) {
    const Tracked g(static_cast<double>(arrays.gradient(s.index)));
    formula(reference::exact_hyper(kHyper, kLearningRate, kStep), s.p, s.states.data(), g);
    bool bad = differs(a.p[s.index], s.p);
    for (std::size_t i = 0; i < s.states.size(); ++i)
      bad = bad || differs(a.states[i][s.index], s.states[i]);
    if (a.w != nullptr)
      bad = bad || static_cast<double>(to_float(a.w[s.index])) !=
                       reference::nearest_bf16(static_cast<double>(a.p[s.index]));
    wrong += bad ? 1 : 0;
  }
  return wrong;
}

struct Result {
  UpdateKind kind;
  Index params;
  int threads;
  int rounds;
  Spread stream_gbps;
  Spread update_gbps;
  Spread ratio;  ///< of a round's update rate to the same round's stream rate
  Index samples;
  Index wrong;
};

struct Seconds {
  std::vector<double> stream;
  std::vector<double> update;
};

/// What one thread does. Thread 0 holds the clock; round 0 is the warm-up. Before the last update
/// thread 0 keeps samples of the state.
template <simd::Isa isa>
void work(const Arrays& arrays, const Part& part, int rounds, bool fetches_ahead,
          std::barrier<>& together, Seconds* seconds, std::vector<Sample>* samples) {
  touch(arrays, part);
  const codelets::StepBytes step = rule_of(arrays.kind()).step(kHyper, kLearningRate, kStep);
  const UpdateArrays mine = arrays.part(part.first, part.count);
  const UpdateStream stream =
      codelets::update_stream<isa>(arrays.kind(), arrays.states(), fetches_ahead);
  const codelets::UpdateKernel update = codelets::update_cpu<isa>(arrays.kind());
  const auto timed = [&](std::vector<double>* to, auto kernel) {
    together.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    kernel();
    together.arrive_and_wait();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (to != nullptr) to->push_back(elapsed.count());
  };
  for (int round = 0; round <= rounds; ++round) {
    const bool clock = seconds != nullptr && round > 0;
    timed(clock ? &seconds->stream : nullptr, [&] { stream(mine); });
    if (samples != nullptr && round == rounds) *samples = take_samples(arrays);
    timed(clock ? &seconds->update : nullptr, [&] { update(step.bytes, mine); });
  }
}

Result summarise(const UpdateKind& kind, Index params, int threads, int rounds,
                 const Seconds& seconds) {
  const double gigabytes = static_cast<double>(bytes_of(kind)) * static_cast<double>(params) * 1e-9;
  std::vector<double> stream;
  std::vector<double> update;
  std::vector<double> ratio;
  for (std::size_t i = 0; i < seconds.stream.size(); ++i) {
    stream.push_back(gigabytes / seconds.stream[i]);
    update.push_back(gigabytes / seconds.update[i]);
    ratio.push_back(seconds.stream[i] / seconds.update[i]);
  }
  return {kind, params, threads, rounds, spread_of(stream), spread_of(update), spread_of(ratio),
          0,    0};
}

Result measure(const UpdateKind& kind, Index params, int threads, int rounds, bool fetches_ahead,
               const std::vector<int>& processors) {
  const Arrays arrays(kind, params);
  std::barrier<> together(threads);
  Seconds seconds;
  std::vector<Sample> samples;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      pin(processors[static_cast<std::size_t>(t)]);
      simd::dispatch([&]<simd::Isa isa>() {
        work<isa>(arrays, part_of(params, threads, t), rounds, fetches_ahead, together,
                  t == 0 ? &seconds : nullptr, t == 0 ? &samples : nullptr);
      });
    });
  }
  for (std::thread& worker : workers) worker.join();
  Result result = summarise(kind, params, threads, rounds, seconds);
  result.samples = std::ssize(samples);
  result.wrong = count_wrong(std::move(samples), arrays);
  return result;
}

nlohmann::json to_json(const Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

double gparams_per_s(const Result& r) {
  return r.update_gbps.median / static_cast<double>(bytes_of(r.kind));
}

nlohmann::json to_json(const Result& r) {
  return {{"rule", rule_of(r.kind).name},
          {"gradient", name_of(r.kind.gradient)},
          {"working", name_of(r.kind.working)},
          {"bytes_per_param", bytes_of(r.kind)},
          {"params", r.params},
          {"threads", r.threads},
          {"rounds", r.rounds},
          {"stream_gbps", to_json(r.stream_gbps)},
          {"update_gbps", to_json(r.update_gbps)},
          {"update_gparams_per_s", gparams_per_s(r)},
          {"ratio", to_json(r.ratio)},
          {"samples", r.samples},
          {"wrong", r.wrong}};
}

void print_table(const std::vector<Result>& results) {
  fmt::print("fused updates ({}) and plain additions on the same arrays, GB/s: median (min-max)\n",
             simd::name_of(simd::active_isa()));
  fmt::print("{:>8} {:>4} {:>4} {:>11} {:>7} {:>6} {:>22} {:>22} {:>8} {:>18} {:>6}\n", "rule", "g",
             "w", "params", "threads", "rounds", "stream", "update", "Gparam/s", "update/stream",
             "wrong");
  const auto show = [](const Spread& s) {
    return fmt::format("{:.2f} ({:.2f}-{:.2f})", s.median, s.min, s.max);
  };
  for (const Result& r : results) {
    fmt::print("{:>8} {:>4} {:>4} {:>11} {:>7} {:>6} {:>22} {:>22} {:>8.3f} {:>18} {:>6}\n",
               rule_of(r.kind).name, name_of(r.kind.gradient), name_of(r.kind.working), r.params,
               r.threads, r.rounds, show(r.stream_gbps), show(r.update_gbps), gparams_per_s(r),
               show(r.ratio), r.wrong);
  }
}

struct Options {
  std::vector<std::string> rules{"adamw"};
  std::vector<std::string> gradients{"f32"};
  std::vector<std::string> workings{"f32"};
  std::vector<Index> params{10'000'000, 100'000'000};
  std::vector<int> threads{1, 2};
  int rounds = 15;
  bool stream_fetches = false;
  bool json = false;
};

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const codelets::RuleInfo& rule : codelets::all_rules()) names.emplace_back(rule.name);
  return names;
}

std::vector<UpdateKind> kinds_of(const Options& options) {
  const std::vector<std::string> known = rule_names();
  const auto type_of = [](const std::string& name) {
    return name == name_of(DType::kBF16) ? DType::kBF16 : DType::kF32;
  };
  std::vector<UpdateKind> kinds;
  for (const std::string& rule : options.rules)
    for (const std::string& gradient : options.gradients)
      for (const std::string& working : options.workings)
        kinds.push_back({std::find(known.begin(), known.end(), rule) - known.begin(),
                         type_of(gradient), type_of(working)});
  return kinds;
}

/// Returns the exit status: 1 when a result was wrong.
int run(const Options& options) {
  const std::vector<int> processors = usable_processors();
  std::vector<Result> results;
  for (const int threads : options.threads)
    expect(threads <= std::ssize(processors),
           "--threads {}: only {} processors may be used; pin fewer threads", threads,
           processors.size());
  for (const UpdateKind& kind : kinds_of(options))
    for (const Index params : options.params)
      for (const int threads : options.threads)
        results.push_back(
            measure(kind, params, threads, options.rounds, options.stream_fetches, processors));
  if (options.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Result& r : results) rows.push_back(to_json(r));
    std::cout << nlohmann::json{{"bench", "update"},
                                {"isa", simd::name_of(simd::active_isa())},
                                {"results", rows}}
              << '\n';
  } else {
    print_table(results);
  }
  return std::any_of(results.begin(), results.end(), [](const Result& r) { return r.wrong > 0; })
             ? 1
             : 0;
}

}  // namespace
}  // namespace dos::bench

int main(int argc, char** argv) {
  try {
    dos::apps::Parser app{"Speed of the update kernels beside the memory stream it is bound by"};
    dos::bench::Options options;
    app.add_option("--rule", options.rules, "Update rules, one or more")
        .delimiter(',')
        .check(dos::apps::one_of(dos::bench::rule_names()))
        .capture_default_str();
    const dos::apps::Check is_type = dos::apps::one_of({"f32", "bf16"});
    app.add_option("--gradient", options.gradients, "Types of the gradient, one or more")
        .delimiter(',')
        .check(is_type)
        .capture_default_str();
    app.add_option("--working", options.workings,
                   "Types of the working parameters, one or more; f32: the parameters themselves")
        .delimiter(',')
        .check(is_type)
        .capture_default_str();
    app.add_option("--params", options.params, "Parameters, one or more sizes")
        .delimiter(',')
        .check(dos::apps::positive())
        .capture_default_str();
    app.add_option("--threads", options.threads, "Threads, each pinned to a processor of its own")
        .delimiter(',')
        .check(dos::apps::positive())
        .capture_default_str();
    app.add_option("--rounds", options.rounds, "Measured rounds, after one that is not")
        .check(dos::apps::positive())
        .capture_default_str();
    app.add_flag("--stream-fetches", options.stream_fetches,
                 "The additions fetch ahead as the update does: a stricter comparison");
    app.add_flag("--json", options.json, "Print one JSON object instead of the table");
    if (const auto status = app.parse("update", argc, argv)) return *status;
    return dos::bench::run(options);
  } catch (const std::exception& e) {
    std::cerr << "update: " << e.what() << '\n';
    return 1;
  }
}
