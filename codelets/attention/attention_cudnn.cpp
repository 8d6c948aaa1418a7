// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_cudnn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "codelets/attention/attention_cudnn_plan.hpp"

namespace dos::codelets {
namespace {

/// Hopper: from it on cuDNN has kernels that use all of the tensor cores.
constexpr int kLeastCapability = 90;

std::atomic<bool> by_cudnn{false};

/// Of each pass the first reason why it was not cuDNN's.
class Refusals {
 public:
  void note(bool backward, const std::string& why) {
    const std::scoped_lock lock(mutex_);
    std::string& first = backward ? backward_ : forward_;
    if (!first.empty()) return;
    first = why;
    if (by_cudnn)
      log::warn("cuDNN does not compute attention {}: {}: own kernels do",
                backward ? "backward" : "forward", why);
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    forward_.clear();
    backward_.clear();
  }
  [[nodiscard]] std::string text() const {
    const std::scoped_lock lock(mutex_);
    const auto of_pass = [](const char* pass, const std::string& why) {
      return why.empty() ? std::string() : fmt::format("{}: {}", pass, why);
    };
    const std::string first = of_pass("forward", forward_);
    const std::string second = of_pass("backward", backward_);
    return first + (first.empty() || second.empty() ? "" : "; ") + second;
  }

 private:
  mutable std::mutex mutex_;
  std::string forward_, backward_;
};

Refusals refusals;

/// What a thread keeps for its device (CudaContext::kept).
struct Cudnn {
  CudnnHandle handle;
  std::map<CudnnCall, CudnnPlan> plans;
  std::string fault;  ///< the last one's words

  const CudnnPlan& plan(const CudnnCall& call) {
    const auto found = plans.find(call);
    if (found != plans.end()) return found->second;
    return plans.emplace(call, CudnnPlan(call, handle)).first->second;
  }
  CudnnStart failed(std::string text) {
    fault = fmt::format("cuDNN's attention: {} (train.attention=own does without)", text);
    return {true, fault.c_str()};
  }
};

/// Null: this context has nowhere to keep it, or the device has no cuDNN, which `backward` then
/// cannot have.
Cudnn* cudnn_of(const CudaContext& context, bool backward) {
  if (context.kept == nullptr) return nullptr;
  if (const std::string& why = load_cudnn(); !why.empty()) {
    refusals.note(backward, why);
    return nullptr;
  }
  if (*context.kept == nullptr) *context.kept = std::make_shared<Cudnn>();
  auto* cudnn = static_cast<Cudnn*>(context.kept->get());
  if (cudnn->handle.fault().empty()) return cudnn;
  refusals.note(backward, fmt::format("no handle of the GPU: {}", cudnn->handle.fault()));
  return nullptr;
}

bool suits(DType type, const AttentionShape& shape) {
  return type == DType::kBF16 && shape.first == 0 && shape.head_size % 8 == 0 &&
         shape.sequences * shape.tokens * shape.heads * shape.head_size != 0;
}

/// Of a training's tasks: those of generation and in FP32 are never cuDNN's.
void note_heads(DType type, const AttentionShape& shape, bool backward) {
  if (type == DType::kBF16 && shape.head_size % 8 != 0)
    refusals.note(backward, fmt::format("heads of {} elements, no multiple of 8", shape.head_size));
}

template <class... Arrays>
bool are_aligned(const Arrays*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}

/// Heads of a task that go to one call: those of whole sequences, or some groups of one.
struct Parts {
  Index sequences;  ///< of a call, at most
  Index heads;      ///< of each of its sequences, at most

  /// In calls of even size, so that few plans are made.
  static Parts of(const AttentionShape& shape, Index heads_together) {
    const auto even = [](Index all, Index most) { return ceil_div(all, ceil_div(all, most)); };
    if (heads_together >= shape.heads)
      return {even(shape.sequences, heads_together / shape.heads), shape.heads};
    const Index group = shape.group();
    return {1, even(shape.key_heads(), heads_together / group) * group};
  }

  /// Whether each call's logsumexp begins on 16 bytes, as cuDNN asks for.
  [[nodiscard]] bool stay_aligned(const AttentionShape& shape) const {
    return shape.tokens % 4 == 0 || (sequences == shape.sequences && heads == shape.heads);
  }
};

CudnnCall call_of(const AttentionShape& shape, bool backward, Index sequences, Index heads) {
  return {backward,        sequences,    shape.tokens,      heads,        heads / shape.group(),
          shape.head_size, shape.window, shape.qkv_width(), shape.width()};
}

/// f(sequences, heads, first sequence, first head) for each call, while it says true.
template <class F>
bool each_call(const AttentionShape& shape, const Parts& parts, F&& f) {
  for (Index sequence = 0; sequence < shape.sequences; sequence += parts.sequences)
    for (Index head = 0; head < shape.heads; head += parts.heads)
      if (!f(std::min(parts.sequences, shape.sequences - sequence),
             std::min(parts.heads, shape.heads - head), sequence, head))
        return false;
  return true;
}

/// Arrays of a whole task, in BF16 but for logsumexp.
struct TaskArrays {
  const BF16* qkv;
  const BF16* out;
  const float* logsumexp;
  const BF16* dout = nullptr;
  BF16* dqkv = nullptr;

