// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "rt/submitter.hpp"

namespace dos::bench {

/// A task graph to compare schedulers with. Lives no longer than its session.
class Graph {
 public:
  virtual ~Graph() = default;
  /// The same inputs again. Between runs.
  virtual void reset() = 0;
  virtual void submit(rt::Submitter& submitter) = 0;
  /// Throws Error when the results of one run since reset() are wrong. Reads them back.
  virtual void check() const = 0;
};

/// Cholesky factorisation of a matrix of tiles x tiles tiles of size x size floats: POTRF, TRSM,
/// SYRK and GEMM with the usual priorities. GEMM and SYRK have OpenCL kernels.
std::unique_ptr<Graph> make_cholesky(rt::Session& session, Index tiles, Index size);

/// Steps of a model of equal layers, each a product with a width x width matrix: forward of every
/// lane, backward, which adds to the layer's gradient, and an update of the layer, which the next
/// forward waits for. Forward has an OpenCL kernel.
struct TrainingShape {
  Index layers = 12;
  Index width = 512;
  Index lanes = 4;
  Index rows = 128;  ///< of the activations of a lane
  Index steps = 3;
};
std::unique_ptr<Graph> make_training(rt::Session& session, const TrainingShape& shape);

/// Speeds of a simulated node, in GFLOP/s of a matrix product on one CPU worker or GPU.
struct SimulatedSpeeds {
  double cpu = 50;
  double gpu = 5000;
};

/// Makes every codelet of the graphs take the time that its operations take at these speeds, on CPU
/// workers and CUDA GPUs of a StarPU that simulates. Before the first task.
void simulate(const SimulatedSpeeds& speeds);

/// A codelet of a graph, and what part of the speed of a matrix product it reaches on a GPU.
struct GraphCodelet {
  const rt::Codelet& codelet;
  double gpu_part;
};
std::vector<GraphCodelet> cholesky_codelets();
std::vector<GraphCodelet> training_codelets();

/// Kernel `product`: c[m, n] += factor a[m, k] b, with b[n, k] or, if `transposed` is 0, b[k, n].
rt::OpenclSource product_source();
void run_product(rt::OpenclKernel& kernel, Index m, Index n, Index k, float factor,
                 bool transposed);

}  // namespace dos::bench
