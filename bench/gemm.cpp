// SPDX-License-Identifier: Apache-2.0
// gemm: how fast the libraries do the matrix products of a training step, one call a worker: the
// least time that the step can take.
#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "codelets/matrix/gemm.hpp"
#include "codelets/matrix/products.hpp"
#include "models/family.hpp"
#include "platform/blas.hpp"
#include "spread.hpp"

namespace {

using dos::Index;
using dos::bench::Spread;
using dos::bench::spread_of;

struct Options {
  std::string model = "gpt2-124m";
  Index tokens = 1024;
  Index workers = 2;
  Index rounds = 7;
  std::string products = "auto";
  bool json = false;
};

/// c[rows, columns] = op(a)[rows, inner] op(b)[inner, columns], `calls` times a lane and step.
struct Product {
  std::string name;
  Index rows, columns, inner;
  CBLAS_TRANSPOSE a, b;
  Index calls;

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(rows * columns) * static_cast<double>(inner);
  }
};

/// The three products of a linear layer [in -> out] over `tokens` tokens.
void add_linear(std::vector<Product>& products, const std::string& name, Index tokens, Index in,
                Index out, Index calls) {
  products.push_back({name + " forward", tokens, out, in, CblasNoTrans, CblasTrans, calls});
  products.push_back({name + " backward data", tokens, in, out, CblasNoTrans, CblasNoTrans, calls});
  products.push_back({name + " backward weight", out, in, tokens, CblasTrans, CblasNoTrans, calls});
}

/// Of one lane: each matrix of a block, as often as there are blocks, and the logits. Attention's
/// products are small and are not here.
std::vector<Product> products_of(const dos::shape::ModelConfig& model, Index tokens) {
  constexpr std::string_view kBlock = "blocks.0.";
  constexpr std::string_view kWeight = ".weight";
  std::vector<Product> products;
  for (const auto& spec : dos::shape::find_family(model.architecture).parameters(model)) {
    if (!spec.is_matrix() || !spec.name.starts_with(kBlock)) continue;
    const std::string name =
        spec.name.substr(kBlock.size(), spec.name.size() - kBlock.size() - kWeight.size());
    add_linear(products, name, tokens, spec.columns, spec.rows, model.layers);
  }
  add_linear(products, "logits", tokens, model.width, model.vocabulary, 1);
  return products;
}

/// One worker's matrices: a and b hold small whole numbers, so that every sum is exact.
class Matrices {
 public:
  explicit Matrices(const Product& product)
      : product_(product),
        a_(size(product.rows * product.inner)),
        b_(size(product.inner * product.columns)),
        c_(size(product.rows * product.columns)) {
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<float>(i % 7) - 3;
    for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<float>(i % 5) - 2;
  }

  void multiply() {
    const bool a_turned = product_.a == CblasTrans;
    const bool b_turned = product_.b == CblasTrans;
    dos::codelets::multiply(
        product_.rows, product_.columns, product_.inner,
        dos::codelets::MatrixView<float>{a_.data(), a_turned ? product_.rows : product_.inner,
                                         product_.a},
        dos::codelets::MatrixView<float>{b_.data(), b_turned ? product_.inner : product_.columns,
                                         product_.b},
        false, c_.data(), product_.columns);
  }

  /// Whether the last element is the sum that it should be.
  [[nodiscard]] bool is_right() const {
    const Index row = product_.rows - 1;
    const Index column = product_.columns - 1;
    double sum = 0;
    for (Index k = 0; k < product_.inner; ++k) {
      const Index a = product_.a == CblasTrans ? k * product_.rows + row : row * product_.inner + k;
      const Index b =
          product_.b == CblasTrans ? column * product_.inner + k : k * product_.columns + column;
      sum += static_cast<double>(a_[size(a)]) * static_cast<double>(b_[size(b)]);
    }
    return static_cast<double>(c_.back()) == sum;
  }

 private:
  static std::size_t size(Index count) { return static_cast<std::size_t>(count); }

  const Product& product_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> c_;
};

