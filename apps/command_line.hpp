// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "base/error.hpp"

namespace dos::apps {

/// For options whose value cannot be empty: a path that a script has left unset would be taken for
/// an option that was not given.
inline CLI::Validator not_empty() {
  return {[](const std::string& value) {
            return value.empty() ? std::string("must not be empty") : std::string();
          },
          ""};
}

/// Prints what ended the program, one line, and returns its status. What no user can cause is
/// presented as the defect that it is.
inline int report_failure(const char* program, const std::exception& error) {
  const auto is = [&]<class E>(const E*) { return dynamic_cast<const E*>(&error) != nullptr; };
  const bool is_users = is(static_cast<const Error*>(nullptr)) ||
                        is(static_cast<const CLI::Error*>(nullptr)) ||
                        is(static_cast<const std::system_error*>(nullptr));
  if (is_users)
    fmt::print(stderr, "{}: error: {}\n", program, error.what());
  else if (is(static_cast<const std::bad_alloc*>(nullptr)))
    fmt::print(stderr,
               "{}: error: out of memory: use a smaller model or input, or raise the limit\n",
               program);
  else
    fmt::print(stderr,
               "{}: internal error: {}; this is a defect of the program, not of its input: please "
               "report it with the command and the output of train_gpt --version\n",
               program, error.what());
  return EXIT_FAILURE;
}

}  // namespace dos::apps
