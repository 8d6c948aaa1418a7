// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <memory>
#include <string>

#include "base/types.hpp"

struct cudnnContext;
struct CUstream_st;

namespace dos::codelets {

/// Loads libcudnn.so.9, once; empty, or why it cannot be loaded or the build has no use for it.
/// Nothing else here may be called unless it is empty.
const std::string& load_cudnn();

/// "9.19.0", or why it does not say.
std::string cudnn_version();

/// cudnnHandle_t of the device that is current when it is made.
class CudnnHandle {
 public:
  CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  ~CudnnHandle();

  /// Empty, or why there is none.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] cudnnContext* get() const { return handle_; }
  /// What is started from here on goes to this stream; empty or what went wrong.
  [[nodiscard]] std::string use(CUstream_st* stream) const;

 private:
  cudnnContext* handle_ = nullptr;
  std::string fault_;
};

/// What one call of cuDNN computes: all heads of some sequences, or `heads` heads of one, out of
/// tasks whose rows have qkv_width and out_width elements.
struct CudnnCall {
  bool backward;
  Index sequences, tokens, heads, key_heads, head_size;
  Index window;  ///< AttentionShape::window
  Index qkv_width, out_width;

  auto operator<=>(const CudnnCall&) const = default;
};

/// Arrays of a call, from its first head on.
struct CudnnArrays {
  const void* query;
  const void* key;
  const void* value;
  const void* out;         ///< forward writes it
  const float* logsumexp;  ///< forward writes it
  const void* dout = nullptr;
  void* dquery = nullptr;
  void* dkey = nullptr;
  void* dvalue = nullptr;
};

/// A graph of cuDNN, compiled for a GPU: attention of one call in BF16, causal, deterministic, with
/// statistics (forward).
class CudnnPlan {
 public:
  /// For the handle's GPU.
  CudnnPlan(const CudnnCall& call, const CudnnHandle& handle);

  /// For a GPU that need not be here, of compute capability `capability` (90 for 9.0) and
  /// `multiprocessors`, by its properties in the JSON of cuDNN's
  /// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. It cannot run.
  CudnnPlan(const CudnnCall& call, const std::string& device, int capability, int multiprocessors);

  CudnnPlan(CudnnPlan&&) noexcept;
  CudnnPlan& operator=(CudnnPlan&&) noexcept;
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;
  ~CudnnPlan();

  /// Why there is no plan, in cuDNN's words; empty: there is one.
  [[nodiscard]] const std::string& obstacle() const { return obstacle_; }
  /// Device memory that run() needs.
  [[nodiscard]] Index workspace_bytes() const { return workspace_bytes_; }

  /// Starts it on the handle's stream; empty or what went wrong. Pre: obstacle() is empty.
  [[nodiscard]] std::string run(const CudnnHandle& handle, const CudnnArrays& arrays,
                                void* workspace) const;

 private:
  struct Graph;
  /// Empty, or why there is no plan.
  std::string make(cudnnContext* handle);

  std::unique_ptr<Graph> graph_;
  std::string obstacle_;
  Index workspace_bytes_ = 0;
};

}  // namespace dos::codelets
