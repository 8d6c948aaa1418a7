// SPDX-License-Identifier: Apache-2.0
#include "codelets/collect/collect_codelet.hpp"

#include "codelets/by_type.hpp"
#include "codelets/collect/collect.hpp"
#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct Args {
  Index count;
};

template <class T, bool kFirst>
void gradient_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    add_gradient_cpu<kIsa>(task.args<Args>().count, kFirst, task.pointer<const T>(1),
                           task.pointer<float>(0));
  });
}

void pack_task(const rt::TaskView& task) {
  double* packed = task.pointer<double>(0);
  for (const double* scalar : task.pointers_from<const double>(1)) *packed++ = *scalar;
}

void unpack_task(const rt::TaskView& task) {
  const double* packed = task.pointer<const double>(0);
  for (double* scalar : task.pointers_from<double>(1)) *scalar = *packed++;
}

void submit_gradient(const rt::Codelet& codelet, rt::Submitter& submitter, const rt::Handle& x,
                     const rt::Handle& sum, const rt::TaskOptions& options) {
  require(sum.type() == DType::kF32 && x.count() >= sum.count(),
          "as many elements as the FP32 sum");
  submitter.submit(codelet, buffer_list({&sum, &x}), Args{sum.count()},
                   {static_cast<double>(sum.count()), {sum.count()}}, options);
}

void submit_scalars(const rt::Codelet& codelet, rt::Submitter& submitter, const rt::Handle& packed,
                    std::span<const rt::Handle* const> scalars, const rt::TaskOptions& options) {
  require(packed.count() == std::ssize(scalars), "one element a scalar");
  if (scalars.empty()) return;
  std::vector<const rt::Handle*> buffers{&packed};
  buffers.insert(buffers.end(), scalars.begin(), scalars.end());
  submitter.submit(codelet, buffers, Args{packed.count()},
                   {static_cast<double>(packed.count()), {packed.count()}}, options);
}

}  // namespace

const rt::Codelet& take_gradient_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<gradient_task<T, true>>({.symbol = symbol_of<T>("take_gradient", 1),
                                                     .modes = {Mode::kWrite, Mode::kRead},
                                                     .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& add_gradient_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<gradient_task<T, false>>({.symbol = symbol_of<T>("add_gradient", 1),
                                                      .modes = {Mode::kReadWrite, Mode::kRead},
                                                      .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& pack_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<pack_task>(
      {.symbol = "dos.pack.f64.v1", .modes = {Mode::kWrite}, .tail = Mode::kRead});
  return codelet;
}

const rt::Codelet& unpack_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<unpack_task>(
      {.symbol = "dos.unpack.f64.v1", .modes = {Mode::kRead}, .tail = Mode::kWrite});
  return codelet;
}

void submit_take_gradient(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& sum,
                          const rt::TaskOptions& options) {
  submit_gradient(take_gradient_codelet(x.type()), submitter, x, sum, options);
}

void submit_add_gradient(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& sum,
                         const rt::TaskOptions& options) {
  submit_gradient(add_gradient_codelet(x.type()), submitter, x, sum, options);
}

void submit_pack(rt::Submitter& submitter, std::span<const rt::Handle* const> scalars,
                 const rt::Handle& packed, const rt::TaskOptions& options) {
  submit_scalars(pack_codelet(), submitter, packed, scalars, options);
}

void submit_unpack(rt::Submitter& submitter, const rt::Handle& packed,
                   std::span<const rt::Handle* const> scalars, const rt::TaskOptions& options) {
  submit_scalars(unpack_codelet(), submitter, packed, scalars, options);
}

}  // namespace dos::codelets
