// SPDX-License-Identifier: Apache-2.0
// The AdamW kernel beside plain additions over the same arrays, round about, in one process: how
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
#include <memory>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "codelets/update/adamw.hpp"
#include "reference/adamw.hpp"
#include "spread.hpp"
#include "update_stream.hpp"

namespace dos::bench {
namespace {

constexpr double kBytesPerParameter = 28;
constexpr Index kSamples = 1000;
constexpr double kEps = 0x1p-23;
constexpr reference::AdamW kRule{
    .lr = 1e-3, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F, .weight_decay = 0.1F, .step = 10};

codelets::AdamWStep step_of(const reference::AdamW& rule) {
  return {.lr = static_cast<float>(rule.lr),
          .beta1 = static_cast<float>(rule.beta1),
          .beta2 = static_cast<float>(rule.beta2),
          .eps = static_cast<float>(rule.eps),
          .weight_decay = static_cast<float>(rule.weight_decay),
          .inv_bias1 = static_cast<float>(1 / (1 - std::pow(rule.beta1, rule.step))),
          .inv_bias2 = static_cast<float>(1 / (1 - std::pow(rule.beta2, rule.step)))};
}

/// The four arrays, in memory that no thread has touched yet.
class Arrays {
 public:
  explicit Arrays(Index count)
      : g(allocate(0, count)),
        p(allocate(1, count)),
        m(allocate(2, count)),
        v(allocate(3, count)) {}

 private:
  std::array<std::unique_ptr<float[]>, 4> stores_;

  float* allocate(std::size_t store, Index count) {
    stores_[store].reset(new float[static_cast<std::size_t>(count)]);
    return stores_[store].get();
  }

