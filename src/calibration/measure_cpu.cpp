// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "calibration/measured_rates.hpp"
#include "codelets/linear/linear_codelet.hpp"

namespace dos::calibration {
namespace {

/// A product as in a block of a GPT of some hundred million parameters.
constexpr Index kTokens = 512;
constexpr Index kWidth = 1024;
/// One-parameter updates: enough of them to keep a worker busy while they are submitted.
constexpr Index kSmallTasks = 64;
/// A latency needs no long readings, and pending tasks should stay few.
constexpr double kLatencySeconds = 0.05;

/// Forward products of equal size, one a CPU worker.
class Products {
 public:
  explicit Products(rt::Submitter& submitter)
      : submitter_(submitter),
        weights_(submitter.session(), {.name = "weights", .count = kWidth * kWidth}),
        bias_(submitter.session(), {.name = "bias", .count = kWidth}) {
    for (const rt::Handle* handle : {&weights_, &bias_}) fill(*handle);
    for (Index i = 0; i < submitter.session().cpu_workers(); ++i) {
      inputs_.push_back(make("x"));
      outputs_.push_back(make("y"));
      fill(*inputs_.back());
    }
  }

  void submit() const {
    const codelets::MatrixRef weights{
        .blocking = {.rows = kWidth, .columns = kWidth, .rows_per_block = kWidth},
        .blocks = {&weights_}};
    const codelets::SliceRef bias{.handle = &bias_, .offset = 0};
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      codelets::submit<codelets::LinearForward>(
          submitter_, {.x = *inputs_[i], .bias = bias, .y = *outputs_[i], .w = weights}, {kTokens},
          {.worker = rt::kAnyCpuWorker});
  }

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(kTokens * kWidth * kWidth * std::ssize(inputs_));
  }

 private:
  std::unique_ptr<rt::Handle> make(const char* name) const {
    return std::make_unique<rt::Handle>(submitter_.session(),
                                        rt::HandleSpec{.name = name, .count = kTokens * kWidth});
  }
  static void fill(const rt::Handle& handle) {
    constexpr float kSmall = 1e-3F;
    std::ranges::fill(rt::HostAccess(handle, rt::Mode::kWrite).as<float>(), kSmall);
  }

  rt::Submitter& submitter_;
  rt::Handle weights_;
  rt::Handle bias_;
  std::vector<std::unique_ptr<rt::Handle>> inputs_;
  std::vector<std::unique_ptr<rt::Handle>> outputs_;
};

/// Seconds a task from the rate of tasks.
Result task_latency(const Meter& meter, const codelets::UpdateKind& kind) {
  Effort effort = meter.effort();
  effort.least_seconds = std::min(effort.least_seconds, kLatencySeconds);
  const UpdateSet small(meter.submitter(), kind, kSmallTasks, 1);
  const int worker = rt::cpu_workers().front();
  const Summary tasks =
      Meter(meter.submitter(), effort).rate(kSmallTasks, [&] { small.submit_updates(worker); });
  Result result = measured("node.task_latency", tasks,
                           "updates of one parameter on one worker, submission included");
  result.value = 1 / result.value;
  return result;
}

}  // namespace

std::string name_of(const codelets::UpdateKind& kind) {
  return fmt::format("{} {}.{}", codelets::all_rules()[static_cast<std::size_t>(kind.rule)].name,
                     dos::name_of(kind.gradient), dos::name_of(kind.working));
}

UpdateSet make_cpu_set(rt::Submitter& submitter, const codelets::UpdateKind& kind,
                       const Sizes& sizes) {
  // With four a worker, one that ends late delays the rest by a fraction.
  constexpr Index kEach = 4;
  const Index params = std::max<Index>(1, sizes.cpu_bytes / stored_bytes_per_parameter(kind));
  const Index least = kEach * submitter.session().cpu_workers();
  const Index subgroups = std::max(least, ceil_div(params, sizes.cpu_params));
  return {submitter, kind, subgroups, std::max<Index>(1, params / subgroups)};
}

std::vector<Result> measure_cpu(const Meter& meter, const codelets::UpdateKind& kind,
                                const UpdateSet& set) {
  const Index workers = meter.session().cpu_workers();
  const std::string data =
      fmt::format("{} subgroups of {:.3g} M parameters, {:.3g} B each", set.subgroups(),
                  set.params() / 1e6 / static_cast<double>(set.subgroups()),
                  set.traffic_bytes() / set.params());
  const int one = rt::cpu_workers().front();
  std::vector<Result> results;
  results.push_back(measured(
      "cpu.update_rate", meter.rate(set.params(), [&] { set.submit_updates(rt::kAnyCpuWorker); }),
      fmt::format("fused update {}, {} workers, {}", name_of(kind), workers, data)));
  results.push_back(measured("cpu.worker_rate",
                             meter.rate(set.params(), [&] { set.submit_updates(one); }),
                             "the same on one worker"));
  results.push_back(measured(
      "dram.bandwidth", meter.rate(set.traffic_bytes(), [&] { set.submit_streams(); }),
      fmt::format("additions over the same arrays, read and written, {} workers", workers)));
  const Products products(meter.submitter());
  results.push_back(measured(
      "node.training_rate", meter.rate(products.flops(), [&] { products.submit(); }),
      fmt::format("FP32 products {} x {} x {} on {} CPU workers, where this version runs forward "
                  "and backward",
                  kTokens, kWidth, kWidth, workers)));
  results.push_back(task_latency(meter, kind));
  return results;
}

}  // namespace dos::calibration
