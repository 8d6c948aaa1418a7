// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_codelet.hpp"

#include "rt/cuda.hpp"

namespace dos::codelets {

Index attention_cuda_workspace(const AttentionShape& shape, DType type) {
  if (!cudnn_is_chosen() || type != DType::kBF16) return rt::kCudaWorkspaceBytes;
  return std::max(rt::kCudaWorkspaceBytes, cudnn_workspace(shape));
}

void prepare_attention_on_gpus(DType type, std::span<const AttentionShape> shapes) {
  if (!cudnn_is_chosen()) return;
  rt::on_cuda_workers([&] {
    const CudaContext context = detail::cuda_context(rt::cuda_stream());
    for (const AttentionShape& shape : shapes) prepare_attention(context, type, shape);
  });
}

}  // namespace dos::codelets
