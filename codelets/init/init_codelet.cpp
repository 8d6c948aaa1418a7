// SPDX-License-Identifier: Apache-2.0
#include "codelets/init/init_codelet.hpp"

#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct FillArgs {
  HandleRange range;
  float value;
};

struct NormalArgs {
  HandleRange range;
  NormalInit init;
};

void fill_task(const rt::TaskView& task) {
  const auto& args = task.args<FillArgs>();
  fill_cpu(args.range.count, args.value, task.pointer<float>(0) + args.range.offset);
}

void init_normal_task(const rt::TaskView& task) {
  const auto& args = task.args<NormalArgs>();
  init_normal_cpu(args.init, args.range.count, task.pointer<float>(0) + args.range.offset);
}

void round_task(const rt::TaskView& task) {
  round_cpu(task.count(0), task.pointer<const float>(0), task.pointer<BF16>(1));
}

}  // namespace

const rt::Codelet& fill_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<fill_task>(
      {.symbol = "dos.fill.f32.v1", .modes = {Mode::kReadWrite}, .tail = {}});
  return codelet;
}

const rt::Codelet& init_normal_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<init_normal_task>(
      {.symbol = "dos.init_normal.f32.v1", .modes = {Mode::kReadWrite}, .tail = {}});
  return codelet;
}

const rt::Codelet& round_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<round_task>(
      {.symbol = "dos.round.bf16.v1", .modes = {Mode::kRead, Mode::kWrite}, .tail = {}});
  return codelet;
}

void submit_fill(rt::Submitter& submitter, const rt::Handle& handle, const HandleRange& range,
                 float value, const rt::TaskOptions& options) {
  submitter.submit(fill_codelet(), buffer_list({&handle}), FillArgs{range, value},
                   {static_cast<double>(range.count), {range.count}}, options);
}

void submit_init_normal(rt::Submitter& submitter, const rt::Handle& handle,
                        const HandleRange& range, const NormalInit& init,
                        const rt::TaskOptions& options) {
  // Ten rounds of about 14 operations for two numbers, then logarithm, root and cosine.
  submitter.submit(init_normal_codelet(), buffer_list({&handle}), NormalArgs{range, init},
                   {100.0 * static_cast<double>(range.count), {range.count}}, options);
}

void submit_round(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& out,
                  const rt::TaskOptions& options) {
  struct NoArgs {};
  require(x.type() == DType::kF32 && out.type() == DType::kBF16 && x.count() == out.count(),
          "as many BF16 elements as FP32 ones");
  submitter.submit(round_codelet(), buffer_list({&x, &out}), NoArgs{},
                   {static_cast<double>(x.count()), {x.count()}}, options);
}

}  // namespace dos::codelets
