// SPDX-License-Identifier: Apache-2.0
#include "apps/program.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/command_line.hpp"
#include "train/revision.hpp"

namespace dos::apps {
namespace {

using nlohmann::json;

/// The words that an option may be, of a type such as "TEXT:{bf16,fp32}".
std::vector<std::string> words_of(const std::string& type) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

json description_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& each : option.get_snames()) names.push_back("-" + each);
  for (const std::string& each : option.get_lnames()) names.push_back("--" + each);
  const bool takes_value = option.get_expected_max() > 0;
  const std::string type = takes_value ? option.get_type_name() : "";
  const bool is_argument = option.get_positional();
  return {{"names", is_argument ? std::vector{option.get_name(true)} : names},
          {"value", type.substr(0, type.find(':'))},
          {"words", words_of(type)},
          {"help", option.get_description()},
          {"default", takes_value ? option.get_default_str() : ""},
          {"required", option.get_required()},
          {"may_stand_alone", takes_value && option.get_expected_min() == 0}};
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

}  // namespace

std::string version_text() {
  return fmt::format("{} ({})", train::kProgramVersion, train::kSourceRevision);
}

std::string describe(const CLI::App& app, const Program& program) {
  // Pages show keys in their own way.
  std::string notes = app.get_footer();
  if (const std::size_t at = notes.find(program.keys_in_help);
      !program.keys_in_help.empty() && at != std::string::npos)
    notes.erase(at, program.keys_in_help.size());
  json options = json::array();
  json arguments = json::array();
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? arguments : options).push_back(description_of(*option));
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

std::optional<int> read_command_line(CLI::App& app, const Program& program, int argc, char** argv) {
  app.set_version_flag("--version", version_text(), "print version and revision, and stop");
  if (argc == 2 && std::string_view(argv[1]) == "--describe") {
    fmt::print("{}\n", describe(app, program));
    return EXIT_SUCCESS;
  }
  const std::string notes = app.get_footer();
  app.footer(notes +
             (notes.empty()           ? ""
              : notes.ends_with('\n') ? "\n"
                                      : "\n\n") +
             text_of(program.examples));
  return read_command_line(app, program.name, argc, argv);
}

}  // namespace dos::apps
