// SPDX-License-Identifier: Apache-2.0
// A rule on whole matrices as an Optimizer: what the interface has to leave room for.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.hpp"
#include "codelets/reduce/reduce_codelet.hpp"
#include "optim/gradient_norms.hpp"
#include "optim/optimizer.hpp"
#include "optim/rules.hpp"
#include "shape/cutter.hpp"

namespace dos::optim::matrix_rule_test {
namespace {

/// Gradient descent with momentum on matrices whose gradient is first scaled to a Frobenius norm of
/// at most 1, matrix by matrix, as no element-wise rule could.
class MatrixDescent final : public Optimizer {
 public:
  MatrixDescent(rt::Session& session, const tensor::ParameterSet& parameters)
      : parameters_(parameters),
        norms_(session, parameters, /*clip=*/0),
        momentum_(session, parameters.layout(),
                  tensor::BufferPlan(parameters.layout(), {}, parameters.ownership()).states,
                  "momentum", MemoryCategory::kStates, DType::kF32) {
    for (const shape::PlacedParameter& matrix : parameters.layout().parameters)
      matrices_.push_back({.factor = scalar(session, DType::kF32),
                           .norm = scalar(session, DType::kF64),
                           .pieces = shape::pieces_of(matrix)});
  }

  void set_listener(tensor::ParameterListener* listener) override { listener_ = listener; }

  void submit_step(rt::Submitter& submitter, Index step, double learning_rate,
                   const rt::Handle& norm) override {
    norms_.submit(submitter, norm, listener_);
    const Rule sgd = find_rule("sgd");
    codelets::Hyperparameters hyper{};
    hyper.momentum = 0.5F;
    const codelets::StepBytes bytes =
        sgd.info->step(hyper, static_cast<float>(learning_rate), step);
    for (const Matrix& matrix : matrices_) {
      std::vector<const rt::Handle*> sums;
      for (const shape::Piece& piece : matrix.pieces)
        sums.push_back(&norms_.sum_of(piece.subgroup));
      codelets::submit<codelets::CombineNorm>(
          submitter, {.factor = *matrix.factor, .norm = *matrix.norm, .sums = sums},
          {.max_norm = 1}, rt::TaskOptions{});
      for (const shape::Piece& piece : matrix.pieces) {
        const std::vector<const rt::Handle*> states{&momentum_[piece.subgroup]};
        codelets::submit_update(submitter, sgd.number, bytes,
                                {.parameters = parameters_.values()[piece.subgroup],
                                 .states = states,
                                 .working = nullptr,
                                 .gradient = parameters_.sums()[piece.subgroup],
                                 .clip = *matrix.factor},
                                rt::TaskOptions{});
        if (listener_ != nullptr) listener_->updated(piece.subgroup);
      }
    }
  }

  [[nodiscard]] const rt::Handle* clip_factor(Index subgroup) const override {
    return &norms_.factor_of(subgroup);
  }
  [[nodiscard]] const char* rule() const override { return "matrix descent"; }
  [[nodiscard]] std::span<const char* const> state_names() const override { return kStates; }
  [[nodiscard]] const tensor::SubgroupHandles& state(Index /*index*/) const override {
    return momentum_;
  }

 private:
  struct Matrix {
    std::unique_ptr<rt::Handle> factor;
    std::unique_ptr<rt::Handle> norm;
    std::vector<shape::Piece> pieces;
  };
  static constexpr const char* kStates[] = {"momentum"};

  static std::unique_ptr<rt::Handle> scalar(rt::Session& session, DType type) {
    return std::make_unique<rt::Handle>(
        session,
        rt::HandleSpec{
            .name = "scalar", .type = type, .count = 1, .category = MemoryCategory::kStates});
  }

  const tensor::ParameterSet& parameters_;
  GradientNorms norms_;
  tensor::SubgroupHandles momentum_;
  std::vector<Matrix> matrices_;
  tensor::ParameterListener* listener_ = nullptr;
};

/// Fills a parameter piece by piece; returns it whole.
std::vector<double> fill(const tensor::SubgroupHandles& handles,
                         const shape::PlacedParameter& parameter, std::uint64_t seed) {
  const Philox random(seed);
  std::vector<double> all;
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const rt::HostAccess access(handles[piece.subgroup], rt::Mode::kReadWrite);
    const auto offset = static_cast<std::size_t>(piece.offset);
    for (float& value : access.as<float>().subspan(offset, static_cast<std::size_t>(piece.count)))
      all.push_back(value = random.normal(all.size()));
  }
  return all;
}

TEST(MatrixRule, SeesMatricesWholeThatAreCutIntoSubgroups) {
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  rt::Submitter submitter(session);
  // The first in three subgroups, the second in one.
  const tensor::ParameterSet parameters(
      session,
      shape::cut_into_subgroups({{"a.weight", 7, 5, {}, 0}, {"b.weight", 2, 6, {}, 1}}, 15, {}));
  ASSERT_EQ(parameters.layout().subgroups.size(), 4U);
  const std::unique_ptr<Optimizer> rule = std::make_unique<MatrixDescent>(session, parameters);
  const rt::Handle norm(session, {.name = "norm", .type = DType::kF64, .count = 1});
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, std::vector<double>> momenta;
  for (const shape::PlacedParameter& matrix : parameters.layout().parameters)
    values[matrix.spec.name] = fill(parameters.values(), matrix, 1);

  constexpr double kRate = 0.25;
  for (const Index step : {1, 2}) {
    double all = 0;
    for (const shape::PlacedParameter& matrix : parameters.layout().parameters) {
      std::vector<double>& p = values[matrix.spec.name];
      std::vector<double>& m = momenta[matrix.spec.name];
      m.resize(p.size());
      const auto seed = static_cast<std::uint64_t>(10 * step);
      const std::vector<double> gradient = fill(parameters.gradients(), matrix, seed);
      double sum = 0;
      for (const double g : gradient) sum += g * g;
      all += sum;
      for (std::size_t i = 0; i < p.size(); ++i) {
        m[i] = 0.5 * m[i] + gradient[i] / std::sqrt(sum);
        p[i] -= kRate * m[i];
      }
    }
    rule->submit_step(submitter, step, kRate, norm);
    EXPECT_NEAR(rt::HostAccess(norm, rt::Mode::kRead).as<const double>()[0], std::sqrt(all),
                1e-12 * std::sqrt(all));
  }
  for (const shape::PlacedParameter& matrix : parameters.layout().parameters) {
    std::size_t i = 0;
    for (const shape::Piece& piece : shape::pieces_of(matrix)) {
      const rt::HostAccess access(parameters.values()[piece.subgroup], rt::Mode::kRead);
      for (const float p : access.as<const float>()) {
        // In two steps 5 roundings each of numbers below 8, and the 1e-6 that is added to norms of
        // more than 1.
        const double expected = values[matrix.spec.name][i++];
        EXPECT_NEAR(p, expected, 2 * (5 * 8 * 0x1p-24 + 1e-6)) << matrix.spec.name << i;
      }
    }
    EXPECT_EQ(i, values[matrix.spec.name].size());
  }
}

}  // namespace
}  // namespace dos::optim::matrix_rule_test
