// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/types.hpp"

// Only parser.cpp includes CLI11, whose headers take seconds to compile.
namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace dos::apps {

/// What a value of the command line must be. The help shows it beside the option's type.
class Check {
 public:
  explicit Check(const CLI::Validator& validator);

 private:
  friend class Option;
  std::shared_ptr<const CLI::Validator> validator_;
};

/// For options whose value cannot be empty: a path that a script has left unset would be taken for
/// an option that was not given.
Check not_empty();
/// Of every option that is a real number, without being asked for.
Check finite();
Check positive();
/// Bounds included.
Check within(Index low, Index high);
Check within(double low, double high);
Check one_of(const std::vector<std::string>& words);

/// An option of a Parser that is still there. Calls are named as CLI11 names them.
class Option {
 public:
  Option check(const Check& check) const;
  /// The help shows what the variable holds now, or `text`.
  Option capture_default_str() const;
  Option default_str(const std::string& text) const;
  /// In place of the name of the variable's type.
  Option type_name(const std::string& name) const;
  Option required() const;
  Option excludes(const Option& other) const;
  Option needs(const Option& other) const;
  /// So many values, or from `least` to `most`.
  Option expected(int values) const;
  Option expected(int least, int most) const;
  /// Several values in one word.
  Option delimiter(char separator) const;
  /// Of a list: whether more words may follow the first.
  Option allow_extra_args(bool allows) const;

 private:
  friend class Parser;
  explicit Option(CLI::Option* option) : option_(option) {}

  CLI::Option* option_;
};

/// What an option says of itself.
struct OptionDescription {
  std::vector<std::string> names;
  bool is_argument;                ///< positional: has one name
  std::string value;               ///< its type, empty where none is taken
  std::vector<std::string> words;  ///< what the value may be; empty: anything of the type
  std::string help;
  std::string default_value;
  bool required;
  bool may_stand_alone;  ///< takes a value, but need not have one
};

/// The command line of a program.
class Parser {
 public:
  /// With -h, --help.
  explicit Parser(const std::string& description);
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser();

  /// The text after the options in the help.
  void footer(const std::string& text);
  [[nodiscard]] std::string get_footer() const;
  [[nodiscard]] std::string get_description() const;

  /// `names` without dashes: an argument. `value` stays as it is where the option is not given,
  /// must live as long as the parser, and is of a type that Target knows.
  template <class T>
  Option add_option(const std::string& names, T& value, const std::string& help = "") {
    return add(names, Target(&value), help);
  }
  Option add_option_function(const std::string& names,
                             const std::function<void(const std::string&)>& take,
                             const std::string& help = "");
  Option add_flag(const std::string& names, bool& value, const std::string& help = "");
  void set_version_flag(const std::string& names, const std::string& version,
                        const std::string& help);

  /// How often an option was given.
  [[nodiscard]] std::size_t count(const std::string& name) const;
  /// Options and arguments in their order.
  [[nodiscard]] std::vector<OptionDescription> descriptions() const;

  /// Reads the command line of `program`. A value: the program ends with this status, after it has
  /// printed its help, its version, or one line that says what is wrong.
  std::optional<int> parse(const char* program, int argc, char** argv);

 private:
  using Target =
      std::variant<std::string*, std::filesystem::path*, int*, Index*, std::uint64_t*, double*,
                   std::optional<Index>*, std::optional<double>*, std::vector<std::string>*,
                   std::vector<int>*, std::vector<Index>*, std::vector<std::filesystem::path>*>;

  Option add(const std::string& names, const Target& target, const std::string& help);

  std::unique_ptr<CLI::App> app_;
};

/// Whether a Parser has thrown it.
bool is_of_parser(const std::exception& error);

}  // namespace dos::apps
