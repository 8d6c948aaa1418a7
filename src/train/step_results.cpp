// SPDX-License-Identifier: Apache-2.0
#include "train/step_results.hpp"

#include <fmt/format.h>

#include <string>

namespace dos::train {
namespace {

std::unique_ptr<rt::Handle> make_scalar(rt::Session& session, std::string name) {
  return std::make_unique<rt::Handle>(session, rt::HandleSpec{.name = std::move(name),
                                                              .type = DType::kF64,
                                                              .count = 1,
                                                              .category = MemoryCategory::kData});
}

}  // namespace

StepResults::StepResults(rt::Session& session, Index run_ahead)
    : validation_loss_(make_scalar(session, "validation_loss")) {
  for (Index i = 0; i <= run_ahead; ++i)
    slots_.push_back({.loss = make_scalar(session, fmt::format("loss{}", i)),
                      .norm = make_scalar(session, fmt::format("gradient_norm{}", i))});
}

const StepResults::Slot& StepResults::slot(Index step) const {
  return slots_[static_cast<std::size_t>(step % std::ssize(slots_))];
}

Index StepResults::bytes(Index run_ahead) {
  return size_of(DType::kF64) * (2 * (run_ahead + 1) + 1);
}

double read_scalar(const rt::Handle& handle) {
  return rt::HostAccess(handle, rt::Mode::kRead).as<const double>()[0];
}

}  // namespace dos::train
