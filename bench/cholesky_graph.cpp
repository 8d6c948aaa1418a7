// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "graphs.hpp"

extern "C" void spotrf_(const char* uplo, const int* n, float* a, const int* lda, int* info);

namespace dos::bench {
namespace {

/// Of the elements that check() looks at; float eps times the 10^3 terms of a sum, and a margin of
/// 10 for their order. Elements are near 1, but for the diagonal.
constexpr double kTolerance = 1e-3;

struct Tile {
  Index size;
  [[nodiscard]] int n() const { return static_cast<int>(size); }
};

void potrf(const rt::TaskView& task) {
  const int n = task.args<Tile>().n();
  int info = 0;
  // The lower triangle by rows is the upper one by columns.
  spotrf_("U", &n, task.pointer<float>(0), &n, &info);
  expect(info == 0, "tile is not positive definite: row {}", info);
}

void trsm(const rt::TaskView& task) {
  const int n = task.args<Tile>().n();
  cblas_strsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, n, 1.0F,
              task.pointer<const float>(0), n, task.pointer<float>(1), n);
}

void syrk(const rt::TaskView& task) {
  const int n = task.args<Tile>().n();
  cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, n, n, -1.0F, task.pointer<const float>(0), n,
              1.0F, task.pointer<float>(1), n);
}

void gemm(const rt::TaskView& task) {
  const int n = task.args<Tile>().n();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, -1.0F, task.pointer<const float>(0),
              n, task.pointer<const float>(1), n, 1.0F, task.pointer<float>(2), n);
}

void gemm_opencl(const rt::TaskView& task, rt::OpenclKernel& kernel) {
  const Index n = task.args<Tile>().size;
  run_product(kernel, n, n, n, -1.0F, /*transposed=*/true);
}

const rt::Codelet& potrf_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<potrf>(
      {.symbol = "dos.bench.potrf.f32.v1", .modes = {rt::Mode::kReadWrite}, .tail = {}});
  return codelet;
}

const rt::Codelet& trsm_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<trsm>({.symbol = "dos.bench.trsm.f32.v1",
                              .modes = {rt::Mode::kRead, rt::Mode::kReadWrite},
                              .tail = {}});
  return codelet;
}

const rt::Codelet& syrk_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<syrk>({.symbol = "dos.bench.syrk.f32.v1",
                              .modes = {rt::Mode::kRead, rt::Mode::kReadWrite},
                              .tail = {}});
  return codelet;
}

const rt::Codelet& gemm_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<gemm, gemm_opencl>(
      {.symbol = "dos.bench.gemm.f32.v1",
       .modes = {rt::Mode::kRead, rt::Mode::kRead, rt::Mode::kReadWrite},
       .tail = {},
       .opencl = product_source()});
  return codelet;
}

class Cholesky : public Graph {
 public:
  Cholesky(rt::Session& session, Index tiles, Index size) : tiles_(tiles), size_(size) {
    for (Index i = 0; i < tiles * tiles; ++i)
      data_.push_back(i % tiles > i / tiles
                          ? nullptr
                          : std::make_unique<rt::Handle>(
                                session, rt::HandleSpec{.name = "tile", .count = size * size}));
  }

  void reset() override {
    for (Index i = 0; i < tiles_; ++i)
      for (Index j = 0; j <= i; ++j) {
        const rt::HostAccess access(tile(i, j), rt::Mode::kWrite);
        const std::span<float> values = access.as<float>();
        for (Index place = 0; place < size_ * size_; ++place)
          values[static_cast<std::size_t>(place)] =
              static_cast<float>(element(i * size_ + place / size_, j * size_ + place % size_));
      }
  }

  void submit(rt::Submitter& submitter) override {
    const double cube = std::pow(static_cast<double>(size_), 3);
    const auto add = [&](const rt::Codelet& codelet, double flops, Index priority,
                         const std::vector<const rt::Handle*>& buffers) {
      submitter.submit(codelet, buffers, Tile{size_}, {.flops = flops, .sizes = {size_}},
                       {.priority = static_cast<int>(priority)});
    };
    for (Index k = 0; k < tiles_; ++k) {
      add(potrf_codelet(), cube / 3, 3 * (tiles_ - k), {&tile(k, k)});
      for (Index i = k + 1; i < tiles_; ++i)
        add(trsm_codelet(), cube, 3 * tiles_ - 2 * k - i, {&tile(k, k), &tile(i, k)});
      for (Index j = k + 1; j < tiles_; ++j) {
        add(syrk_codelet(), cube, 3 * tiles_ - k - 2 * j, {&tile(j, k), &tile(j, j)});
        for (Index i = j + 1; i < tiles_; ++i)
          add(gemm_codelet(), 2 * cube, 3 * tiles_ - k - i - j,
              {&tile(i, k), &tile(j, k), &tile(i, j)});
      }
    }
  }

  void check() const override {
    // Every tile, in a few rows and columns, against the product of the factors in double.
    const std::vector<float> factor = read_factor();
    const std::size_t n = static_cast<std::size_t>(tiles_ * size_);
    for (Index i = 0; i < tiles_; ++i)
      for (Index j = 0; j <= i; ++j)
        for (const Index offset : {Index{0}, size_ / 3, size_ - 1}) {
          const Index row = i * size_ + offset;
          const Index column = j * size_ + offset / 2;
          const float* left = factor.data() + static_cast<std::size_t>(row) * n;
          const float* right = factor.data() + static_cast<std::size_t>(column) * n;
          double sum = 0;
          for (Index t = 0; t <= column; ++t) sum += double{left[t]} * double{right[t]};
          const double wanted = element(row, column);
          expect(std::abs(sum - wanted) <= kTolerance * std::max(1.0, wanted),
                 "Cholesky: element ({}, {}) is {}, not {}", row, column, sum, wanted);
        }
  }

 private:
  [[nodiscard]] const rt::Handle& tile(Index i, Index j) const {
    return *data_[static_cast<std::size_t>(i * tiles_ + j)];
  }
  /// Symmetric with a heavy diagonal.
  [[nodiscard]] double element(Index row, Index column) const {
    return row == column ? static_cast<double>(2 * tiles_ * size_)
                         : 1.0 / (1.0 + 0.01 * static_cast<double>(std::abs(row - column)));
  }
  [[nodiscard]] std::vector<float> read_factor() const {
    const Index n = tiles_ * size_;
    std::vector<float> factor(static_cast<std::size_t>(n * n));
    for (Index i = 0; i < tiles_; ++i)
      for (Index j = 0; j <= i; ++j) {
        const rt::HostAccess access(tile(i, j), rt::Mode::kRead);
        const auto values = access.as<const float>();
        for (Index row = 0; row < size_; ++row)
          std::copy_n(values.data() + row * size_, size_,
                      factor.data() + (i * size_ + row) * n + j * size_);
      }
    return factor;
  }

  Index tiles_;
  Index size_;
  std::vector<std::unique_ptr<rt::Handle>> data_;
};

}  // namespace

std::unique_ptr<Graph> make_cholesky(rt::Session& session, Index tiles, Index size) {
  return std::make_unique<Cholesky>(session, tiles, size);
}

std::vector<GraphCodelet> cholesky_codelets() {
  // Assumed: products reach the peak, solves half of it, and the factorisation of one tile, which
  // has little to do at once, a few percent.
  return {
      {potrf_codelet(), 0.05}, {trsm_codelet(), 0.5}, {syrk_codelet(), 0.9}, {gemm_codelet(), 1.0}};
}

}  // namespace dos::bench
