// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/shortened.hpp"
#include "base/types.hpp"

namespace dos::apps {

/// In words, what is wrong with a command line that `app` cannot read.
inline std::string reason(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extra = app.remaining();
  if (extra.empty() || error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError))
    return error.what();
  const bool is_assignment = extra.front().find('=') != std::string::npos &&
                             !extra.front().starts_with('-') &&
                             app.get_option_no_throw("--set") != nullptr;
  if (is_assignment)
    return fmt::format("'{}' stands alone: each key=value needs a --set of its own, as in --set {}",
                       extra.front(), fmt::join(extra, " --set "));
  return fmt::format("'{}' is no option or argument of this program", extra.front());
}

/// Reads the command line. A value: the program ends with this status, after it has printed its
/// help, its version, or one line that says what is wrong.
inline std::optional<int> read_command_line(CLI::App& app, const char* program, int argc,
                                            char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& request) {
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}: error: {}; see {} --help\n", program, shortened(reason(app, error)),
               program);
    return EXIT_FAILURE;
  }
}

/// For options whose value cannot be empty: a path that a script has left unset would be taken for
/// an option that was not given.
inline CLI::Validator not_empty() {
  return {[](const std::string& value) {
            return value.empty() ? std::string("must not be empty") : std::string();
          },
          ""};
}

/// --precision, which says what a trained model computes in.
inline void add_precision(CLI::App& app, DType& type) {
  app.add_option_function<std::string>(
         "--precision",
         [&type](const std::string& name) { type = name == "bf16" ? DType::kBF16 : DType::kF32; },
         "that the model computes in: fp32 or bf16, which takes half of the memory")
      ->default_str("fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
}

/// Prints what ended the program, one line, and returns its status. What no user can cause is
/// presented as the defect that it is.
inline int report_failure(const char* program, const std::exception& error) {
  const auto is = [&]<class E>(const E*) { return dynamic_cast<const E*>(&error) != nullptr; };
  const bool is_users = is(static_cast<const Error*>(nullptr)) ||
                        is(static_cast<const CLI::Error*>(nullptr)) ||
                        is(static_cast<const std::system_error*>(nullptr));
  if (is_users)
    fmt::print(stderr, "{}: error: {}\n", program, shortened(error.what()));
  else if (is(static_cast<const std::bad_alloc*>(nullptr)))
    fmt::print(stderr,
               "{}: error: out of memory: use a smaller model or input, or raise the limit\n",
               program);
  else
    fmt::print(stderr,
               "{}: internal error: {}; this is a defect of the program, not of its input: please "
               "report it with the command and the output of train_gpt --version\n",
               program, shortened(error.what()));
  return EXIT_FAILURE;
}

}  // namespace dos::apps
