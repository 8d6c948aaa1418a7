// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codelets/attention/attention.hpp"
#include "gpu.hpp"

namespace dos::bench {

/// Sizes of one model's layers and of the tokens that a task works on.
struct KernelSizes {
  Index sequences;
  Index context;
  Index width;
  Index heads;
  Index vocabulary;
  Index logit_rows;  ///< of a chunk of logits
};

/// One kernel: what it must move or compute at least, and how it is started.
struct KernelCase {
  std::string name;
  double bytes = 0;  ///< 0: bound by arithmetic
  double flops = 0;  ///< 0: bound by memory
  std::function<const char*()> run;
  const GpuMemory* output = nullptr;  ///< elements of the type measured
  /// Asked before the first run, if it is there: whether a library does not compute this here.
  std::function<bool()> is_left_out{};
};

/// A product of sizes, as a number that none of them overflows.
inline double amount(Index a, Index b = 1, Index c = 1) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// All kernels of a model, with random arrays, which the cases use and the list owns. Where the
/// arrays of some cannot be made, one case says why.
class KernelCases {
 public:
  KernelCases(const KernelSizes& sizes, DType type, const codelets::CudaContext& context);
  [[nodiscard]] const std::vector<KernelCase>& cases() const { return cases_; }

 private:
  const GpuMemory* array(Index count);
  const GpuMemory* numbers(Index count, DType of);
  const GpuMemory* random_tokens();
  void add(const char* theme, void (KernelCases::*add_cases)());
  void add_elementwise();
  void add_swiglu();
  void add_layernorm();
  void add_rmsnorm();
  void add_loss();
  void add_embedding();
  struct AttentionArrays {
    const GpuMemory *qkv, *out, *logsumexp, *dout, *dqkv;
  };
  void add_attention();
  static double attention_product(const codelets::AttentionShape& shape);
  void add_rotary(const codelets::AttentionShape& shape, const GpuMemory* qkv);
  void add_tiled_attention(const std::string& what, const codelets::AttentionShape& shape,
                           const AttentionArrays& arrays);
  void add_batched_attention(const codelets::AttentionShape& shape, const AttentionArrays& arrays);
  void add_attention_by_cudnn(const std::string& what, const codelets::AttentionShape& shape,
                              const AttentionArrays& arrays);
  void add_update();
  void add_products();
  struct LinearSizes {
    Index tokens;
    Index in;
    Index out;
    Index stride;  ///< elements from the start of one row of the output to the next
  };
  void add_linear(const std::string& name, const LinearSizes& s, const void* bias);
  void add_low_rank();

  KernelSizes sizes_;
  DType type_;
  codelets::CudaContext context_;
  std::vector<std::unique_ptr<GpuMemory>> arrays_;
  std::vector<std::unique_ptr<const void*>> blocks_;
  std::vector<std::unique_ptr<std::string>> faults_;
  std::vector<KernelCase> cases_;
};

}  // namespace dos::bench
