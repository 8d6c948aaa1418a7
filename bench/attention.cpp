// SPDX-License-Identifier: Apache-2.0
// The attention kernels of a lane beside a matrix product of as many operations, round about, in
// one thread: what part of the rate of products they reach.
#include <sys/mman.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/parser.hpp"
#include "base/bf16.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "codelets/attention/attention_codelet.hpp"
#include "codelets/matrix/gemm.hpp"
#include "codelets/simd/elements.hpp"
#include "codelets/simd/isa.hpp"
#include "platform/blas.hpp"
#include "spread.hpp"

namespace {

using dos::BF16;
using dos::Index;
using dos::bench::Spread;
using dos::bench::spread_of;
using dos::codelets::AttentionShape;
using dos::simd::Isa;

struct Options {
  AttentionShape shape{.sequences = 2, .tokens = 256, .heads = 12, .head_size = 64};
  Index product_rows = 512;
  Index product_width = 768;
  std::string type = "fp32";
  std::string isa = "best";
  Index rounds = 15;
  bool json = false;
};

Isa isa_of(const std::string& name) {
  if (name == "best") return dos::simd::active_isa();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512})
    if (name == dos::simd::name_of(isa)) {
      dos::expect(dos::simd::is_usable(isa), "--isa {}: this processor does not run it", name);
      return isa;
    }
  dos::fail("--isa {}: must be best, portable, avx2 or avx512", name);
}

/// Seconds of processor time of this thread: what other programs run does not count.
double processor_time() {
  timespec now{};
  dos::require(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0, "a clock of the thread");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// An array on huge pages, as activations are, of numbers from -1 to 1.
template <class T>
class Array {
 public:
  explicit Array(Index count) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t bytes =
        (static_cast<std::size_t>(count) * sizeof(T) / kHugePage + 1) * kHugePage;
    data_.reset(static_cast<T*>(std::aligned_alloc(kHugePage, bytes)));
    dos::expect(data_ != nullptr, "the system refuses {} bytes: choose a smaller shape", bytes);
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
    std::uint32_t state = 1;
    for (Index i = 0; i < count; ++i) {
      state = state * 1664525U + 1013904223U;
      dos::simd::put(data() + i, static_cast<float>(state >> 8U) * 0x1p-23F - 1.0F);
    }
  }

  [[nodiscard]] T* data() { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
};

/// c[rows, width] = a[rows, width] b[width, width]: a linear layer's product of FP32 numbers.
class Product {
 public:
  Product(Index rows, Index width)
      : rows_(rows), width_(width), a_(rows * width), b_(width * width), c_(rows * width) {}

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(rows_ * width_) * static_cast<double>(width_);
  }
  void run() {
    dos::codelets::multiply(
        rows_, width_, width_, dos::codelets::MatrixView<float>{a_.data(), width_},
        dos::codelets::MatrixView<float>{b_.data(), width_}, false, c_.data(), width_);
  }

 private:
  Index rows_;
  Index width_;
  Array<float> a_;
  Array<float> b_;
  Array<float> c_;
};

template <class T>
class Attention {
 public:
  Attention(const AttentionShape& shape, Isa isa)
      : shape_(shape),
        isa_(isa),
        qkv_(shape.sequences * shape.tokens * shape.qkv_width()),
        dout_(shape.sequences * shape.tokens * shape.width()),
        out_(shape.sequences * shape.tokens * shape.width()),
        dqkv_(shape.sequences * shape.tokens * shape.qkv_width()),
        logsumexp_(shape.sequences * shape.heads * shape.tokens),
        workspace_(static_cast<std::size_t>(dos::codelets::attention_workspace(shape))) {}

  void forward() {
    dos::simd::dispatch(isa_, [&]<Isa kIsa>() {
      dos::codelets::attention_forward_cpu<kIsa>(shape_, qkv_.data(), out_.data(),
                                                 logsumexp_.data(), workspace_.data());
    });
  }
  void backward() {
    dos::simd::dispatch(isa_, [&]<Isa kIsa>() {
      dos::codelets::attention_backward_cpu<kIsa>(shape_, qkv_.data(), out_.data(),
                                                  logsumexp_.data(), dout_.data(), dqkv_.data(),
                                                  workspace_.data());
    });
  }

 private:
  AttentionShape shape_;
  Isa isa_;
  Array<T> qkv_;
  Array<T> dout_;
  Array<T> out_;
  Array<T> dqkv_;
  Array<float> logsumexp_;
  std::vector<float> workspace_;
};

/// One pass beside products: GFLOP/s of both, and the ratio of neighbouring readings.
struct Readings {
  std::string name;
  double flops;
  std::vector<double> rates;
  std::vector<double> product_rates;
  std::vector<double> ratios;
};

/// GFLOP/s of as many calls in a row as need 10 ms or more, once they ran without being counted.
template <class Run>
double rate(double flops, const Run& run) {
  constexpr double kLeast = 0.01;
  double seconds = 0;
  Index calls = 0;
  const double start = processor_time();
  do {
    run();
    ++calls;
    seconds = processor_time() - start;
  } while (seconds < kLeast);
  return static_cast<double>(calls) * flops / seconds / 1e9;
}

