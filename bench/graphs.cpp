// SPDX-License-Identifier: Apache-2.0
#include "graphs.hpp"

#include <starpu.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace dos::bench {
namespace {

constexpr double kMicrosecondsAtGflops = 1e-3;

SimulatedSpeeds simulated_speeds;

double duration(starpu_task* task, starpu_perfmodel_arch* arch, unsigned /*implementation*/) {
  const bool on_cpu = arch->devices[0].type == STARPU_CPU_WORKER;
  double gpu_part = 1;
  for (const auto& all : {cholesky_codelets(), training_codelets()})
    for (const GraphCodelet& each : all)
      if (each.codelet.raw() == task->cl) gpu_part = each.gpu_part;
  return task->flops * kMicrosecondsAtGflops /
         (on_cpu ? simulated_speeds.cpu : simulated_speeds.gpu * gpu_part);
}

constexpr const char* kProduct = R"(
__kernel void product(long m, long n, long k, float factor, int transposed, __global const float* a,
                      __global const float* b, __global float* c) {
  const long place = get_global_id(0);
  if (place >= m * n) return;
  const long row = place / n, column = place % n;
  float sum = 0;
  for (long i = 0; i < k; ++i) sum += a[row * k + i] * (transposed ? b[column * k + i] : b[i * n + column]);
  c[place] += factor * sum;
}
)";

}  // namespace

void simulate(const SimulatedSpeeds& speeds) {
  simulated_speeds = speeds;
  for (const auto& all : {cholesky_codelets(), training_codelets()})
    for (const GraphCodelet& each : all) {
      starpu_codelet& raw = *each.codelet.raw();
      raw.model->type = STARPU_PER_ARCH;
      raw.model->arch_cost_function = duration;
      // Never called: not null is all that a simulation asks for.
      raw.cuda_funcs[0] = raw.cpu_funcs[0];
    }
}

rt::OpenclSource product_source() {
  return {.text = kProduct, .kernel = "product"};
}

void run_product(rt::OpenclKernel& kernel, Index m, Index n, Index k, float factor,
                 bool transposed) {
  kernel.add_value(std::int64_t{m});
  kernel.add_value(std::int64_t{n});
  kernel.add_value(std::int64_t{k});
  kernel.add_value(factor);
  kernel.add_value(std::int32_t{transposed ? 1 : 0});
  for (const Index buffer : {0, 1, 2}) kernel.add_buffer(buffer);
  kernel.run(m * n);
}

}  // namespace dos::bench
