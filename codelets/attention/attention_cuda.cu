// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_cuda.hpp"

#include <climits>
#include <cmath>

#include "codelets/attention/attention_kinds.hpp"
#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"

namespace dos::codelets {
namespace {

using namespace attention;

/// A thread of a block (attention_products.hpp) on the GPU.
class Lane {
 public:
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / kWarp; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ void barrier() const { __syncthreads(); }
  __device__ void sync_warp() const { __syncwarp(); }

  __device__ void copy_word(void* to, const void* from) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
  }
  __device__ void wait_copies() const { asm volatile("cp.async.wait_all;" ::: "memory"); }

  __device__ void load_matrices(std::uint32_t (&r)[4], const BF16* from) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(from))
                 : "memory");
  }
  __device__ void load_transposed(std::uint32_t (&r)[4], const BF16* from) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(from))
                 : "memory");
  }
  __device__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                           std::uint32_t b1) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  __device__ float quad_max(float x) const {
    x = fmaxf(x, __shfl_xor_sync(cuda::kAllLanes, x, 1));
    return fmaxf(x, __shfl_xor_sync(cuda::kAllLanes, x, 2));
  }
  __device__ float quad_sum(float x) const {
    x += __shfl_xor_sync(cuda::kAllLanes, x, 1);
    return x + __shfl_xor_sync(cuda::kAllLanes, x, 2);
  }
  __device__ bool any(bool condition) const { return __any_sync(cuda::kAllLanes, condition) != 0; }
  __device__ std::uint32_t pack(float low, float high) const {
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
  }
  __device__ float exp2(float x) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }

 private:
  __device__ static unsigned shared_address(const void* of) {
    return static_cast<unsigned>(__cvta_generic_to_shared(of));
  }
};

/// Blocks of one launch: heads first .. first + count - 1, each in parts of its rows.
struct Launch {
  AttentionShape shape;
  bool words;
  float scale;
  Index first_head;
  Index heads;
};

extern __shared__ uint4 shared_memory[];

template <class Tiling>
__global__ void __launch_bounds__(Tiling::kThreads)
    forward_kernel(Launch launch, ForwardArrays<typename Tiling::T> arrays) {
  const BlockPlace place =
      block_place(blockIdx.x, launch.heads, launch.shape.queries(), Tiling::kRows, true);
  forward_block<Tiling>(
      Lane{}, head_of(launch.shape, launch.words, launch.scale, arrays, place.head),
      launch.shape.first + place.first_row, reinterpret_cast<typename Tiling::T*>(shared_memory));
}

/// Blocks of queries_kernel that a processor's registers should hold.
constexpr int kBlocksOfQueries = 3;

template <class Tiling>
__global__ void __launch_bounds__(Tiling::kThreads, kBlocksOfQueries)
    queries_kernel(Launch launch, BackwardArrays<typename Tiling::T> arrays) {
  const BlockPlace place =
      block_place(blockIdx.x, launch.heads, launch.shape.tokens, Tiling::kRows, true);
  backward_queries_block<Tiling>(
      Lane{},
      head_of(launch.shape, launch.words, launch.scale, arrays, launch.first_head + place.head),
      place.first_row, reinterpret_cast<typename Tiling::T*>(shared_memory));
}

template <class Tiling>
__global__ void __launch_bounds__(Tiling::kThreads)
    keys_kernel(Launch launch, BackwardArrays<typename Tiling::T> arrays) {
  const Index group = launch.shape.group();
  const BlockPlace place =
      block_place(blockIdx.x, launch.heads / group, launch.shape.tokens, Tiling::kRows, false);
  backward_keys_block<Tiling>(Lane{},
                              head_of(launch.shape, launch.words, launch.scale, arrays,
                                      launch.first_head + place.head * group),
                              place.first_row,
                              reinterpret_cast<typename Tiling::T*>(shared_memory));
}

/// Lanes that share a row of out.
constexpr int kDeltaLanes = 8;

/// delta[head, token] = sum of dout * out over the head.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    delta_kernel(Launch launch, const T* out, const T* dout, float* delta) {
  using cuda::Pack;
  constexpr Index kPack = cuda::kPack<T>;
  const Index rows = launch.heads * launch.shape.tokens;
  const Index lane = threadIdx.x % kDeltaLanes;
  // Whole warps, so that all lanes take part in the sums.
  for (Index first = cuda::global_thread() / kWarp * (kWarp / kDeltaLanes); first < rows;
       first += cuda::global_threads() / kDeltaLanes) {
    const Index row = first + threadIdx.x % kWarp / kDeltaLanes;
    float sum = 0;
    if (row < rows) {
      const Index token = row % launch.shape.tokens;
      const HeadOffsets at =
          head_offsets(launch.shape, launch.first_head + row / launch.shape.tokens);
      const Index start = at.out + token * at.width;
      for (Index i = lane * kPack; i < launch.shape.head_size; i += kDeltaLanes * kPack) {
        Pack<T> a;
        Pack<T> b;
        a.load(out + start + i, launch.shape.head_size - i, launch.words);
        b.load(dout + start + i, launch.shape.head_size - i, launch.words);
#pragma unroll
        for (Index k = 0; k < kPack; ++k) sum += a.get(k) * b.get(k);
      }
    }
    sum = cuda::reduce_warp<kDeltaLanes>(sum, cuda::Add{});
    if (row < rows && lane == 0) delta[row] = sum;
  }
}

