// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/adamw_codelet.hpp"

#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct Args {
  AdamWStep step;
  Index count;
};

void adamw_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  simd::dispatch([&]<simd::Isa kIsa>() {
    adamw_cpu<kIsa>(args.step, args.count, *task.pointer<const float>(4),
                    task.pointer<const float>(3), task.pointer<float>(0), task.pointer<float>(1),
                    task.pointer<float>(2));
  });
}

}  // namespace

const rt::Codelet& adamw_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<adamw_task>(
      {.symbol = "dos.update.adamw.f32.v1",
       .modes = {Mode::kReadWrite, Mode::kReadWrite, Mode::kReadWrite, Mode::kRead, Mode::kRead},
       .tail = {}});
  return codelet;
}

void submit_adamw(rt::Submitter& submitter, const AdamWStep& step, const UpdateBuffers& buffers,
                  const rt::TaskOptions& options) {
  const Index count = buffers.parameters.count();
  // Counted in adamw_element, one for the clip factor.
  constexpr double kOperations = 18;
  submitter.submit(adamw_codelet(),
                   buffer_list({&buffers.parameters, &buffers.first_moment, &buffers.second_moment,
                                &buffers.gradient, &buffers.clip}),
                   Args{step, count}, {kOperations * static_cast<double>(count), {count}}, options);
}

}  // namespace dos::codelets
