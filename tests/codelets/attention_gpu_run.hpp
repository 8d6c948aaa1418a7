// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention_cuda_suite.hpp"
#include "codelets/cuda_test.hpp"

/// The arrays of attention's data on a GPU and back.
namespace dos::test {

/// Fills out and logsumexp: kernel(type, shape, qkv, out, logsumexp) starts forward and sees that
/// it ends well.
template <class Kernel>
void run_attention_forward(AttentionData& data, Kernel&& kernel) {
  const OnGpu qkv(data.qkv);
  Both out(data.out);
  const OnGpu logsumexp(data.logsumexp.data(), std::ssize(data.logsumexp) * Index{sizeof(float)});
  kernel(data.qkv.type(), data.shape, qkv.get(), out.get(), logsumexp.as<float>());
  out.bring_back();
  logsumexp.copy_to(data.logsumexp.data());
}

/// Fills dqkv: kernel(type, shape, qkv, out, logsumexp, dout, dqkv), as above.
template <class Kernel>
void run_attention_backward(AttentionData& data, Kernel&& kernel) {
  const OnGpu qkv(data.qkv);
  const OnGpu out(data.out);
  const OnGpu dout(data.dout);
  Both dqkv(data.dqkv);
  const OnGpu logsumexp(data.logsumexp.data(), std::ssize(data.logsumexp) * Index{sizeof(float)});
  kernel(data.qkv.type(), data.shape, qkv.get(), out.get(), logsumexp.as<float>(), dout.get(),
         dqkv.get());
  dqkv.bring_back();
}

}  // namespace dos::test