/// `heads`: of which each block has a part of the rows.
template <class Kernel, class Arrays>
const char* start(Kernel kernel, const CudaContext& context, const Launch& launch, Index heads,
                  Index rows, int threads, Index shared, const Arrays& arrays) {
  const Index blocks = ceil_div(launch.shape.queries(), rows) * heads;
  if (blocks > INT_MAX) return "more blocks of attention than a launch has";
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(shared));
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
           static_cast<std::size_t>(shared), context.stream>>>(launch, arrays);
  return cuda::launch_fault();
}

template <class Tiling>
const char* forward(const CudaContext& context, const Launch& launch,
                    const ForwardArrays<typename Tiling::T>& arrays) {
  return start(&forward_kernel<Tiling>, context, launch, launch.heads, Tiling::kRows,
               Tiling::kThreads, forward_shared_bytes<Tiling>(), arrays);
}

template <class Tiling>
const char* backward(const CudaContext& context, const Launch& launch,
                     const BackwardArrays<typename Tiling::T>& arrays) {
  constexpr Index kShared = backward_shared_bytes<Tiling>();
  const char* fault = start(&queries_kernel<Tiling>, context, launch, launch.heads, Tiling::kRows,
                            Tiling::kThreads, kShared, arrays);
  if (fault != nullptr) return fault;
  return start(&keys_kernel<Tiling>, context, launch, launch.heads / launch.shape.group(),
               Tiling::kRows, Tiling::kThreads, kShared, arrays);
}

template <class T, class... Arrays>
Launch launch_of(const AttentionShape& shape, const Arrays*... arrays) {
  const bool words =
      (cuda::aligned(arrays) && ...) && cuda::rows_stay_aligned(shape.head_size, Index{sizeof(T)});
  return {shape, words, 1.0F / std::sqrt(static_cast<float>(shape.head_size)), 0,
          shape.sequences * shape.heads};
}

bool is_empty(const AttentionShape& shape) {
  return shape.sequences * shape.tokens * shape.heads * shape.head_size == 0;
}

constexpr const char* kHeadTooLarge =
    "the tiled kernels of attention take heads of at most 128 elements";

}  // namespace

const char* attention_forward_cuda(const CudaContext& context, DType type,
                                   const AttentionShape& shape, const void* qkv, void* out,
                                   float* logsumexp) {
  if (is_empty(shape)) return nullptr;
  if (shape.head_size > kLargestTiledHead) return kHeadTooLarge;
  return cuda::with_element(type, [&]<class T>(T) {
    const Launch launch = launch_of<T>(shape, qkv, static_cast<const void*>(out));
    const ForwardArrays<T> arrays{static_cast<const T*>(qkv), static_cast<T*>(out), logsumexp};
    return shape.head_size <= 64
               ? forward<typename Kinds<T, 64>::Forward>(context, launch, arrays)
               : forward<typename Kinds<T, 128>::Forward>(context, launch, arrays);
  });
}

const char* attention_backward_cuda(const CudaContext& context, DType type,
                                    const AttentionShape& shape, const void* qkv, const void* out,
                                    const float* logsumexp, const void* dout, void* dqkv) {
  if (is_empty(shape)) return nullptr;
  if (shape.head_size > kLargestTiledHead) return kHeadTooLarge;
  // Whole groups of heads, as they share gradients.
  const Index group = shape.group();
  const Index at_a_time =
      context.workspace_bytes / (shape.tokens * Index{sizeof(float)}) / group * group;
  if (at_a_time == 0) return kWorkspaceTooSmall;
  auto* delta = static_cast<float*>(context.workspace);
  return cuda::with_element(type, [&]<class T>(T) {
    Launch launch = launch_of<T>(shape, qkv, out, dout, static_cast<const void*>(dqkv));
    const Index all = launch.heads;
    const char* fault = nullptr;
    for (Index first = 0; fault == nullptr && first < all; first += at_a_time) {
      launch.first_head = first;
      launch.heads = all - first < at_a_time ? all - first : at_a_time;
      const Index rows = launch.heads * shape.tokens;
      delta_kernel<T><<<cuda::blocks_for(rows, cuda::kThreads / kDeltaLanes), cuda::kThreads, 0,
                        context.stream>>>(launch, static_cast<const T*>(out),
                                          static_cast<const T*>(dout), delta);
      const BackwardArrays<T> arrays{static_cast<const T*>(qkv),
                                     static_cast<const T*>(dout),
                                     logsumexp,
                                     delta,
                                     static_cast<T*>(dqkv),
                                     first};
      fault = shape.head_size <= 64
                  ? backward<typename Kinds<T, 64>::Backward>(context, launch, arrays)
                  : backward<typename Kinds<T, 128>::Backward>(context, launch, arrays);
    }
    return fault;
  });
}

}  // namespace dos::codelets
