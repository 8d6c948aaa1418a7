// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/update/update_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr Index kCount = 101;  // a chunk of 64, two vectors of 16 and a rest

/// Buffers in the order of the codelet: p, states, w, g, clip.
struct Layout {
  explicit Layout(const UpdateKind& kind)
      : states(std::ssize(all_rules()[static_cast<std::size_t>(kind.rule)].states)),
        has_working(kind.working != DType::kF32) {}

  Index states;
  bool has_working;

  [[nodiscard]] Index working() const { return 1 + states; }
  [[nodiscard]] Index gradient() const { return working() + (has_working ? 1 : 0); }
  [[nodiscard]] Index clip() const { return gradient() + 1; }
};

std::vector<Buffer> buffers_of(const UpdateKind& kind) {
  const Layout layout(kind);
  std::vector<Buffer> buffers{updates(kCount)};
  // Positive: a second moment must not be negative.
  for (Index s = 0; s < layout.states; ++s) buffers.push_back(updates(kCount, Values::kPositive));
  if (layout.has_working) buffers.push_back(writes(kCount, kind.working));
  buffers.push_back(reads(kCount, Values::kUniform, kind.gradient));
  buffers.push_back(reads(1, Values::kPositive));
  return buffers;
}

void submit(rt::Submitter& submitter, const Handles& h, const UpdateKind& kind,
            const StepBytes& step) {
  const Layout layout(kind);
  std::vector<const rt::Handle*> states;
  for (Index s = 0; s < layout.states; ++s) states.push_back(&h[1 + s]);
  submit_update(submitter, kind.rule, step,
                {.parameters = h[0],
                 .states = states,
                 .working = layout.has_working ? &h[layout.working()] : nullptr,
                 .gradient = h[layout.gradient()],
                 .clip = h[layout.clip()]},
                {});
}

void run_kernel(const Memory& m, const UpdateKind& kind, const StepBytes& step) {
  const Layout layout(kind);
  UpdateArrays arrays{};
  arrays.count = kCount;
  arrays.clip = m.at<float>(layout.clip());
  arrays.g = m.at<void>(layout.gradient());
  arrays.p = m.at<float>(0);
  for (Index s = 0; s < layout.states; ++s) arrays.states[s] = m.at<float>(1 + s);
  arrays.w = layout.has_working ? m.at<BF16>(layout.working()) : nullptr;
  simd::dispatch([&]<simd::Isa kIsa>() { update_cpu<kIsa>(kind)(step.bytes, arrays); });
}

}  // namespace

std::vector<Case> update_cases() {
  std::vector<Case> cases;
  for (const UpdateKind& kind : all_update_kinds()) {
    const RuleInfo& rule = all_rules()[static_cast<std::size_t>(kind.rule)];
    const StepBytes step = rule.step(
        {.beta1 = 0.9F, .beta2 = 0.95F, .momentum = 0.9F, .eps = 1e-8F, .weight_decay = 0.1F},
        1e-3F, 3);
    cases.push_back(
        {.name =
             std::string(rule.name) + "_" + name_of(kind.gradient) + "_" + name_of(kind.working),
         .codelet = &update_codelet(kind),
         .buffers = buffers_of(kind),
         .submit = [=](rt::Submitter& s, const Handles& h) { submit(s, h, kind, step); },
         .kernel = [=](const Memory& m) { run_kernel(m, kind, step); }});
  }
  return cases;
}

}  // namespace dos::test
