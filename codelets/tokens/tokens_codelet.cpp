// SPDX-License-Identifier: Apache-2.0
#include "codelets/tokens/tokens_codelet.hpp"

#include <cstring>

#include "base/error.hpp"
#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

struct Args {
  Index count;
};

void load_tokens_task(const rt::TaskView& task) {
  const auto values = task.payload();
  std::memcpy(task.pointer<std::int32_t>(0), values.data(), values.size());
}

}  // namespace

const rt::Codelet& load_tokens_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<load_tokens_task>(
      {.symbol = "dos.load_tokens.i32.v1", .modes = {rt::Mode::kWrite}, .tail = {}});
  return codelet;
}

void submit_load_tokens(rt::Submitter& submitter, std::span<const std::int32_t> values,
                        const rt::Handle& tokens, const rt::TaskOptions& options) {
  const auto count = static_cast<Index>(values.size());
  require(count == tokens.count(), "as many tokens as the buffer holds");
  submitter.submit(load_tokens_codelet(), buffer_list({&tokens}), Args{count}, {0, {count}},
                   options, std::as_bytes(values));
}

}  // namespace dos::codelets
