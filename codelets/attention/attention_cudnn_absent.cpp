// SPDX-License-Identifier: Apache-2.0
// In place of attention_cudnn_plan.cpp where a build has no headers of cuDNN: nothing can be
// loaded.
#include "codelets/attention/attention_cudnn_plan.hpp"

namespace dos::codelets {

struct CudnnPlan::Graph {};

const std::string& load_cudnn() {
  static const std::string fault = "this program was built without it (docs/install.md)";
  return fault;
}

std::string cudnn_version() {
  return {};
}

CudnnHandle::CudnnHandle() : fault_(load_cudnn()) {}
CudnnHandle::~CudnnHandle() = default;
std::string CudnnHandle::use(CUstream_st* /*stream*/) const {
  return fault_;
}

CudnnPlan::CudnnPlan(const CudnnCall& /*call*/, const CudnnHandle& /*handle*/)
    : obstacle_(load_cudnn()) {}
CudnnPlan::CudnnPlan(const CudnnCall& /*call*/, const std::string& /*device*/, int /*capability*/,
                     int /*multiprocessors*/)
    : obstacle_(load_cudnn()) {}
CudnnPlan::CudnnPlan(CudnnPlan&&) noexcept = default;
CudnnPlan& CudnnPlan::operator=(CudnnPlan&&) noexcept = default;
CudnnPlan::~CudnnPlan() = default;

std::string CudnnPlan::run(const CudnnHandle& /*handle*/, const CudnnArrays& /*arrays*/,
                           void* /*workspace*/) const {
  return obstacle_;
}

}  // namespace dos::codelets