 public:
  float* const g;
  float* const p;
  float* const m;
  float* const v;
};

/// A thread's share of the parameters.
struct Part {
  Index first;
  Index count;
};

Part part_of(Index params, int threads, int thread) {
  const Index first = params * thread / threads;
  return {first, params * (thread + 1) / threads - first};
}

/// All values positive, so that the additions of the stream keep v a valid second moment.
void touch(const Arrays& a, const Part& part) {
  for (Index i = part.first; i < part.first + part.count; ++i) {
    const auto wave = static_cast<float>(i % 1021) / 1021.0F;
    a.g[i] = 1e-3F * (wave + 0.5F);
    a.p[i] = wave - 0.5F;
    a.m[i] = 1e-3F * wave;
    a.v[i] = 1e-6F * wave;
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
  reference::AdamWState before;
};

std::vector<Sample> take_samples(const Arrays& a, Index params) {
  std::vector<Sample> samples;
  const Index stride = std::max<Index>(1, params / kSamples);
  for (Index i = 0; i < params; i += stride) samples.push_back({i, {a.p[i], a.m[i], a.v[i]}});
  if (params > 0)
    samples.push_back({params - 1, {a.p[params - 1], a.m[params - 1], a.v[params - 1]}});
  return samples;
}

/// Samples that differ from the reference by more than rounding: half an eps for each of m's 4, v's
/// 6 and the quotient's 16 roundings (no terms cancel: all are positive), decay's 3 and p's 1.
Index count_wrong(const std::vector<Sample>& samples, const Arrays& a) {
  const auto differs = [](float got, double expected, double tolerance) {
    return !(std::abs(static_cast<double>(got) - expected) <= tolerance);
  };
  Index wrong = 0;
  for (const Sample& s : samples) {
    const auto after = reference::adamw(kRule, s.before, a.g[s.index]);
    const double decay = kRule.lr * kRule.weight_decay * std::abs(s.before.p);
    const double moved = std::abs(after.p - s.before.p) + decay;
    const double tolerance = kEps * (8 * moved + 2 * decay + 0.5 * std::abs(after.p));
    const bool bad = differs(a.p[s.index], after.p, tolerance) ||
                     differs(a.m[s.index], after.m, 2 * kEps * after.m) ||
                     differs(a.v[s.index], after.v, 3 * kEps * after.v);
    wrong += bad ? 1 : 0;
  }
  return wrong;
}

struct Result {
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
void work(const Arrays& a, Index params, const Part& part, int rounds, std::barrier<>& together,
          Seconds* seconds, std::vector<Sample>* samples) {
  touch(a, part);
  const codelets::AdamWStep step = step_of(kRule);
  const auto timed = [&](std::vector<double>* to, auto kernel) {
    together.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    kernel(part.count, a.g + part.first, a.p + part.first, a.m + part.first, a.v + part.first);
    together.arrive_and_wait();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (to != nullptr) to->push_back(elapsed.count());
  };
  for (int round = 0; round <= rounds; ++round) {
    const bool clock = seconds != nullptr && round > 0;
    timed(clock ? &seconds->stream : nullptr, update_stream<isa>);
    if (samples != nullptr && round == rounds) *samples = take_samples(a, params);
    timed(clock ? &seconds->update : nullptr,
          [&](Index count, const float* g, float* p, float* m, float* v) {
            codelets::adamw_cpu<isa>(step, count, 1.0F, g, p, m, v);
          });
  }
}

Result summarise(Index params, int threads, int rounds, const Seconds& seconds) {
  const double gigabytes = kBytesPerParameter * static_cast<double>(params) * 1e-9;
  std::vector<double> stream;
  std::vector<double> update;
  std::vector<double> ratio;
  for (std::size_t i = 0; i < seconds.stream.size(); ++i) {
    stream.push_back(gigabytes / seconds.stream[i]);
    update.push_back(gigabytes / seconds.update[i]);
    ratio.push_back(seconds.stream[i] / seconds.update[i]);
  }
  return {params, threads, rounds, spread_of(stream), spread_of(update), spread_of(ratio), 0, 0};
}

Result measure(Index params, int threads, int rounds, const std::vector<int>& processors) {
  const Arrays arrays(params);
  std::barrier<> together(threads);
  Seconds seconds;
  std::vector<Sample> samples;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      pin(processors[static_cast<std::size_t>(t)]);
      simd::dispatch([&]<simd::Isa isa>() {
        work<isa>(arrays, params, part_of(params, threads, t), rounds, together,
                  t == 0 ? &seconds : nullptr, t == 0 ? &samples : nullptr);
      });
    });
  }
  for (std::thread& worker : workers) worker.join();
  Result result = summarise(params, threads, rounds, seconds);
  result.samples = std::ssize(samples);
  result.wrong = count_wrong(samples, arrays);
  return result;
}

nlohmann::json to_json(const Spread& s) {
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

nlohmann::json to_json(const Result& r) {
  return {{"params", r.params},
          {"threads", r.threads},
          {"rounds", r.rounds},
          {"stream_gbps", to_json(r.stream_gbps)},
          {"update_gbps", to_json(r.update_gbps)},
          {"update_gparams_per_s", r.update_gbps.median / kBytesPerParameter},
          {"ratio", to_json(r.ratio)},
          {"samples", r.samples},
          {"wrong", r.wrong}};
}

void print_table(const std::vector<Result>& results) {
  fmt::print("AdamW update ({}) and plain additions on the same arrays, GB/s: median (min-max)\n",
             simd::name_of(simd::active_isa()));
  fmt::print("{:>11} {:>7} {:>6} {:>22} {:>22} {:>8} {:>18} {:>6}\n", "params", "threads", "rounds",
             "stream", "update", "Gparam/s", "update/stream", "wrong");
  const auto show = [](const Spread& s) {
    return fmt::format("{:.2f} ({:.2f}-{:.2f})", s.median, s.min, s.max);
  };
  for (const Result& r : results) {
    fmt::print("{:>11} {:>7} {:>6} {:>22} {:>22} {:>8.3f} {:>18} {:>6}\n", r.params, r.threads,
               r.rounds, show(r.stream_gbps), show(r.update_gbps),
               r.update_gbps.median / kBytesPerParameter, show(r.ratio), r.wrong);
  }
}

struct Options {
  std::vector<Index> params{10'000'000, 100'000'000};
  std::vector<int> threads{1, 2};
  int rounds = 15;
  bool json = false;
};

/// Returns the exit status: 1 when a result was wrong.
int run(const Options& options) {
  const std::vector<int> processors = usable_processors();
  std::vector<Result> results;
  for (const Index params : options.params) {
    for (const int threads : options.threads) {
      expect(threads <= std::ssize(processors),
             "--threads {}: only {} processors may be used; pin fewer threads", threads,
             processors.size());
      results.push_back(measure(params, threads, options.rounds, processors));
    }
  }
  if (options.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Result& r : results) rows.push_back(to_json(r));
    std::cout << nlohmann::json{{"bench", "update"},
                                {"isa", simd::name_of(simd::active_isa())},
                                {"bytes_per_param", kBytesPerParameter},
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
    CLI::App app{"Speed of the AdamW kernel beside the memory stream it is bound by"};
    dos::bench::Options options;
    app.add_option("--params", options.params, "Parameters, one or more sizes")
        ->delimiter(',')
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--threads", options.threads, "Threads, each pinned to a processor of its own")
        ->delimiter(',')
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--rounds", options.rounds, "Measured rounds, after one that is not")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_flag("--json", options.json, "Print one JSON object instead of the table");
    CLI11_PARSE(app, argc, argv);
    return dos::bench::run(options);
  } catch (const std::exception& e) {
    std::cerr << "update: " << e.what() << '\n';
    return 1;
  }
}
