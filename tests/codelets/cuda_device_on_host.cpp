// SPDX-License-Identifier: Apache-2.0
// The device of cuda_device.hpp where kernels run on the host: its memory is the host's, and cuBLAS
// a plain loop.
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "codelets/cuda_device.hpp"
#include "codelets/matrix/gemm_cuda.hpp"
#include "codelets/matrix/whole_vectors.hpp"
#include "codelets/products_on_host.hpp"

namespace dos::test {

namespace {

// Bits that are set in an address of a matrix, or in the distance between its rows.
constexpr std::uint64_t kMostAligned = 256;
std::uint64_t address_bits = kMostAligned;

void note_address(const void* matrix, Index stride, DType type) {
  address_bits |=
      reinterpret_cast<std::uintptr_t>(matrix) | static_cast<std::uint64_t>(stride * size_of(type));
}

}  // namespace

Index take_alignment_of_products() {
  return Index{1} << std::countr_zero(std::exchange(address_bits, kMostAligned));
}

int cuda_devices() {
  return 1;
}

const codelets::CudaContext& cuda_context() {
  constexpr Index kBytes = Index{4} << 20;
  static void* const workspace = [] {
    void* memory = std::aligned_alloc(256, kBytes);
    // What kernels find there must not matter.
    std::memset(memory, 0xFF, kBytes);
    return memory;
  }();
  static const codelets::CudaContext context{nullptr, workspace, kBytes, nullptr};
  return context;
}

const char* wait_for_cuda() {
  return nullptr;
}

// Nothing lies around the array but, for its alignment, before it: the address sanitizer sees what
// is read or written there.
OnGpu::OnGpu(const void* host, Index bytes, Index offset) : bytes_(bytes) {
  if (::posix_memalign(&memory_, 256, static_cast<std::size_t>(offset + bytes)) != 0) std::abort();
  data_ = static_cast<std::byte*>(memory_) + offset;
  if (bytes > 0) std::memcpy(data_, host, static_cast<std::size_t>(bytes));
}

OnGpu::~OnGpu() {
  std::free(memory_);
}

void OnGpu::copy_to(void* host) const {
  if (bytes_ > 0) std::memcpy(host, data_, static_cast<std::size_t>(bytes_));
}

}  // namespace dos::test

namespace dos::codelets {
namespace {

float element(const CudaMatrix& m, Index which, Index row, Index column) {
  const Index at =
      which * m.batch_stride + (m.transposed ? column * m.stride + row : row * m.stride + column);
  if (m.type == DType::kF32) return static_cast<const float*>(m.elements)[at];
  return to_float(static_cast<const BF16*>(m.elements)[at]);
}

const char* multiply(const CudaContext& context, Index rows, Index columns, Index inner,
                     const CudaMatrix& a, const CudaMatrix& b, const CudaProductOutput& out,
                     Index batch) {
  // As cuBLAS may, and no kernel may count on what it left there.
  if (context.workspace != nullptr)
    std::memset(context.workspace, 0xFF,
                static_cast<std::size_t>(product_workspace(context.workspace_bytes)));
  test::note_address(a.elements, a.stride, a.type);
  test::note_address(b.elements, b.stride, b.type);
  test::note_address(out.start, out.stride, out.type);
  test::note_address(out.elements, out.stride, out.type);
  test::note_address(out.bias, 0, out.type);
  const CudaMatrix start{out.start, out.type, out.stride, false, out.batch_stride};
  const CudaMatrix bias{out.bias, out.type, 0};
  for (Index which = 0; which < batch; ++which)
    for (Index row = 0; row < rows; ++row)
      for (Index column = 0; column < columns; ++column) {
        float sum = 0;
        for (Index i = 0; i < inner; ++i)
          sum += element(a, which, row, i) * element(b, which, i, column);
        sum *= out.scale;
        if (out.start != nullptr) sum += element(start, which, row, column);
        if (out.bias != nullptr) sum += element(bias, 0, 0, column);
        const Index at = which * out.batch_stride + row * out.stride + column;
        if (out.type == DType::kF32)
          static_cast<float*>(out.elements)[at] = sum;
        else
          static_cast<BF16*>(out.elements)[at] = to_bf16(sum);
      }
  return nullptr;
}

}  // namespace

const char* product_cuda(const CudaContext& context, Index rows, Index columns, Index inner,
                         const CudaMatrix& a, const CudaMatrix& b, const CudaProductOutput& out,
                         Index batch) {
  if (batch != 1) return multiply(context, rows, columns, inner, a, b, out, batch);
  return detail::multiply_whole_vectors(rows, columns, inner, a, b, out, [&](auto... arguments) {
    return multiply(context, arguments..., 1);
  });
}

}  // namespace dos::codelets
