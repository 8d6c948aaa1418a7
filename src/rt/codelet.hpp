// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "rt/cuda.hpp"
#include "rt/mode.hpp"
#include "rt/opencl.hpp"
#include "rt/task_view.hpp"

struct starpu_codelet;

namespace dos::rt {

/// What a codelet is: declared once, in one place, never changed at submission.
struct CodeletSpec {
  /// "dos.<op>.<dtype>.v<N>": name in traces and of the history-based performance model. N grows
  /// when the kernel's cost changes, so that old measurements are not reused.
  std::string symbol;
  /// Access modes of the buffers, in order.
  std::vector<Mode> modes;
  /// Mode of any number of further buffers (the row blocks of a weight), if the codelet takes them.
  std::optional<Mode> tail;
  /// The program of the OpenCL implementation, if the codelet has one.
  OpenclSource opencl = {};
};

/// One StarPU codelet with its performance model. Lives as long as the program: tasks and StarPU's
/// models refer to it.
class Codelet {
 public:
  using Function = void (*)(void** buffers, void* argument);
  /// Null where a codelet has none.
  struct Implementations {
    Function cpu = nullptr;
    Function opencl = nullptr;
    Function cuda = nullptr;
  };

  /// Leaves out what this StarPU was built without.
  Codelet(CodeletSpec spec, const Implementations& implementations);
  Codelet(const Codelet&) = delete;
  Codelet& operator=(const Codelet&) = delete;
  ~Codelet();

  [[nodiscard]] const char* symbol() const { return spec_.symbol.c_str(); }
  [[nodiscard]] const CodeletSpec& spec() const { return spec_; }
  [[nodiscard]] Mode mode(Index buffer) const;
  /// Whether CUDA and OpenCL workers can run it, as far as this build and its StarPU know them.
  [[nodiscard]] bool runs_on_cuda() const;
  [[nodiscard]] bool runs_on_opencl() const;
  [[nodiscard]] starpu_codelet* raw() const { return raw_.get(); }

 private:
  struct Model;
  CodeletSpec spec_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<starpu_codelet> raw_;
};

/// Runs `implementation`; if it throws, names the running codelet and ends the program: exceptions
/// must not reach StarPU's C code.
void run_guarded(void (*implementation)(const TaskView&), const TaskView& task) noexcept;

/// Implementations of a codelet. The OpenCL one hands its arguments to the kernel and runs it; the
/// CUDA one submits to the stream. Both return before the device is done.
using CpuTask = void (*)(const TaskView&);
using OpenclTask = void (*)(const TaskView&, OpenclKernel&);
using CudaTask = void (*)(const TaskView&, CudaStream);

namespace detail {
template <CpuTask kTask>
void thunk(void** buffers, void* argument) noexcept {
  run_guarded(kTask, TaskView(buffers, argument));
}

template <OpenclTask kTask>
void start_opencl(const TaskView& task) {
  OpenclKernel kernel(task);
  kTask(task, kernel);
}

template <CudaTask kTask>
void start_cuda(const TaskView& task) {
  forget_cuda_error();
  kTask(task, cuda_stream());
}

/// Whether a codelet has this implementation. Types are compared, not addresses: with the sanitizer
/// of undefined behaviour GCC does not take the comparison of a function's address for a constant.
template <auto kTask>
inline constexpr bool kHas = !std::is_same_v<std::integral_constant<decltype(kTask), kTask>,
                                             std::integral_constant<decltype(kTask), nullptr>>;
}  // namespace detail

/// A codelet with the given implementations; null where it has none.
template <CpuTask kCpu, OpenclTask kOpencl = nullptr, CudaTask kCuda = nullptr>
Codelet make_codelet(CodeletSpec spec) {
  Codelet::Implementations functions;
  functions.cpu = &detail::thunk<kCpu>;
  if constexpr (detail::kHas<kOpencl>)
    functions.opencl = &detail::thunk<&detail::start_opencl<kOpencl>>;
  if constexpr (detail::kHas<kCuda>) functions.cuda = &detail::thunk<&detail::start_cuda<kCuda>>;
  return Codelet(std::move(spec), functions);
}

}  // namespace dos::rt
