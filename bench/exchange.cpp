// SPDX-License-Identifier: Apache-2.0
// exchange: what ranks need to add gradients and hand parameters out, by messages between owners as
// training does, and by MPI's collectives (bench/README.md). Started by mpiexec.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "ranks/exchange.hpp"
#include "ranks/gather.hpp"
#include "spread.hpp"

namespace {

using dos::Index;
using Clock = std::chrono::steady_clock;
using Direction = dos::platform::MpiMessage::Direction;
using Values = std::vector<float>;

struct Options {
  Index subgroups = 16;
  Index params = 1'000'000;
  Index rounds = 9;
  bool json = false;
};

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

void check(int code, const char* call) {
  dos::expect(code == MPI_SUCCESS, "{} failed (error {})", call, code);
}

/// The gradients of this rank and the parameters that come back, here their sum over the ranks.
/// Whole numbers: every order of additions gives the same.
class Arrays {
 public:
  Arrays(const Options& options, Index rank, Index ranks)
      : rank_(rank), ranks_(ranks), params_(options.params) {
    for (Index s = 0; s < options.subgroups; ++s) {
      Values gradient(at(params_));
      for (Index i = 0; i < params_; ++i)
        gradient[at(i)] = static_cast<float>(pattern(s, i) + rank);
      gradients.push_back(std::move(gradient));
      parameters.emplace_back(at(params_));
    }
  }

  [[nodiscard]] Index rank() const { return rank_; }
  [[nodiscard]] Index ranks() const { return ranks_; }
  [[nodiscard]] Index params() const { return params_; }
  [[nodiscard]] Index subgroups() const { return std::ssize(gradients); }
  [[nodiscard]] Index owner(Index subgroup) const { return subgroup % ranks_; }

  void clear() {
    for (Values& values : parameters) std::ranges::fill(values, 0.0F);
  }
  /// Throws Error unless all parameters have arrived.
  void expect_sums() const {
    for (Index s = 0; s < subgroups(); ++s)
      for (Index i = 0; i < params_; ++i) {
        const Index sum = ranks_ * pattern(s, i) + ranks_ * (ranks_ - 1) / 2;
        dos::expect(parameters[at(s)][at(i)] == static_cast<float>(sum),
                    "parameter {} of subgroup {} is {} instead of {}: these timings are of no "
                    "exchange",
                    i, s, parameters[at(s)][at(i)], sum);
      }
  }

  std::vector<Values> gradients;   ///< by subgroup
  std::vector<Values> parameters;  ///< by subgroup

