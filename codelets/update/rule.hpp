// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include <cstddef>

#include "base/host_device.hpp"
#include "base/types.hpp"

/// Optimizers that update every parameter from itself, its gradient and its own states. A rule is a
/// struct in a file of its own, rules/<name>.hpp:
///
/// - kName: the name in the configuration, which is the file's
/// - kStates: names of the FP32 states of a parameter, as checkpoints call them; they start at 0
/// - kOperations: floating-point operations of element() that depend on the parameter
/// - Step: FP32 numbers that are the same for all parameters of a step
/// - element(): the update of one parameter; g is the clipped gradient
/// - step(): Step of step number `step`, counted from 1
///
/// Step and element() are compiled as C++, CUDA and OpenCL C from the same lines, those between the
/// comments "OpenCL C begins" and "OpenCL C ends": no references, templates, namespaces, casts in
/// C++ notation or library functions but square_root(). The CPU kernels pass element() addresses in
/// the arrays: it reads what it overwrites before it does.
namespace dos::codelets {

/// What the user chooses; a rule takes what it needs.
struct Hyperparameters {
  float beta1;
  float beta2;
  float momentum;
  float eps;
  float weight_decay;  ///< decoupled: p loses lr * weight_decay * p a step, whatever the rule
};

/// With p, w, g and the clip factor 8 buffers, as many as a task lists without allocation; sums: 9.
inline constexpr int kMostStates = 4;

/// A rule's Step, as bytes.
struct StepBytes {
  static constexpr std::size_t kMost = 56;
  alignas(8) std::byte bytes[kMost];
};

/// Numbers of states of a rule.
template <class Rule>
inline constexpr int kStatesOf = sizeof(Rule::kStates) / sizeof(Rule::kStates[0]);

/// 1 / (1 - beta^step), which makes a running mean that started at 0 unbiased.
float inverse_bias(float beta, Index step);

/// The C function instead of std::sqrt: rules are compiled for several instruction sets.
DOS_HD static float square_root(float x) {
  return sqrtf(x);
}

}  // namespace dos::codelets
