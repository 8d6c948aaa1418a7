// SPDX-License-Identifier: Apache-2.0
// kernels_cuda: every CUDA kernel of a model beside the limits of the GPU: its copies and cuBLAS's
// largest product, measured in the same run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/init/init.hpp"
#include "codelets/matrix/gemm_cuda.hpp"
#include "codelets/reduce/reduce.hpp"
#include "kernels_cuda_cases.hpp"
#include "spread.hpp"

namespace {

using namespace dos::bench;
using dos::DType;
using dos::Index;

struct Options {
  std::string sizes = "gpt2-124m";
  Index sequences = 16;
  Index context = 1024;
  std::string type = "bf16";
  Index rounds = 20;
  std::string from;  ///< the first kernel; empty: all
  bool json = false;
};

/// A model whose layers are measured.
struct Model {
  const char* name;
  Index width;
  Index heads;
  Index vocabulary;
};
/// GPT-2's smallest, the one of whole steps (docs/performance/gpu.md), a model of 7 G parameters.
constexpr Model kModels[] = {
    {"gpt2-124m", 768, 12, 50257}, {"gpt3-1.3b", 2048, 16, 50257}, {"7b", 4096, 32, 32000}};

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

KernelSizes sizes_of(const Options& options) {
  const Model& model = *std::ranges::find(kModels, options.sizes, &Model::name);
  return {.sequences = options.sequences,
          .context = options.context,
          .width = model.width,
          .heads = model.heads,
          .vocabulary = model.vocabulary,
          .logit_rows = 1024};
}

/// What the GPU does at best, by its own copies and cuBLAS.
struct Limits {
  double bytes_per_s;
  double flops_per_s;
};

/// One round has no others before it: a profiler looks at each.
Spread measure(GpuTimer& timer, Index rounds, const std::function<const char*()>& work) {
  const Index warm_ups = std::min<Index>(3, rounds - 1);
  for (Index warm_up = 0; warm_up < warm_ups; ++warm_up) timer.milliseconds(work);
  std::vector<double> times;
  for (Index i = 0; i < rounds; ++i) times.push_back(timer.milliseconds(work));
  return spread_of(times);
}

double copy_rate(GpuTimer& timer, Index rounds) {
  const Index bytes = Index{1} << 30;
  const GpuMemory from(bytes);
  const GpuMemory to(bytes);
  const Spread ms = measure(timer, rounds, [&] { return timer.copy(from, to, bytes); });
  return 2e3 * static_cast<double>(bytes) / ms.median;
}

double product_rate(GpuTimer& timer, DType type, Index rounds) {
  constexpr Index kSize = 8192;
  const GpuMemory a(kSize * kSize * size_of(type));
  const GpuMemory b(kSize * kSize * size_of(type));
  const GpuMemory c(kSize * kSize * size_of(type));
  // A GPU's clock falls with the power that its numbers take: random ones, as a model's are.
  for (const GpuMemory* each : {&a, &b}) {
    const char* fault = dos::codelets::init_random_cuda(
        timer.context(), type, {.seed = 1, .stream = 2, .first_index = 0, .spread = 1},
        kSize * kSize, each->get());
    dos::expect(fault == nullptr, "random numbers on the GPU: {}", fault == nullptr ? "" : fault);
  }
  const Spread ms = measure(timer, rounds, [&] {
    return dos::codelets::product_cuda(timer.context(), kSize, kSize, kSize, {a.get(), type, kSize},
                                       {b.get(), type, kSize, true},
                                       {.elements = c.get(), .type = type, .stride = kSize});
  });
  return 2e3 * std::pow(static_cast<double>(kSize), 3) / ms.median;
}

/// Whether every element of a case's output is a finite number. The tests say whether it is right.
bool is_finite(GpuTimer& timer, const KernelCase& c, DType type) {
  if (c.output == nullptr) return true;
  const GpuMemory sum(sizeof(double));
  const char* fault = nullptr;
  timer.milliseconds([&] {
    return fault = dos::codelets::sum_of_squares_cuda(timer.context(), type,
                                                      c.output->bytes() / size_of(type),
                                                      c.output->get(), sum.as<double>());
  });
  double value = 0;
  sum.copy_to(&value);
  return std::isfinite(value);
}

nlohmann::json row_of(const KernelCase& c, const Spread& ms, const Limits& limits, bool finite) {
  const bool memory = c.bytes > 0;
  const double rate = 1e3 * (memory ? c.bytes : c.flops) / ms.median;
  return {{"kernel", c.name},
          {"ms", ms.median},
          {"ms_least", ms.min},
          {"ms_most", ms.max},
          {memory ? "gb_per_s" : "gflop_per_s", rate / 1e9},
          {"of_limit", rate / (memory ? limits.bytes_per_s : limits.flops_per_s)},
          {"finite", finite}};
}

/// A case's row, whatever becomes of it: the others are measured all the same.
nlohmann::json measured(GpuTimer& timer, const Options& options, const KernelCase& c,
                        const Limits& limits, DType type) {
  try {
    if (c.is_left_out && c.is_left_out())
      return {{"kernel", c.name}, {"left_out", dos::codelets::attention_refusals()}};
    const Spread ms = measure(timer, options.rounds, c.run);
    return row_of(c, ms, limits, is_finite(timer, c, type));
  } catch (const std::exception& error) {
    nlohmann::json row{{"kernel", c.name}, {"fault", error.what()}};
    if (!gpu_is_usable()) row["useless"] = true;
    return row;
  }
}

/// A line each, as soon as it is known: what comes next may hang.
void print_line(const nlohmann::json& record, bool json) {
  if (json) {
    fmt::print("{}\n", record.dump());
  } else if (record.contains("gpu")) {
    fmt::print("{}, {}\ncopy {:.0f} GB/s, product of 8192 {:.0f} GFLOP/s\n",
               record["gpu"].get<std::string>(), record["type"].get<std::string>(),
               record["copy_gb_per_s"].get<double>(), record["product_gflop_per_s"].get<double>());
    fmt::print("{:<40} {:>9} {:>22} {:>10} {:>9}\n", "kernel", "ms", "(least to most)", "of limit",
               "finite");
  } else if (record.contains("ms")) {
    fmt::print("{:<40} {:>9.4f} {:>22} {:>10.2f} {:>9}\n", record["kernel"].get<std::string>(),
               record["ms"].get<double>(),
               fmt::format("({:.4f} to {:.4f})", record["ms_least"].get<double>(),
                           record["ms_most"].get<double>()),
               record["of_limit"].get<double>(), record["finite"].get<bool>() ? "yes" : "NO");
  } else {
    const char* what = record.contains("fault") ? "fault" : "left_out";
    fmt::print("{:<40} {}: {}\n", record["kernel"].get<std::string>(), what,
               record[what].get<std::string>());
  }
  std::fflush(stdout);
}

std::vector<std::string> names_of(const std::vector<KernelCase>& cases) {
  std::vector<std::string> names;
  for (const KernelCase& c : cases) names.push_back(c.name);
  return names;
}

int run(const Options& options) {
  const DType type = options.type == "bf16" ? DType::kBF16 : DType::kF32;
  const std::string gpu = gpu_name();
  GpuTimer timer;
  const Limits limits{copy_rate(timer, options.rounds), product_rate(timer, type, options.rounds)};
  const KernelCases kernels(sizes_of(options), type, timer.context());
  const std::vector<KernelCase>& cases = kernels.cases();
  const auto first = options.from.empty()
                         ? cases.begin()
                         : std::ranges::find(cases, options.from, &KernelCase::name);
  dos::expect(first != cases.end(), "--from '{}': no kernel has this name; known: {}", options.from,
              fmt::join(names_of(cases), "; "));
  print_line({{"gpu", gpu},
              {"sizes", options.sizes},
              {"sequences", options.sequences},
              {"context", options.context},
              {"type", options.type},
              {"copy_gb_per_s", limits.bytes_per_s / 1e9},
              {"product_gflop_per_s", limits.flops_per_s / 1e9},
              {"cases", names_of(cases)}},
             options.json);
  bool good = true;
  for (auto c = first; c != cases.end(); ++c) {
    const nlohmann::json row = measured(timer, options, *c, limits, type);
    print_line(row, options.json);
    good = good && !row.contains("fault") && row.value("finite", true);
    if (row.contains("useless")) break;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  dos::apps::Parser app{
      "Times every CUDA kernel of a model beside copies and cuBLAS's largest product"};
  Options options;
  app.add_option("--sizes", options.sizes, "whose layers")
      .check(dos::apps::one_of(model_names()))
      .capture_default_str();
  app.add_option("--batch", options.sequences, "sequences")
      .check(dos::apps::positive())
      .capture_default_str();
  app.add_option("--context", options.context, "tokens of a sequence")
      .check(dos::apps::positive())
      .capture_default_str();
  app.add_option("--type", options.type, "element type")
      .check(dos::apps::one_of({"bf16", "f32"}))
      .capture_default_str();
  app.add_option("--rounds", options.rounds, "timed runs of each kernel; 1: for a profiler")
      .check(dos::apps::positive())
      .capture_default_str();
  app.add_option("--from", options.from,
                 "leave out kernels before this one: after a fault that made the GPU useless");
  app.add_flag("--json", options.json,
               "a JSON object a line: the limits, with the names of all kernels, then each kernel");
  if (const auto status = app.parse("kernels_cuda", argc, argv)) return *status;
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernels_cuda: {}\n", error.what());
    return 1;
  }
}
