// SPDX-License-Identifier: Apache-2.0
#include "apps/command_line.hpp"

#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/shortened.hpp"
#include "base/streams.hpp"

namespace dos::apps {
namespace {

constexpr const char* kNoMemory =
    "{}: error: out of memory: use a smaller model or input, or raise the limit\n";

const char* program_name = "";

/// Libraries have threads of their own, whose exceptions nobody catches.
[[noreturn]] void end_thread() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    streams::say(kNoMemory, program_name);
    std::_Exit(EXIT_FAILURE);
  } catch (const std::exception& error) {
    std::_Exit(report_failure(program_name, error));
  } catch (...) {
  }
  std::abort();
}

}  // namespace

void expect_exceptions_of_threads(const char* program) {
  program_name = program;
  std::set_terminate(&end_thread);
}

void add_precision(Parser& parser, DType& type) {
  parser
      .add_option_function(
          "--precision",
          [&type](const std::string& name) { type = name == "bf16" ? DType::kBF16 : DType::kF32; },
          "that the model computes in: fp32 or bf16, which takes half of the memory")
      .default_str("fp32")
      .check(one_of({"fp32", "bf16"}));
}

int report_failure(const char* program, const std::exception& error) {
  const auto is = [&]<class E>(const E*) { return dynamic_cast<const E*>(&error) != nullptr; };
  const bool is_users = is(static_cast<const Error*>(nullptr)) || is_of_parser(error) ||
                        is(static_cast<const std::system_error*>(nullptr));
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    streams::say(
        "{}: error: a thread cannot be started: raise the limits (ulimit -u, ulimit -v), end other "
        "programs, or ask for fewer threads\n",
        program);
  else if (is_users)
    streams::say("{}: error: {}\n", program, shortened(error.what()));
  else if (is(static_cast<const std::bad_alloc*>(nullptr)))
    streams::say(kNoMemory, program);
  else
    streams::say(
        "{}: internal error: {}; this is a defect of the program, not of its input: please "
        "report it with the command and the output of train_gpt --version\n",
        program, shortened(error.what()));
  return EXIT_FAILURE;
}

}  // namespace dos::apps
