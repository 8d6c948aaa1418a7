// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

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
    fmt::print(stderr, "{}: error: {}; see {} --help\n", program, reason(app, error), program);
    return EXIT_FAILURE;
  }
}

}  // namespace dos::apps