template <class Run>
void read(Readings& readings, Product& product, const Run& run) {
  const double attention = rate(readings.flops, run);
  const double beside = rate(product.flops(), [&] { product.run(); });
  readings.rates.push_back(attention);
  readings.product_rates.push_back(beside);
  readings.ratios.push_back(attention / beside);
}

void print(const Readings& r) {
  const Spread rates = spread_of(r.rates);
  const Spread products = spread_of(r.product_rates);
  const Spread ratios = spread_of(r.ratios);
  fmt::print("{:<10}{:>10.3f}{:>10.1f}{:>12.1f}{:>26}\n", r.name, r.flops / rates.median / 1e6,
             rates.median, products.median,
             fmt::format("{:.3f} ({:.3f}-{:.3f})", ratios.median, ratios.min, ratios.max));
}

nlohmann::json json_of(const Readings& r) {
  const Spread ratios = spread_of(r.ratios);
  return {{"pass", r.name},
          {"gflops", spread_of(r.rates).median},
          {"product_gflops", spread_of(r.product_rates).median},
          {"ratio", {{"median", ratios.median}, {"min", ratios.min}, {"max", ratios.max}}}};
}

template <class T>
void compare(const Options& options) {
  const Isa isa = isa_of(options.isa);
  Attention<T> attention(options.shape, isa);
  Product product(options.product_rows, options.product_width);
  const auto flops = [&](double products) {
    return dos::codelets::attention_work(options.shape, products).flops;
  };
  Readings forward{"forward", flops(2), {}, {}, {}};
  Readings backward{"backward", flops(5), {}, {}, {}};
  attention.forward();
  attention.backward();
  product.run();
  for (Index round = 0; round < options.rounds; ++round) {
    read(forward, product, [&] { attention.forward(); });
    read(backward, product, [&] { attention.backward(); });
  }
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"isa", dos::simd::name_of(isa)},
                                      {"blas", dos::platform::blas::core_type()},
                                      {"passes", {json_of(forward), json_of(backward)}}}
                           .dump());
    return;
  }
  fmt::print("{}, kernels {}; products by OpenBLAS {}\n{:<10}{:>10}{:>10}{:>12}{:>26}\n",
             options.type, dos::simd::name_of(isa), dos::platform::blas::core_type(), "pass", "ms",
             "GFLOP/s", "products", "ratio");
  print(forward);
  print(backward);
}

void require_positive(const char* option, Index value, Index most) {
  dos::expect(value >= 1 && value <= most, "{} {}: must be 1 to {}", option, value, most);
}

void run(const Options& options) {
  const AttentionShape& s = options.shape;
  constexpr Index kMostTokens = 1 << 20;
  require_positive("--sequences", s.sequences, 1024);
  require_positive("--tokens", s.tokens, kMostTokens);
  require_positive("--heads", s.heads, 1024);
  require_positive("--head-size", s.head_size, 1024);
  require_positive("--rounds", options.rounds, 100'000);
  require_positive("--product-rows", options.product_rows, kMostTokens);
  require_positive("--product-width", options.product_width, 1 << 15);
  dos::expect(s.kv_heads >= 0 && (s.kv_heads == 0 || s.heads % s.kv_heads == 0),
              "--kv-heads {}: must divide --heads {}", s.kv_heads, s.heads);
  dos::expect(s.window >= 0, "--window {}: must be 0 or more", s.window);
  dos::expect(options.type == "fp32" || options.type == "bf16", "--type {}: must be fp32 or bf16",
              options.type);
  dos::platform::blas::use_one_thread();
  options.type == "bf16" ? compare<BF16>(options) : compare<float>(options);
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  Options options;
  dos::apps::Parser app("Times attention's kernels beside a product; columns in bench/README.md.");
  const auto add = [&](const char* name, auto& value, const char* text) {
    app.add_option(name, value, text).capture_default_str();
  };
  add("--sequences", options.shape.sequences, "sequences of a lane");
  add("--tokens", options.shape.tokens, "tokens of a sequence");
  add("--heads", options.shape.heads, "heads of queries");
  add("--kv-heads", options.shape.kv_heads, "heads of keys and values; 0: as many");
  add("--head-size", options.shape.head_size, "elements of a head");
  add("--window", options.shape.window, "tokens that one attends to at most; 0: all");
  add("--type", options.type, "fp32 or bf16, of activations");
  add("--isa", options.isa, "kernels: best, portable, avx2 or avx512");
  add("--product-rows", options.product_rows, "rows of the product");
  add("--product-width", options.product_width, "its columns and its inner dimension");
  add("--rounds", options.rounds, "readings of each");
  app.add_flag("--json", options.json, "one JSON object instead of a table");
  if (const auto status = app.parse("attention", argc, argv)) return *status;
  try {
    run(options);
    dos::expect_output_written();
  } catch (const std::exception& error) {
    fmt::print(stderr, "attention: error: {}\n", error.what());
    return 1;
  }
}