  [[nodiscard]] CudnnArrays from(const AttentionShape& shape, Index sequence, Index head) const {
    const Index token = sequence * shape.tokens;
    const Index query = token * shape.qkv_width() + head * shape.head_size;
    const Index key =
        token * shape.qkv_width() + shape.width() + head / shape.group() * shape.head_size;
    const Index value = key + shape.key_width();
    const Index result = token * shape.width() + head * shape.head_size;
    CudnnArrays arrays{qkv + query, qkv + key, qkv + value, out + result,
                       logsumexp + (sequence * shape.heads + head) * shape.tokens};
    if (dqkv != nullptr) {
      arrays.dout = dout + result;
      arrays.dquery = dqkv + query;
      arrays.dkey = dqkv + key;
      arrays.dvalue = dqkv + value;
    }
    return arrays;
  }
};

/// Why a plan does not serve with so much work space; empty: it does.
std::string obstacle_of(const CudnnPlan& plan, Index bytes) {
  if (!plan.obstacle().empty()) return fmt::format("no plan: {}", plan.obstacle());
  if (plan.workspace_bytes() <= bytes) return {};
  return fmt::format("its plan needs {} of work space, there are {}",
                     format_bytes(plan.workspace_bytes()), format_bytes(bytes));
}

/// The heads of a call for which cuDNN has plans in that much memory; nothing: there are none.
Parts parts_of(Cudnn& cudnn, const AttentionShape& shape, bool backward, Index bytes) {
  if (!backward) {
    const std::string obstacle =
        obstacle_of(cudnn.plan(call_of(shape, false, shape.sequences, shape.heads)), bytes);
    if (obstacle.empty()) return {shape.sequences, shape.heads};
    refusals.note(backward, obstacle);
    return {0, 0};
  }
  std::string obstacle =
      fmt::format("{} of work space hold no group of heads", format_bytes(bytes));
  // Another version may take more than was foreseen.
  for (Index heads = cudnn_heads_together(shape, bytes); heads > 0;
       heads = heads / 2 / shape.group() * shape.group()) {
    const Parts parts = Parts::of(shape, heads);
    if (!parts.stay_aligned(shape)) {
      obstacle = fmt::format("parts of sequences of {} tokens are not aligned", shape.tokens);
      break;
    }
    const bool fit = each_call(shape, parts, [&](Index sequences, Index some, Index, Index) {
      obstacle = obstacle_of(cudnn.plan(call_of(shape, true, sequences, some)), bytes);
      return obstacle.empty();
    });
    if (fit) return parts;
  }
  refusals.note(backward, obstacle);
  return {0, 0};
}

CudnnStart start(const CudaContext& context, const AttentionShape& shape, bool backward,
                 const TaskArrays& arrays) {
  Cudnn* cudnn = cudnn_of(context, backward);
  if (cudnn == nullptr) return {};
  const Parts parts = parts_of(*cudnn, shape, backward, context.workspace_bytes);
  if (parts.heads == 0) return {};
  std::string fault = cudnn->handle.use(context.stream);
  each_call(shape, parts, [&](Index sequences, Index heads, Index sequence, Index head) {
    if (fault.empty())
      fault = cudnn->plan(call_of(shape, backward, sequences, heads))
                  .run(cudnn->handle, arrays.from(shape, sequence, head), context.workspace);
    return fault.empty();
  });
  return fault.empty() ? CudnnStart{true, nullptr} : cudnn->failed(fault);
}

}  // namespace

void choose_attention(const std::string& name, int capability) {
  expect(name == "auto" || name == "own" || name == "cudnn",
         "attention by '{}': must be auto, own or cudnn", name);
  by_cudnn = false;
  refusals.forget();
  if (name == "own" || (name == "auto" && capability < kLeastCapability)) return;
  const std::string& obstacle = load_cudnn();
  expect(
      obstacle.empty() || name == "auto",
      "train.attention=cudnn: cuDNN cannot be loaded: {}: choose auto or own, or name its folder "
      "in LD_LIBRARY_PATH",
      obstacle);
  by_cudnn = obstacle.empty();
}

bool cudnn_is_chosen() {
  return by_cudnn.load(std::memory_order_relaxed);
}

std::string gpu_attention() {
  if (!cudnn_is_chosen()) return "own kernels";
  const std::string why = attention_refusals();
  return "cuDNN " + cudnn_version() + (why.empty() ? "" : ", but by own kernels " + why);
}

std::string attention_refusals() {
  return refusals.text();
}

CudnnStart attention_forward_cudnn(const CudaContext& context, DType type,
                                   const AttentionShape& shape, const void* qkv, void* out,
                                   float* logsumexp) {
  if (!suits(type, shape) || !are_aligned(qkv, static_cast<const void*>(out), logsumexp)) {
    note_heads(type, shape, /*backward=*/false);
    return {};
  }
  return start(context, shape, /*backward=*/false,
               {static_cast<const BF16*>(qkv), static_cast<const BF16*>(out), logsumexp});
}

CudnnStart attention_backward_cudnn(const CudaContext& context, DType type,
                                    const AttentionShape& shape, const void* qkv, const void* out,
                                    const float* logsumexp, const void* dout, void* dqkv) {
  if (!suits(type, shape) ||
      !are_aligned(qkv, out, logsumexp, dout, static_cast<const void*>(dqkv))) {
    note_heads(type, shape, /*backward=*/true);
    return {};
  }
  return start(context, shape, /*backward=*/true,
               {static_cast<const BF16*>(qkv), static_cast<const BF16*>(out), logsumexp,
                static_cast<const BF16*>(dout), static_cast<BF16*>(dqkv)});
}

void prepare_attention(const CudaContext& context, DType type, const AttentionShape& shape) {
  if (!cudnn_is_chosen()) return;
  for (const bool backward : {false, true}) {
    if (!suits(type, shape))
      note_heads(type, shape, backward);
    else if (Cudnn* cudnn = cudnn_of(context, backward))
      static_cast<void>(parts_of(*cudnn, shape, backward, context.workspace_bytes));
  }
}

}  // namespace dos::codelets
