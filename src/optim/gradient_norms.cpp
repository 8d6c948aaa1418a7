// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_norms.hpp"

#include <span>

#include "codelets/reduce/reduce_codelet.hpp"
#include "optim/priority.hpp"

namespace dos::optim {
namespace {

std::unique_ptr<rt::Handle> make_scalar(rt::Session& session, const std::string& name, DType type) {
  return std::make_unique<rt::Handle>(
      session,
      rt::HandleSpec{.name = name, .type = type, .count = 1, .category = MemoryCategory::kStates});
}

std::unique_ptr<rt::Handle> make_factor(rt::Session& session, const std::string& name) {
  auto factor = make_scalar(session, name, DType::kF32);
  rt::HostAccess(*factor, rt::Mode::kWrite).as<float>()[0] = 1.0F;
  return factor;
}

}  // namespace

GradientNorms::GradientNorms(rt::Session& session, const tensor::ParameterSet& parameters,
                             float clip)
    : parameters_(parameters), clip_(clip), global_factor_(make_factor(session, "clip_factor")) {
  if (clip_ > 0) {
    told_factor_ = make_factor(session, "clip_factor.told");
    one_ = make_factor(session, "clip_factor.none");
  }
  const auto& subgroups = parameters.layout().subgroups;
  sums_.resize(subgroups.size());
  if (clip_ <= 0) {
    factors_.resize(subgroups.size());
    norms_.resize(subgroups.size());
  }
  for (std::size_t i = 0; i < subgroups.size(); ++i) {
    if (!subgroups[i].trained) continue;
    sums_[i] = make_scalar(session, "sum_of_squares." + subgroups[i].name, DType::kF64);
    if (clip_ > 0) continue;
    factors_[i] = make_factor(session, "factor." + subgroups[i].name);
    norms_[i] = make_scalar(session, "norm." + subgroups[i].name, DType::kF64);
  }
}

Index GradientNorms::bytes(Index subgroups, float clip) {
  const Index scalar = size_of(DType::kF32);
  const Index wide = size_of(DType::kF64);
  return wide * subgroups + scalar + (clip > 0 ? 2 * scalar : subgroups * (scalar + wide));
}

rt::Condition GradientNorms::is_clipped() const {
  return {.holds = [](const void* factor) { return *static_cast<const float*>(factor) != 1.0F; },
          .what = told_factor_->home()};
}

const rt::Handle& GradientNorms::factor_of(Index subgroup) const {
  return factors_.empty() ? *global_factor_ : *factors_[static_cast<std::size_t>(subgroup)];
}

void GradientNorms::drop_sums() const {
  for (const auto& sum : sums_)
    if (sum != nullptr) sum->drop_copies();
}

void GradientNorms::submit(rt::Submitter& submitter, const rt::Handle& norm,
                           tensor::ParameterListener* listener, bool tells,
                           const std::function<bool(Index)>& is_prompt) const {
  submitter.set_phase(rt::Phase::kReduce);
  const auto& subgroups = parameters_.layout().subgroups;
  std::vector<const rt::Handle*> sums;
  for (const auto& sum : sums_) sums.push_back(sum.get());
  // Where gradients are: those of all ranks are added on the host. Never where there is time, as a
  // GPU and a CPU add squares in other orders.
  const int worker = listener == nullptr ? rt::kAnyModelWorker : rt::kAnyCpuWorker;
  const auto options = [&](const char* label, int priority = kNormPriority) {
    return rt::TaskOptions{.priority = priority, .label = label, .worker = worker};
  };
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto index = static_cast<Index>(i);
    if (sums[i] == nullptr || !parameters_.ownership().owns(index)) continue;
    const rt::TaskOptions of_one = options(
        subgroups[i].name.c_str(), is_prompt && is_prompt(index) ? kPromptPriority : kNormPriority);
    codelets::submit<codelets::SumOfSquares>(
        submitter, {.x = parameters_.sums()[index], .sum = *sums[i]}, of_one);
    if (!factors_.empty())
      codelets::submit<codelets::CombineNorm>(
          submitter, {.factor = *factors_[i], .norm = *norms_[i], .sums = std::span(&sums[i], 1)},
          {.max_norm = 0}, of_one);
  }
  if (listener != nullptr) listener->share_sums(sums);
  std::erase(sums, nullptr);
  codelets::submit<codelets::CombineNorm>(submitter,
                                          {.factor = *global_factor_, .norm = norm, .sums = sums},
                                          {.max_norm = clip_}, options("global norm"));
  if (tells)
    codelets::submit<codelets::TellFactor>(submitter,
                                           {.factor = *global_factor_, .told = *told_factor_},
                                           {.priority = kNormPriority, .label = "clip factor"});
}

}  // namespace dos::optim
