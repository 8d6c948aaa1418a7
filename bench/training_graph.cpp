// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "graphs.hpp"

namespace dos::bench {
namespace {

/// An update is bound by memory: it takes as long as this many operations of a matrix product.
constexpr double kUpdateFlops = 400;
constexpr float kMomentum = 0.9F;
constexpr float kRate = 1e-5F;

struct Product {
  Index rows;
  Index width;
};

/// y = x w.
void forward(const rt::TaskView& task) {
  const auto [rows, width] = task.args<Product>();
  const int n = static_cast<int>(width);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows), n, n, 1.0F,
              task.pointer<const float>(0), n, task.pointer<const float>(1), n, 0.0F,
              task.pointer<float>(2), n);
}

/// dx = dy w^T and g += x^T dy.
void backward(const rt::TaskView& task) {
  const auto [rows, width] = task.args<Product>();
  const int m = static_cast<int>(rows);
  const int n = static_cast<int>(width);
  const auto* dy = task.pointer<const float>(2);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, n, 1.0F, dy, n,
              task.pointer<const float>(1), n, 0.0F, task.pointer<float>(3), n);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, n, m, 1.0F, task.pointer<const float>(0),
              n, dy, n, 1.0F, task.pointer<float>(4), n);
}

/// Momentum, and a clean gradient for the next step.
void update(const rt::TaskView& task) {
  auto* w = task.pointer<float>(0);
  auto* momentum = task.pointer<float>(1);
  auto* g = task.pointer<float>(2);
  for (Index i = 0; i < task.count(0); ++i) {
    momentum[i] = kMomentum * momentum[i] + g[i];
    w[i] -= kRate * momentum[i];
    g[i] = 0;
  }
}

const rt::Codelet& forward_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<forward>({.symbol = "dos.bench.forward.f32.v1",
                                 .modes = {rt::Mode::kRead, rt::Mode::kRead, rt::Mode::kWrite},
                                 .tail = {}});
  return codelet;
}

const rt::Codelet& backward_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<backward>({.symbol = "dos.bench.backward.f32.v1",
                                  .modes = {rt::Mode::kRead, rt::Mode::kRead, rt::Mode::kRead,
                                            rt::Mode::kWrite, rt::Mode::kReadWrite},
                                  .tail = {}});
  return codelet;
}

const rt::Codelet& update_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<update>(
      {.symbol = "dos.update.bench_graph.f32.v1",
       .modes = {rt::Mode::kReadWrite, rt::Mode::kReadWrite, rt::Mode::kReadWrite},
       .tail = {}});
  return codelet;
}

class Training : public Graph {
 public:
  Training(rt::Session& session, const TrainingShape& shape) : shape_(shape) {
    const auto make = [&](const char* name, Index count) {
      return std::make_unique<rt::Handle>(session, rt::HandleSpec{.name = name, .count = count});
    };
    const Index weights = shape.width * shape.width;
    const Index activations = shape.rows * shape.width;
    for (Index layer = 0; layer < shape.layers; ++layer) {
      weights_.push_back(make("w", weights));
      momentum_.push_back(make("m", weights));
      gradients_.push_back(make("g", weights));
    }
    for (Index i = 0; i < (shape.layers + 1) * shape.lanes; ++i) {
      activations_.push_back(make("x", activations));
      backward_.push_back(make("dx", activations));
    }
  }

  void reset() override {
    for (std::size_t layer = 0; layer < weights_.size(); ++layer) {
      const rt::HostAccess w(*weights_[layer], rt::Mode::kWrite);
      // Near the unit matrix: activations keep their size through the layers.
      Index place = 0;
      for (float& each : w.as<float>()) {
        each = place / shape_.width == place % shape_.width
                   ? 1.0F
                   : 1e-4F * static_cast<float>(place % 7 - 3);
        ++place;
      }
      fill(*momentum_[layer], 0);
      fill(*gradients_[layer], 0);
    }
    for (Index lane = 0; lane < shape_.lanes; ++lane) {
      fill(at(activations_, 0, lane), 1 + static_cast<float>(lane));
      fill(at(backward_, shape_.layers, lane), 1e-3F);
    }
  }

  void submit(rt::Submitter& submitter) override {
    for (Index step = 0; step < shape_.steps; ++step) submit_step(submitter);
  }

  void check() const override {
    for (const auto& w : weights_) {
      const rt::HostAccess access(*w, rt::Mode::kRead);
      const auto values = access.as<const float>();
      expect(std::isfinite(values.front()) && values.front() != 1.0F,
             "training: a layer was not updated");
    }
    for (const auto& g : gradients_) {
      const rt::HostAccess access(*g, rt::Mode::kRead);
      for (const float each : access.as<const float>())
        expect(each == 0, "training: a gradient was used before it was complete");
    }
  }

 private:
  using Handles = std::vector<std::unique_ptr<rt::Handle>>;

  static void fill(const rt::Handle& handle, float value) {
    const rt::HostAccess access(handle, rt::Mode::kWrite);
    std::ranges::fill(access.as<float>(), value);
  }
  [[nodiscard]] const rt::Handle& at(const Handles& handles, Index layer, Index lane) const {
    return *handles[static_cast<std::size_t>(layer * shape_.lanes + lane)];
  }

  void submit_step(rt::Submitter& submitter) {
    const Product product{shape_.rows, shape_.width};
    const double flops = 2.0 * static_cast<double>(shape_.rows * shape_.width * shape_.width);
    const auto add = [&](const rt::Codelet& codelet, double work, Index priority,
                         const std::vector<const rt::Handle*>& buffers) {
      submitter.submit(codelet, buffers, product,
                       {.flops = work, .sizes = {shape_.rows, shape_.width}},
                       {.priority = static_cast<int>(priority)});
    };
    const auto of = [](const Handles& handles, Index layer) {
      return handles[static_cast<std::size_t>(layer)].get();
    };
    for (Index layer = 0; layer < shape_.layers; ++layer)
      for (Index lane = 0; lane < shape_.lanes; ++lane)
        add(forward_codelet(), flops, 0,
            {&at(activations_, layer, lane), of(weights_, layer),
             &at(activations_, layer + 1, lane)});
    for (Index layer = shape_.layers - 1; layer >= 0; --layer)
      for (Index lane = 0; lane < shape_.lanes; ++lane)
        add(backward_codelet(), 2 * flops, 0,
            {&at(activations_, layer, lane), of(weights_, layer), &at(backward_, layer + 1, lane),
             &at(backward_, layer, lane), of(gradients_, layer)});
    // The first layers are needed first.
    for (Index layer = 0; layer < shape_.layers; ++layer)
      add(update_codelet(), kUpdateFlops * static_cast<double>(shape_.width * shape_.width),
          shape_.layers - layer,
          {of(weights_, layer), of(momentum_, layer), of(gradients_, layer)});
  }

  TrainingShape shape_;
  Handles weights_;
  Handles momentum_;
  Handles gradients_;
  Handles activations_;
  Handles backward_;
};

}  // namespace

std::unique_ptr<Graph> make_training(rt::Session& session, const TrainingShape& shape) {
  return std::make_unique<Training>(session, shape);
}

std::vector<GraphCodelet> training_codelets() {
  return {{forward_codelet(), 1.0}, {backward_codelet(), 1.0}, {update_codelet(), 1.0}};
}

}  // namespace dos::bench
