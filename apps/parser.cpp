// SPDX-License-Identifier: Apache-2.0
#include "apps/parser.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/shortened.hpp"
#include "base/streams.hpp"

namespace dos::apps {
namespace {

/// The words that an option may be, of a type such as "TEXT:{bf16,fp32}".
std::vector<std::string> words_of(const std::string& type) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

OptionDescription description_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& each : option.get_snames()) names.push_back("-" + each);
  for (const std::string& each : option.get_lnames()) names.push_back("--" + each);
  const bool takes_value = option.get_expected_max() > 0;
  const std::string type = takes_value ? option.get_type_name() : "";
  const bool is_argument = option.get_positional();
  return {.names = is_argument ? std::vector{option.get_name(true)} : names,
          .is_argument = is_argument,
          .value = type.substr(0, type.find(':')),
          .words = words_of(type),
          .help = option.get_description(),
          .default_value = takes_value ? option.get_default_str() : "",
          .required = option.get_required(),
          .may_stand_alone = takes_value && option.get_expected_min() == 0};
}

/// "--data: At Most 1 required but received 2" as something to act on; nullopt: it says another
/// thing.
std::optional<std::string> too_often(std::string_view said) {
  constexpr std::string_view kMost = ": At Most 1 required but received ";
  const std::size_t found = said.find(kMost);
  if (found == said.npos) return std::nullopt;
  return fmt::format("{} is given {} times: leave all but one out", said.substr(0, found),
                     said.substr(found + kMost.size()));
}

/// In words, what is wrong with a command line that `app` cannot read.
std::string reason(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extra = app.remaining();
  if (extra.empty() || error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError))
    return too_often(error.what()).value_or(error.what());
  const bool is_assignment = extra.front().find('=') != std::string::npos &&
                             !extra.front().starts_with('-') &&
                             app.get_option_no_throw("--set") != nullptr;
  if (is_assignment && extra.front().starts_with('='))
    return fmt::format(
        "'{}' stands alone: write key=value without spaces, as in --set train.steps=3",
        extra.front());
  if (is_assignment)
    return fmt::format("'{}' stands alone: each key=value needs a --set of its own, as in --set {}",
                       extra.front(), fmt::join(extra, " --set "));
  return fmt::format("'{}' is no option or argument of this program", extra.front());
}

/// CLI11 2.6 fills the text around the options as paragraphs: tables are to keep their lines.
void keep_lines([[maybe_unused]] auto& formatter) {
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_description_formatting(false);
    formatter.enable_footer_formatting(false);
  }
}

}  // namespace

Check::Check(const CLI::Validator& validator)
    : validator_(std::make_shared<const CLI::Validator>(validator)) {}

Check not_empty() {
  return Check(CLI::Validator(
      [](const std::string& value) {
        return value.empty() ? std::string("must not be empty") : std::string();
      },
      ""));
}

Check finite() {
  return Check(CLI::Validator(
      [](const std::string& value) {
        double number = 0;
        const bool is_number = CLI::detail::lexical_cast(value, number);
        return !is_number || std::isfinite(number)
                   ? std::string()
                   : fmt::format("{} is not a finite number", value);
      },
      ""));
}

Check positive() {
  return Check(CLI::PositiveNumber);
}

Check within(Index low, Index high) {
  return Check(CLI::Range(low, high));
}

Check within(double low, double high) {
  return Check(CLI::Range(low, high));
}

Check one_of(const std::vector<std::string>& words) {
  return Check(CLI::IsMember(words));
}

Option Option::check(const Check& check) const {
  return Option(option_->check(*check.validator_));
}

Option Option::capture_default_str() const {
  return Option(option_->capture_default_str());
}

Option Option::default_str(const std::string& text) const {
  return Option(option_->default_str(text));
}

Option Option::type_name(const std::string& name) const {
  return Option(option_->type_name(name));
}

Option Option::required() const {
  return Option(option_->required());
}

Option Option::excludes(const Option& other) const {
  return Option(option_->excludes(other.option_));
}

Option Option::needs(const Option& other) const {
  return Option(option_->needs(other.option_));
}

Option Option::expected(int values) const {
  return Option(option_->expected(values));
}

Option Option::expected(int least, int most) const {
  return Option(option_->expected(least, most));
}

Option Option::delimiter(char separator) const {
  return Option(option_->delimiter(separator));
}

Option Option::allow_extra_args(bool allows) const {
  return Option(option_->allow_extra_args(allows));
}

Parser::Parser(const std::string& description) : app_(std::make_unique<CLI::App>(description)) {
  keep_lines(*app_->get_formatter());
}

Parser::~Parser() = default;

void Parser::footer(const std::string& text) {
  app_->footer(text);
}

std::string Parser::get_footer() const {
  return app_->get_footer();
}

std::string Parser::get_description() const {
  return app_->get_description();
}

Option Parser::add(const std::string& names, const Target& target, const std::string& help) {
  return std::visit(
      [&]<class T>(T* value) {
        const Option option(app_->add_option(names, *value, help));
        constexpr bool kIsReal =
            std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>;
        // Bounds let what compares with nothing through.
        return kIsReal ? option.check(finite()) : option;
      },
      target);
}

Option Parser::add_option_function(const std::string& names,
                                   const std::function<void(const std::string&)>& take,
                                   const std::string& help) {
  return Option(app_->add_option_function<std::string>(names, take, help));
}

Option Parser::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

void Parser::set_version_flag(const std::string& names, const std::string& version,
                              const std::string& help) {
  app_->set_version_flag(names, version, help);
}

std::size_t Parser::count(const std::string& name) const {
  return app_->count(name);
}

std::vector<OptionDescription> Parser::descriptions() const {
  const CLI::App& app = *app_;
  std::vector<OptionDescription> all;
  for (const CLI::Option* option : app.get_options()) all.push_back(description_of(*option));
  return all;
}

std::optional<int> Parser::parse(const char* program, int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& request) {
    std::ostringstream said;
    const int status = app_->exit(request, said, said);
    streams::write_output(said.str());
    return status;
  } catch (const CLI::ParseError& error) {
    streams::say("{}: error: {}; see {} --help\n", program, shortened(reason(*app_, error)),
                 program);
    return EXIT_FAILURE;
  }
}

bool is_of_parser(const std::exception& error) {
  return dynamic_cast<const CLI::Error*>(&error) != nullptr;
}

}  // namespace dos::apps
