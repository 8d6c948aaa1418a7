// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codelets/kernel_test.hpp"
#include "codelets/update/update.hpp"
#include "reference/tracked.hpp"

/// What every update rule must compute on every device, for every type of gradient and working
/// parameters. Rules enrol by standing in codelets/update/rules/all_rules.hpp and
/// tests/reference/all.hpp.
namespace dos::test {

/// The numbers of one update in host memory, with guard elements around.
struct UpdateData {
  codelets::UpdateKind kind;
  codelets::StepBytes step;
  float clip;
  std::unique_ptr<Guarded<float>> g32;  ///< FP32 gradients, or null
  std::unique_ptr<Guarded<BF16>> g16;   ///< BF16 gradients, or null
  std::unique_ptr<Guarded<float>> p;
  std::vector<std::unique_ptr<Guarded<float>>> states;
  std::unique_ptr<Guarded<BF16>> w;  ///< or null

  [[nodiscard]] Index count() const { return std::ssize(p->view()); }
  [[nodiscard]] float gradient(Index i) const;
  [[nodiscard]] codelets::UpdateArrays arrays() const;
};

/// Something that runs updates.
struct UpdateDevice {
  std::string name;
  reference::Arithmetic arithmetic;
  std::function<void(UpdateData&)> update;
};

std::vector<codelets::UpdateKind> update_kinds();
/// "lion_bf16_f32": rule, gradient, working parameters.
std::string name_of(const codelets::UpdateKind& kind);

/// Runs every case of the suite on the device; failures are reported to GoogleTest.
void expect_conforming(const UpdateDevice& device, const codelets::UpdateKind& kind);

/// Inputs with every size and every kind of number, as expect_conforming() takes them, for
/// comparing two devices.
std::vector<UpdateData> update_inputs(const codelets::UpdateKind& kind);

/// Calls `update` with arrays like those of `data`, whose values are in memory of their own and not
/// made in place; `data` then has what it made, and the guards of both are looked at.
void update_apart(UpdateData& data,
                  const std::function<void(const codelets::UpdateArrays&)>& update);

/// Inputs of an update with that many normal numbers.
UpdateData normal_input(const codelets::UpdateKind& kind, Index count);

/// True when both hold the same bits; one NaN is as good as another.
bool same_results(const UpdateData& a, const UpdateData& b);

}  // namespace dos::test
