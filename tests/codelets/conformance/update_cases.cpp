// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/cases.hpp"
#include "codelets/update/update_codelet.hpp"

namespace dos::test {
namespace {

using namespace codelets;

constexpr Index kCount = 101;  // a chunk of 64, two vectors of 16 and a rest

/// Buffers in the order of the codelet: p, states (apart: the old ones, and then others), w, g,
/// clip.
struct Layout {
  Layout(const UpdateKind& kind, UpdateForm form)
      : states(std::ssize(all_rules()[static_cast<std::size_t>(kind.rule)].states)),
        has_working(kind.working != DType::kF32),
        in_place(form == UpdateForm::kInPlace) {}

  Index states;
  bool has_working;
  bool in_place;

  [[nodiscard]] Index values() const { return in_place ? 0 : 1 + states; }
  [[nodiscard]] Index working() const { return values() + 1 + states; }
  [[nodiscard]] Index gradient() const { return working() + (has_working ? 1 : 0); }
  [[nodiscard]] Index clip() const { return gradient() + 1; }
};

std::vector<Buffer> buffers_of(const Layout& layout, const UpdateKind& kind) {
  // Positive: a second moment must not be negative.
  std::vector<Buffer> buffers;
  for (Index i = 0; i <= layout.states; ++i) {
    const Values values = i == 0 ? Values::kUniform : Values::kPositive;
    buffers.push_back(layout.in_place ? updates(kCount, values) : reads(kCount, values));
  }
  for (Index i = 0; !layout.in_place && i <= layout.states; ++i) buffers.push_back(writes(kCount));
  if (layout.has_working) buffers.push_back(writes(kCount, kind.working));
  buffers.push_back(reads(kCount, Values::kUniform, kind.gradient));
  buffers.push_back(reads(1, Values::kPositive));
  return buffers;
}

void submit(rt::Submitter& submitter, const Handles& h, const UpdateKind& kind, UpdateForm form,
            const StepBytes& step) {
  const Layout layout(kind, form);
  std::vector<const rt::Handle*> states;
  std::vector<const rt::Handle*> old_states;
  for (Index s = 0; s < layout.states; ++s) {
    states.push_back(&h[layout.values() + 1 + s]);
    if (!layout.in_place) old_states.push_back(&h[1 + s]);
  }
  submit_update(submitter, kind.rule, step,
                {.parameters = h[layout.values()],
                 .states = states,
                 .working = layout.has_working ? &h[layout.working()] : nullptr,
                 .gradient = h[layout.gradient()],
                 .clip = h[layout.clip()],
                 .old_parameters = layout.in_place ? nullptr : &h[0],
                 .old_states = old_states,
                 .is_redone = form == UpdateForm::kRedo},
                {});
}

void run_kernel(const Memory& m, const UpdateKind& kind, UpdateForm form, const StepBytes& step) {
  const Layout layout(kind, form);
  UpdateArrays arrays{};
  arrays.count = kCount;
  arrays.clip = m.at<float>(layout.clip());
  arrays.g = m.at<void>(layout.gradient());
  arrays.p = m.at<float>(layout.values());
  if (!layout.in_place) arrays.old_p = m.at<float>(0);
  for (Index s = 0; s < layout.states; ++s) {
    arrays.states[s] = m.at<float>(layout.values() + 1 + s);
    if (!layout.in_place) arrays.old_states[s] = m.at<float>(1 + s);
  }
  arrays.w = layout.has_working ? m.at<BF16>(layout.working()) : nullptr;
  simd::dispatch([&]<simd::Isa kIsa>() { update_cpu<kIsa>(kind)(step.bytes, arrays); });
}

}  // namespace

std::vector<Case> update_cases() {
  std::vector<Case> cases;
  constexpr const char* kSuffixes[] = {"", "_apart", "_redone"};
  for (const UpdateForm form : kUpdateForms)
    for (const UpdateKind& kind : all_update_kinds()) {
      const RuleInfo& rule = all_rules()[static_cast<std::size_t>(kind.rule)];
      const StepBytes step = rule.step(
          {.beta1 = 0.9F, .beta2 = 0.95F, .momentum = 0.9F, .eps = 1e-8F, .weight_decay = 0.1F},
          1e-3F, 3);
      cases.push_back(
          {.name = std::string(rule.name) + "_" + name_of(kind.gradient) + "_" +
                   name_of(kind.working) + kSuffixes[static_cast<std::size_t>(form)],
           .codelet = &update_codelet(kind, form),
           .buffers = buffers_of(Layout(kind, form), kind),
           .submit = [=](rt::Submitter& s, const Handles& h) { submit(s, h, kind, form, step); },
           .kernel = [=](const Memory& m) { run_kernel(m, kind, form, step); }});
    }
  return cases;
}

}  // namespace dos::test
