// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rt/mode.hpp"
#include "rt/task_view.hpp"

struct starpu_codelet;

namespace dos::rt {

/// What a codelet is: declared once, in one place, never changed at submission.
struct CodeletSpec {
  /// "dos.<op>.<dtype>.v<N>": name in traces and of the history-based performance model. N grows
  /// when the kernel's cost changes, so that old measurements are not reused.
  const char* symbol = nullptr;
  /// Access modes of the buffers, in order.
  std::vector<Mode> modes;
  /// Mode of any number of further buffers (the row blocks of a weight), if the codelet takes them.
  std::optional<Mode> tail;
};

/// One StarPU codelet with its performance model. Lives as long as the program: tasks and StarPU's
/// models refer to it.
class Codelet {
 public:
  using Function = void (*)(void** buffers, void* argument);

  Codelet(CodeletSpec spec, Function cpu);
  Codelet(const Codelet&) = delete;
  Codelet& operator=(const Codelet&) = delete;
  ~Codelet();

  [[nodiscard]] const char* symbol() const { return spec_.symbol; }
  [[nodiscard]] const CodeletSpec& spec() const { return spec_; }
  [[nodiscard]] Mode mode(Index buffer) const;
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

namespace detail {
template <void (*kCpu)(const TaskView&)>
void cpu_thunk(void** buffers, void* argument) noexcept {
  run_guarded(kCpu, TaskView(buffers, argument));
}
}  // namespace detail

/// A codelet whose CPU implementation is `kCpu`.
template <void (*kCpu)(const TaskView&)>
Codelet make_codelet(CodeletSpec spec) {
  return Codelet(std::move(spec), &detail::cpu_thunk<kCpu>);
}

}  // namespace dos::rt
