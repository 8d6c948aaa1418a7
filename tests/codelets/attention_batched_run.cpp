// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention_batched_run.hpp"

#include <algorithm>

#include "codelets/attention/attention_batched_cuda.hpp"
#include "codelets/cuda_test.hpp"

namespace dos::test {
namespace {

using codelets::AttentionScores;

/// Room for the scores of some heads and nothing more, full of NaNs.
class Scores {
 public:
  explicit Scores(Index bytes)
      : gpu_(std::vector<float>(static_cast<std::size_t>(bytes / size_of(DType::kF32)), kCudaNan)
                 .data(),
             bytes),
        bytes_(bytes) {}
  [[nodiscard]] AttentionScores view() const { return {gpu_.get(), bytes_}; }

 private:
  OnGpu gpu_;
  Index bytes_;
};

OnGpu copy_of(std::vector<float>& numbers) {
  return OnGpu(numbers.data(), std::ssize(numbers) * size_of(DType::kF32));
}

Index heads_of(const AttentionData& data, Index heads_at_a_time) {
  return std::min(data.shape.heads, heads_at_a_time);
}

}  // namespace

void run_batched_forward(AttentionData& data, Index heads_at_a_time) {
  const OnGpu qkv(data.qkv);
  Both out(data.out);
  const OnGpu logsumexp = copy_of(data.logsumexp);
  // Half of what backward needs.
  const Scores scores(heads_of(data, heads_at_a_time) *
                      codelets::attention_scores_of_head(data.shape.tokens) / 2);
  expect_done(codelets::attention_forward_batched_cuda(cuda_context(), data.qkv.type(), data.shape,
                                                       qkv.get(), out.get(), logsumexp.as<float>(),
                                                       scores.view()));
  out.bring_back();
  logsumexp.copy_to(data.logsumexp.data());
}

void run_batched_backward(AttentionData& data, Index heads_at_a_time) {
  const OnGpu qkv(data.qkv);
  const OnGpu out(data.out);
  const OnGpu dout(data.dout);
  Both dqkv(data.dqkv);
  const OnGpu logsumexp = copy_of(data.logsumexp);
  const Scores scores(heads_of(data, heads_at_a_time) *
                      codelets::attention_scores_of_head(data.shape.tokens));
  expect_done(codelets::attention_backward_batched_cuda(cuda_context(), data.qkv.type(), data.shape,
                                                        qkv.get(), out.get(), logsumexp.as<float>(),
                                                        dout.get(), dqkv.get(), scores.view()));
  dqkv.bring_back();
}

void run_batched(AttentionData& data) {
  run_batched_forward(data);
  run_batched_backward(data);
}

}  // namespace dos::test
