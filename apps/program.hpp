// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/parser.hpp"
#include "config/key_description.hpp"

namespace dos::apps {

struct Example {
  std::string command;
  std::string what;
};

/// What --help, the manual page and completions of shells say of a program beside what its options
/// say of themselves.
struct Program {
  const char* name;
  std::vector<Example> examples;               ///< at least one
  std::vector<config::KeyDescription> keys{};  ///< what --set knows
  std::string keys_in_help{};                  ///< the part of the footer that lists them
};

/// The text behind --version: "0.1.0 (<revision>)".
std::string version_text();

/// The program as one JSON object: name, version, description, options and arguments with their
/// values, keys of --set, examples and notes (docs/schemas/program.schema.json).
std::string describe(const Parser& app, const Program& program);

/// Sets the standard streams up, adds --version, and the examples to the end of the help; then
/// reads the command line. A value: the program ends with this status, after it has printed its
/// help, its version, its description (--describe, alone) or one line that says what is wrong.
std::optional<int> read_command_line(Parser& app, const Program& program, int argc, char** argv);

}  // namespace dos::apps
