// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/bf16.hpp"
#include "base/random.hpp"
#include "calibration/measured_rates.hpp"
#include "codelets/linear/linear_codelet.hpp"

namespace dos::calibration {
namespace {

/// Of x[tokens, width] and w[width, width].
struct ProductSize {
  Index tokens;
  Index width;
};

/// As in a block of a GPT of some hundred million parameters, and of some billions.
constexpr ProductSize kOnCpu{.tokens = 512, .width = 1024};
constexpr ProductSize kOnGpu{.tokens = 4096, .width = 4096};

/// Forward products of equal size, one a worker, to two outputs in turns: none waits for another.
class Products {
 public:
  Products(rt::Submitter& submitter, DType type, const ProductSize& size, std::vector<int> workers)
      : submitter_(submitter), type_(type), size_(size), workers_(std::move(workers)) {
    weights_ = make("weights", size.width * size.width);
    bias_ = make("bias", size.width);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      inputs_.push_back(make("x", size.tokens * size.width));
      for (auto& outputs : outputs_)
        outputs.push_back(std::make_unique<rt::Handle>(submitter.session(), spec("y", elements())));
    }
  }

  void submit() {
    const auto& outputs = outputs_[turn_++ % outputs_.size()];
    const codelets::MatrixRef weights{
        .blocking = {.rows = size_.width, .columns = size_.width, .rows_per_block = size_.width},
        .blocks = {weights_.get()}};
    const codelets::SliceRef bias{.handle = bias_.get(), .offset = 0};
    for (std::size_t i = 0; i < workers_.size(); ++i)
      codelets::submit<codelets::LinearForward>(
          submitter_, {.x = *inputs_[i], .bias = bias, .y = *outputs[i], .w = weights},
          {size_.tokens}, {.worker = workers_[i]});
  }

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(elements() * size_.width) *
           static_cast<double>(workers_.size());
  }

 private:
  [[nodiscard]] Index elements() const { return size_.tokens * size_.width; }
  [[nodiscard]] rt::HandleSpec spec(const char* name, Index count) const {
    return {.name = name, .type = type_, .count = count};
  }
  /// Numbers that differ: a GPU that multiplies equal ones draws less power, and runs faster.
  [[nodiscard]] std::unique_ptr<rt::Handle> make(const char* name, Index count) const {
    auto handle = std::make_unique<rt::Handle>(submitter_.session(), spec(name, count));
    const rt::HostAccess access(*handle, rt::Mode::kWrite);
    auto number = [random = Philox(1), i = std::uint64_t{0}]() mutable {
      return static_cast<float>(random.uniform(i++)) - 0.5F;
    };
    if (type_ == DType::kF32)
      std::ranges::generate(access.as<float>(), number);
    else
      std::ranges::generate(access.as<BF16>(), [&number] { return to_bf16(number()); });
    return handle;
  }

  rt::Submitter& submitter_;
  DType type_;
  ProductSize size_;
  std::vector<int> workers_;
  std::unique_ptr<rt::Handle> weights_;
  std::unique_ptr<rt::Handle> bias_;
  std::vector<std::unique_ptr<rt::Handle>> inputs_;
  std::array<std::vector<std::unique_ptr<rt::Handle>>, 2> outputs_;
  std::size_t turn_ = 0;
};

}  // namespace

std::vector<Result> measure_training(const Meter& meter, const std::vector<rt::Device>& devices) {
  std::vector<int> workers;
  for (const rt::Device& device : devices)
    if (device.is_cuda) workers.push_back(device.worker);
  const bool on_gpu = !workers.empty();
  if (!on_gpu) workers = rt::cpu_workers();
  const ProductSize size = on_gpu ? kOnGpu : kOnCpu;
  struct Kind {
    const char* key;
    DType type;
    const char* name;
  };
  std::vector<Result> results;
  for (const Kind& kind : {Kind{"node.training_rate", DType::kBF16, "BF16"},
                           Kind{"node.training_rate_fp32", DType::kF32, "FP32"}}) {
    Products products(meter.submitter(), kind.type, size, workers);
    const double flops = products.flops() / (on_gpu ? static_cast<double>(workers.size()) : 1);
    results.push_back(measured(
        kind.key, meter.rate(flops, [&] { products.submit(); }),
        fmt::format(
            "{} products {} x {} x {} on {}", kind.name, size.tokens, size.width, size.width,
            on_gpu
                ? fmt::format("each of {} GPUs at once", workers.size())
                : fmt::format("{} CPU workers, which run forward and backward", workers.size()))));
  }
  return results;
}

}  // namespace dos::calibration
