// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cross_entropy/cross_entropy.hpp"
#include "codelets/operation.hpp"

namespace dos::codelets {

inline rt::Work cross_entropy_work(const CrossEntropyRows& rows, double passes) {
  return {passes * static_cast<double>(rows.rows) * static_cast<double>(rows.vocabulary),
          {rows.rows, rows.vocabulary}};
}

/// loss[0] += summed negative log-likelihood of the rows.
struct CrossEntropyForward : Operation {
  static constexpr Symbol kSymbol{"cross_entropy_forward", 2};
  using Variants = ByActivation;
  using Args = CrossEntropyRows;
  template <class As>
  struct Buffers {
    Reads<As, Activation> logits;
    Reads<As, std::int32_t> tokens;
    Updates<As, double> loss;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& rows) {
    return cross_entropy_work(rows, 4);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    cross_entropy_forward_cpu<kIsa>(task.args, task.logits.data(), task.tokens.data(),
                                    task.loss.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return cross_entropy_forward_cuda(context, type_of(task.logits), task.args, task.logits.data(),
                                      task.tokens.data(), task.loss.data());
  }
};

/// The same, and logits becomes scale * (softmax - onehot).
struct CrossEntropyForwardBackward : Operation {
  static constexpr Symbol kSymbol{"cross_entropy_forward_backward", 2};
  using Variants = ByActivation;
  struct Args {
    CrossEntropyRows rows;
    float scale;
  };
  template <class As>
  struct Buffers {
    Updates<As, Activation> logits;
    Reads<As, std::int32_t> tokens;
    Updates<As, double> loss;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return cross_entropy_work(args.rows, 6);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    cross_entropy_forward_backward_cpu<kIsa>(task.args.rows, task.args.scale, task.logits.data(),
                                             task.tokens.data(), task.loss.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return cross_entropy_forward_backward_cuda(context, type_of(task.logits), task.args.rows,
                                               task.args.scale, task.logits.data(),
                                               task.tokens.data(), task.loss.data());
  }
};

/// mean[0] = (sum of the lanes' losses, in the order given) / targets; the lanes' losses return to
/// zero.
struct MeanLoss : Operation {
  static constexpr Symbol kSymbol{"mean_loss", 1, DType::kF64};
  struct Args {
    Index targets;  ///< at least 1
  };
  template <class As>
  struct Buffers {
    Writes<As, double> mean;
    UpdatesEach<As, double> lanes;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.lanes.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    double sum = 0;
    for (double* lane : task.lanes) sum += std::exchange(*lane, 0.0);
    task.mean.front() = sum / static_cast<double>(task.args.targets);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return mean_loss_cuda(context, task.lanes, task.args.targets, task.mean.data());
  }
};

}  // namespace dos::codelets
