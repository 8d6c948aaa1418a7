// SPDX-License-Identifier: Apache-2.0
#include "codelets/reduce/reduce_codelet.hpp"

#include "codelets/by_type.hpp"
#include "codelets/matrix/refs.hpp"
#include "codelets/reduce/reduce.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct SumArgs {
  Index count;
};

struct CombineArgs {
  float max_norm;
};

template <class T>
void sum_of_squares_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    *task.pointer<double>(1) =
        sum_of_squares_cpu<kIsa>(task.args<SumArgs>().count, task.pointer<const T>(0));
  });
}

void combine_norm_task(const rt::TaskView& task) {
  std::vector<double> sums;
  for (const double* sum : task.pointers_from<const double>(2)) sums.push_back(*sum);
  auto* factor = task.pointer<float>(0);
  const ClipResult result = combine_norm(sums, task.args<CombineArgs>().max_norm, *factor);
  *factor = result.factor;
  *task.pointer<double>(1) = result.norm;
}

}  // namespace

const rt::Codelet& sum_of_squares_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<sum_of_squares_task<T>>({.symbol = symbol_of<T>("sum_of_squares", 1),
                                                     .modes = {Mode::kRead, Mode::kWrite},
                                                     .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& combine_norm_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<combine_norm_task>({.symbol = "dos.combine_norm.f64.v1",
                                           .modes = {Mode::kReadWrite, Mode::kWrite},
                                           .tail = Mode::kRead});
  return codelet;
}

void submit_sum_of_squares(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& sum,
                           const rt::TaskOptions& options) {
  submitter.submit(sum_of_squares_codelet(x.type()), buffer_list({&x, &sum}), SumArgs{x.count()},
                   {2.0 * static_cast<double>(x.count()), {x.count()}}, options);
}

void submit_combine_norm(rt::Submitter& submitter, std::span<const rt::Handle* const> sums,
                         float max_norm, const rt::Handle& factor, const rt::Handle& norm,
                         const rt::TaskOptions& options) {
  std::vector<const rt::Handle*> buffers{&factor, &norm};
  buffers.insert(buffers.end(), sums.begin(), sums.end());
  const auto count = static_cast<Index>(sums.size());
  submitter.submit(combine_norm_codelet(), buffers, CombineArgs{max_norm},
                   {static_cast<double>(count), {count}}, options);
}

}  // namespace dos::codelets
