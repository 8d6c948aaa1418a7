// SPDX-License-Identifier: Apache-2.0
#include "codelets/matrix/onednn.hpp"

#include <fmt/format.h>

#include <compare>
#include <concepts>
#include <cstdint>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.hpp"
#include "codelets/matrix/thread_workspace.hpp"

// OpenMP's function. Its header is the compiler's own, and the library must be the one that oneDNN
// was built with, GCC's.
extern "C" void omp_set_num_threads(int threads);

namespace dos::codelets {
namespace {

using dnnl::memory;

/// What a primitive is made for.
struct Shape {
  Index rows;
  Index columns;
  Index inner;
  Index a_stride;
  Index b_stride;
  Index c_stride;
  bool a_transposed;
  bool b_transposed;
  bool accumulate;

  auto operator<=>(const Shape&) const = default;
};

memory::desc describe(Index rows, Index columns, memory::data_type type, Index stride,
                      bool transposed) {
  return {{rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

/// oneDNN 3 takes what oneDNN 2 has in a description of its own.
template <class Description>
Description describe_product(const dnnl::engine& engine, const memory::desc& a,
                             const memory::desc& b, const memory::desc& c,
                             const dnnl::primitive_attr& attributes) {
  if constexpr (std::constructible_from<Description, const dnnl::engine&, const memory::desc&,
                                        const memory::desc&, const memory::desc&,
                                        const dnnl::primitive_attr&>)
    return {engine, a, b, c, attributes};
  else
    return {{a, b, c}, attributes, engine};
}

dnnl::matmul::primitive_desc describe(const Shape& shape, const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0F);
    attributes.set_post_ops(add);
  }
  using Type = memory::data_type;
  return describe_product<dnnl::matmul::primitive_desc>(
      engine, describe(shape.rows, shape.inner, Type::bf16, shape.a_stride, shape.a_transposed),
      describe(shape.inner, shape.columns, Type::bf16, shape.b_stride, shape.b_transposed),
      describe(shape.rows, shape.columns, Type::f32, shape.c_stride, false), attributes);
}

/// From here on OpenMP gives the calling thread no others, and primitives are made for one.
struct OneThread {
  OneThread() { omp_set_num_threads(1); }
};

/// oneDNN's BF16 products of one thread. Making a primitive takes a millisecond or so, so each is
/// kept: a model has some dozens of shapes.
class Products {
 public:
  void run(const Shape& shape, const BF16* a, const BF16* b, float* c) {
    Prepared& prepared = find(shape);
    // oneDNN takes what it reads as void* too.
    prepared.a.set_data_handle(const_cast<BF16*>(a));
    prepared.b.set_data_handle(const_cast<BF16*>(b));
    prepared.c.set_data_handle(c);
    prepared.scratchpad.set_data_handle(
        workspace_.at_least(prepared.scratchpad.get_desc().get_size()));
    prepared.primitive.execute(stream_, {{DNNL_ARG_SRC, prepared.a},
                                         {DNNL_ARG_WEIGHTS, prepared.b},
                                         {DNNL_ARG_DST, prepared.c},
                                         {DNNL_ARG_SCRATCHPAD, prepared.scratchpad}});
    stream_.wait();
  }

 private:
  struct Prepared {
    dnnl::matmul primitive;
    memory a;
    memory b;
    memory c;
    memory scratchpad;
  };

  Prepared& find(const Shape& shape) {
    const auto found = prepared_.find(shape);
    if (found != prepared_.end()) return found->second;
    const dnnl::matmul::primitive_desc description = describe(shape, engine_);
    const auto unset = [&](const memory::desc& desc) { return memory(desc, engine_, nullptr); };
    return prepared_
        .emplace(shape, Prepared{dnnl::matmul(description), unset(description.src_desc()),
                                 unset(description.weights_desc()), unset(description.dst_desc()),
                                 unset(description.scratchpad_desc())})
        .first->second;
  }

  OneThread one_thread_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Shape, Prepared> prepared_;
  ThreadWorkspace workspace_;
};

bool ask_onednn() {
  try {
    const Shape any{16, 16, 16, 16, 16, 16, false, false, false};
    static_cast<void>(describe(any, dnnl::engine(dnnl::engine::kind::cpu, 0)));
    return true;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return false;
    throw;
  }
}

}  // namespace

bool has_onednn() {
  return true;
}

bool onednn_uses_avx512() {
  static const bool answer = [] {
    const auto mask = [](dnnl::cpu_isa isa) { return static_cast<std::uint32_t>(isa); };
    const std::uint32_t wanted = mask(dnnl::cpu_isa::avx512_core);
    return (mask(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return answer;
}

bool onednn_multiplies_bf16() {
  static const bool answer = ask_onednn();
  return answer;
}

void multiply_by_onednn(Index rows, Index columns, Index inner, MatrixView<BF16> a,
                        MatrixView<BF16> b, bool accumulate, float* c, Index c_stride) {
  thread_local Products products;
  products.run({rows, columns, inner, a.stride, b.stride, c_stride, a.transpose == CblasTrans,
                b.transpose == CblasTrans, accumulate},
               a.elements, b.elements, c);
}

void multiply_by_onednn(Index rows, Index columns, Index inner, MatrixView<float> a,
                        MatrixView<float> b, bool accumulate, float* c, Index c_stride) {
  thread_local const OneThread one_thread;
  const auto letter = [](CBLAS_TRANSPOSE transpose) { return transpose == CblasTrans ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(a.transpose), letter(b.transpose), rows, columns, inner, 1.0F, a.elements,
                 a.stride, b.elements, b.stride, accumulate ? 1.0F : 0.0F, c, c_stride);
  expect(status == dnnl_success,
         "oneDNN: a product of {} x {} x {} failed with status {}: free memory, or set "
         "train.products=openblas",
         rows, columns, inner, static_cast<int>(status));
}

std::string onednn_description() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} (ISA {:#x})", version->major, version->minor, version->patch,
                     static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
}

}  // namespace dos::codelets