 private:
  static Index pattern(Index subgroup, Index i) { return subgroup + i % 7; }
  Index rank_;
  Index ranks_;
  Index params_;
};

std::span<std::byte> bytes_of(Values& values) {
  return std::as_writable_bytes(std::span(values));
}

/// As training does: gradients to the owner, which adds them in a fixed order while others arrive,
/// and its parameters to all.
void by_messages(dos::ranks::Exchange& exchange, Arrays& arrays, std::vector<Values>& received) {
  using dos::ranks::Kind;
  const Index me = arrays.rank();
  const Index others = arrays.ranks() - 1;
  std::vector<dos::ranks::Arrival> reduced(at(arrays.subgroups()));
  std::vector<dos::ranks::Arrival> sent(at(arrays.subgroups()));
  std::size_t next = 0;
  for (Index s = 0; s < arrays.subgroups(); ++s) {
    const Index owner = arrays.owner(s);
    if (owner != me) {
      exchange.post(
          {{Direction::kSend, bytes_of(arrays.gradients[at(s)]), owner, {Kind::kGradient, s, 0}}},
          reduced[at(s)]);
      exchange.post({{Direction::kReceive,
                      bytes_of(arrays.parameters[at(s)]),
                      owner,
                      {Kind::kParameter, s, 0}}},
                    sent[at(s)]);
      continue;
    }
    std::vector<dos::ranks::Message> receives;
    for (Index i = 1; i <= others; ++i)
      receives.push_back({Direction::kReceive,
                          bytes_of(received[next++]),
                          (me + i) % arrays.ranks(),
                          {Kind::kGradient, s, 0}});
    exchange.post(std::move(receives), reduced[at(s)]);
  }
  next = 0;
  for (Index s = me; s < arrays.subgroups(); s += arrays.ranks()) {
    Values& sum = arrays.parameters[at(s)];
    reduced[at(s)].wait();
    std::ranges::copy(arrays.gradients[at(s)], sum.begin());
    for (Index i = 0; i < others; ++i) {
      const Values& theirs = received[next++];
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += theirs[k];
    }
    std::vector<dos::ranks::Message> sends;
    for (Index i = 1; i <= others; ++i)
      sends.push_back(
          {Direction::kSend, bytes_of(sum), (me + i) % arrays.ranks(), {Kind::kParameter, s, 0}});
    exchange.post(std::move(sends), sent[at(s)]);
  }
  for (Index s = 0; s < arrays.subgroups(); ++s) {
    reduced[at(s)].wait();
    sent[at(s)].wait();
  }
}

/// How whoever waits for MPI spends the time: as the thread of training does, or looking on.
enum class Waiting { kNaps, kPolls };

void wait_for(MPI_Request& request, Waiting waiting) {
  std::chrono::microseconds nap{20};
  for (int is_over = 0;;) {
    check(MPI_Test(&request, &is_over, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_over != 0) return;
    if (waiting == Waiting::kPolls) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min<std::chrono::microseconds>(2 * nap, std::chrono::milliseconds(1));
  }
}

/// Every rank owns a part of each subgroup.
void by_parts(Arrays& arrays, std::vector<Values>& parts, Waiting waiting) {
  const int count = static_cast<int>(arrays.params() / arrays.ranks());
  std::vector<MPI_Request> reductions(at(arrays.subgroups()));
  std::vector<MPI_Request> gathers(at(arrays.subgroups()));
  for (Index s = 0; s < arrays.subgroups(); ++s)
    check(MPI_Ireduce_scatter_block(arrays.gradients[at(s)].data(), parts[at(s)].data(), count,
                                    MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &reductions[at(s)]),
          "MPI_Ireduce_scatter_block");
  for (Index s = 0; s < arrays.subgroups(); ++s) {
    wait_for(reductions[at(s)], waiting);
    check(MPI_Iallgather(parts[at(s)].data(), count, MPI_FLOAT, arrays.parameters[at(s)].data(),
                         count, MPI_FLOAT, MPI_COMM_WORLD, &gathers[at(s)]),
          "MPI_Iallgather");
  }
  for (MPI_Request& request : gathers) wait_for(request, waiting);
}

/// Owners of whole subgroups, as with messages.
void by_roots(Arrays& arrays, Waiting waiting) {
  const int count = static_cast<int>(arrays.params());
  std::vector<MPI_Request> reductions(at(arrays.subgroups()));
  std::vector<MPI_Request> broadcasts(at(arrays.subgroups()));
  for (Index s = 0; s < arrays.subgroups(); ++s)
    check(MPI_Ireduce(arrays.gradients[at(s)].data(), arrays.parameters[at(s)].data(), count,
                      MPI_FLOAT, MPI_SUM, static_cast<int>(arrays.owner(s)), MPI_COMM_WORLD,
                      &reductions[at(s)]),
          "MPI_Ireduce");
  for (Index s = 0; s < arrays.subgroups(); ++s) {
    wait_for(reductions[at(s)], waiting);
    check(MPI_Ibcast(arrays.parameters[at(s)].data(), count, MPI_FLOAT,
                     static_cast<int>(arrays.owner(s)), MPI_COMM_WORLD, &broadcasts[at(s)]),
          "MPI_Ibcast");
  }
  for (MPI_Request& request : broadcasts) wait_for(request, waiting);
}

template <class Function>
double milliseconds(const Function& function) {
  const auto start = Clock::now();
  function();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Milliseconds of the slowest rank, which counts.
double slowest(double mine) {
  double most = 0;
  check(MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return most;
}

constexpr std::array kWays{"messages", "reduce-scatter, all-gather", "the same, polling",
                           "reduce, broadcast", "the same, polling"};

/// One exchange of everything in each way, by kWays.
std::array<double, kWays.size()> run_round(dos::platform::MpiEnvironment& mpi, Arrays& arrays,
                                           std::vector<Values>& received,
                                           std::vector<Values>& parts) {
  std::array<double, kWays.size()> times{};
  arrays.clear();
  {
    dos::ranks::Exchange exchange(mpi, {.numbers = arrays.subgroups()});
    dos::ranks::gather_texts(exchange, "");
    times[0] = milliseconds([&] { by_messages(exchange, arrays, received); });
    exchange.close();
  }
  times[0] = slowest(times[0]);
  arrays.expect_sums();
  for (std::size_t way = 1; way < kWays.size(); ++way) {
    const Waiting waiting = way % 2 == 1 ? Waiting::kNaps : Waiting::kPolls;
    arrays.clear();
    check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    times[way] = slowest(milliseconds(
        [&] { way < 3 ? by_parts(arrays, parts, waiting) : by_roots(arrays, waiting); }));
    arrays.expect_sums();
  }
  return times;
}

void report(const Options& options, Index ranks,
            const std::vector<std::array<double, kWays.size()>>& rounds) {
  nlohmann::json rows;
  for (std::size_t way = 0; way < kWays.size(); ++way) {
    std::vector<double> times;
    std::vector<double> ratios;
    for (const auto& round : rounds) {
      times.push_back(round[way]);
      ratios.push_back(round[way] / round[0]);
    }
    const auto time = dos::bench::spread_of(times);
    const auto ratio = dos::bench::spread_of(ratios);
    if (options.json)
      rows.push_back({{"way", kWays[way]},
                      {"polls", way != 0 && way % 2 == 0},
                      {"ranks", ranks},
                      {"ms", time.median},
                      {"ratio", ratio.median},
                      {"least", ratio.min},
                      {"most", ratio.max}});
    else
      fmt::print("{:<28} {:9.2f} ms  {:6.2f} ({:.2f} to {:.2f})\n", kWays[way], time.median,
                 ratio.median, ratio.min, ratio.max);
  }
  if (options.json) fmt::print("{}\n", rows.dump());
}

void measure(dos::platform::MpiEnvironment& mpi, const Options& options) {
  dos::expect(options.params % mpi.size() == 0,
              "--params {} is no multiple of the {} ranks: every rank has an equal part of a "
              "subgroup",
              options.params, mpi.size());
  Arrays arrays(options, mpi.rank(), mpi.size());
  const Index owned = (options.subgroups - mpi.rank() + mpi.size() - 1) / mpi.size();
  std::vector<Values> received(at(std::max<Index>(0, owned) * (mpi.size() - 1)),
                               Values(at(options.params)));
  std::vector<Values> parts(at(options.subgroups), Values(at(options.params / mpi.size())));
  run_round(mpi, arrays, received, parts);
  std::vector<std::array<double, kWays.size()>> rounds;
  for (Index i = 0; i < options.rounds; ++i)
    rounds.push_back(run_round(mpi, arrays, received, parts));
  if (mpi.rank() == 0) report(options, mpi.size(), rounds);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  dos::apps::Parser app(
      "Times the exchange of gradients and parameters between ranks; start with mpiexec.");
  app.add_option("--subgroups", options.subgroups, "in turn of each rank")
      .check(dos::apps::positive());
  app.add_option("--params", options.params, "of a subgroup").check(dos::apps::positive());
  app.add_option("--rounds", options.rounds).check(dos::apps::positive());
  app.add_flag("--json", options.json);
  if (const auto status = app.parse("exchange", argc, argv)) return *status;
  try {
    dos::platform::MpiEnvironment mpi(argc, argv);
    measure(mpi, options);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "exchange: error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