/// Milliseconds of one call a worker, all at once, the slowest counting.
Spread time(const Product& product, const Options& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> readings;
  std::atomic<bool> right{true};
  Clock::time_point start;
  const auto note = [&, phase = Index{0}]() mutable noexcept {
    const auto now = Clock::now();
    if (phase % 2 == 1)
      readings.push_back(std::chrono::duration<double>(now - start).count() * 1e3);
    start = now;
    ++phase;
  };
  std::barrier gate(options.workers, note);
  const auto work = [&] {
    Matrices matrices(product);
    matrices.multiply();
    for (Index round = 0; round < options.rounds; ++round) {
      gate.arrive_and_wait();
      matrices.multiply();
      gate.arrive_and_wait();
    }
    if (!matrices.is_right()) right = false;
  };
  {
    std::vector<std::jthread> workers;
    for (Index i = 0; i < options.workers; ++i) workers.emplace_back(work);
  }
  dos::expect(right.load(), "{}: a wrong result", product.name);
  return spread_of(std::move(readings));
}

void run(const Options& options) {
  dos::expect(options.workers >= 1 && options.rounds >= 1, "--workers and --rounds are at least 1");
  dos::expect(options.tokens >= options.workers, "--tokens is at least --workers, got {}",
              options.tokens);
  dos::platform::blas::use_one_thread();
  dos::codelets::choose_products(options.products);
  const auto& model = dos::models::find_preset(options.model);
  double floor_ms = 0;
  double flops = 0;
  nlohmann::json rows = nlohmann::json::array();
  if (!options.json)
    fmt::print(
        "{}, {} tokens a step, {} workers, one call a worker; {}; OpenBLAS kernels {}\n"
        "{:<38}{:>8}{:>8}{:>8}{:>24}{:>10}\n",
        options.model, options.tokens, options.workers, dos::codelets::fp32_products(),
        dos::platform::blas::core_type(), "product", "rows", "columns", "inner", "ms (min-max)",
        "GFLOP/s");
  for (const Product& product : products_of(model, options.tokens / options.workers)) {
    const Spread ms = time(product, options);
    const auto workers = static_cast<double>(options.workers);
    const double rate = workers * product.flops() / ms.median / 1e6;
    floor_ms += static_cast<double>(product.calls) * ms.median;
    flops += static_cast<double>(product.calls) * workers * product.flops();
    rows.push_back({{"product", product.name}, {"ms", ms.median}, {"gflops", rate}});
    if (!options.json)
      fmt::print("{:<38}{:>8}{:>8}{:>8}{:>24}{:>10.1f}\n", product.name, product.rows,
                 product.columns, product.inner,
                 fmt::format("{:.2f} ({:.2f}-{:.2f})", ms.median, ms.min, ms.max), rate);
  }
  if (options.json)
    fmt::print(
        "{}\n",
        nlohmann::json{{"products", rows}, {"step_ms", floor_ms}, {"step_gflop", flops / 1e9}}
            .dump());
  else
    fmt::print("all products of a step: {:.1f} GFLOP in {:.0f} ms, {:.1f} GFLOP/s\n", flops / 1e9,
               floor_ms, flops / floor_ms / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  Options options;
  dos::apps::Parser app(
      "Times the matrix products of a training step; columns in bench/README.md.");
  app.add_option("--model", options.model, "preset").capture_default_str();
  app.add_option("--tokens", options.tokens, "tokens a step, shared by the workers")
      .capture_default_str();
  app.add_option("--workers", options.workers, "threads, one BLAS call each").capture_default_str();
  app.add_option("--rounds", options.rounds, "calls that count, after one that does not")
      .capture_default_str();
  app.add_option("--products", options.products, "library: auto, openblas or onednn")
      .capture_default_str();
  app.add_flag("--json", options.json, "one JSON object instead of a table");
  if (const auto status = app.parse("gemm", argc, argv)) return *status;
  try {
    run(options);
    dos::expect_output_written();
  } catch (const std::exception& error) {
    fmt::print(stderr, "gemm: error: {}\n", error.what());
    return 1;
  }
}
