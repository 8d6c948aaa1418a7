// SPDX-License-Identifier: Apache-2.0
#include "apps/program.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/command_line.hpp"
#include "base/file.hpp"
#include "base/streams.hpp"
#include "train/revision.hpp"

namespace dos::apps {
namespace {

using nlohmann::json;

json to_json(const OptionDescription& option) {
  return {{"names", option.names},
          {"value", option.value},
          {"words", option.words},
          {"help", option.help},
          {"default", option.default_value},
          {"required", option.required},
          {"may_stand_alone", option.may_stand_alone}};
}

json keys_of(const Program& program) {
  json keys = json::array();
  for (const config::KeyDescription& key : program.keys)
    keys.push_back(
        {{"name", key.name}, {"help", key.help}, {"default", key.value}, {"words", key.words}});
  return keys;
}

std::string text_of(const std::vector<Example>& examples) {
  std::string text = examples.size() == 1 ? "Example:\n" : "Examples:\n";
  for (const Example& each : examples)
    text += fmt::format("  {}\n      {}\n", each.command, each.what);
  return text;
}

/// `status`, or that of an error where standard output could not be written.
int status_when_written(const Program& program, int status) {
  try {
    expect_output_written();
    return status;
  } catch (const std::exception& error) {
    return report_failure(program.name, error);
  }
}

}  // namespace

std::string version_text() {
  return fmt::format("{} ({})", train::kProgramVersion, train::kSourceRevision);
}

std::string describe(const Parser& app, const Program& program) {
  // Pages show keys in their own way.
  std::string notes = app.get_footer();
  if (const std::size_t at = notes.find(program.keys_in_help);
      !program.keys_in_help.empty() && at != std::string::npos)
    notes.erase(at, program.keys_in_help.size());
  json options = json::array();
  json arguments = json::array();
  for (const OptionDescription& option : app.descriptions())
    (option.is_argument ? arguments : options).push_back(to_json(option));
  json examples = json::array();
  for (const Example& each : program.examples)
    examples.push_back({{"command", each.command}, {"what", each.what}});
  return json{{"program", program.name},
              {"version", train::kProgramVersion},
              {"description", app.get_description()},
              {"options", options},
              {"arguments", arguments},
              {"keys", keys_of(program)},
              {"examples", examples},
              {"notes", notes}}
      .dump(1);
}

std::optional<int> read_command_line(Parser& app, const Program& program, int argc, char** argv) {
  streams::set_up();
  expect_exceptions_of_threads(program.name);
  app.set_version_flag("--version", version_text(), "print version and revision, and stop");
  if (argc == 2 && std::string_view(argv[1]) == "--describe") {
    streams::print("{}\n", describe(app, program));
    return status_when_written(program, EXIT_SUCCESS);
  }
  const std::string notes = app.get_footer();
  app.footer(notes +
             (notes.empty()           ? ""
              : notes.ends_with('\n') ? "\n"
                                      : "\n\n") +
             text_of(program.examples));
  const std::optional<int> status = app.parse(program.name, argc, argv);
  return status ? status_when_written(program, *status) : status;
}

}  // namespace dos::apps
