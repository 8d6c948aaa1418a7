// SPDX-License-Identifier: Apache-2.0
// watch_run: shows a run of train_gpt in the terminal while it runs, and after.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/looks.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/streams.hpp"
#include "watch/terminal.hpp"

namespace {

using dos::Index;

struct CommandLine {
  std::string run;
  double seconds = 2;
  bool once = false;
  bool ascii = false;
};

struct Size {
  Index columns = 80;
  Index rows = 24;
};

/// What the variable says, 0 where it says no number.
Index number_in(const char* variable) {
  const char* text = std::getenv(variable);
  Index number = 0;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), number);
  return number;
}

/// Of the terminal, as COLUMNS and LINES say or it says itself.
Size terminal_size() {
  Size size;
  winsize said{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &said) == 0 && said.ws_col > 0)
    size = {.columns = said.ws_col, .rows = said.ws_row};
  if (const Index columns = number_in("COLUMNS"); columns > 0) size.columns = columns;
  if (const Index rows = number_in("LINES"); rows > 0) size.rows = rows;
  return size;
}

bool terminal_knows_utf8() {
  std::setlocale(LC_CTYPE, "");
  return std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
}

/// Not those inside of editors, nor of some consoles, which would show the commands for it.
bool terminal_moves_its_cursor() {
  const char* kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

/// Over what was drawn before: each line to its end, and what is below. No flicker over a slow
/// connection.
std::string drawn_over(std::vector<std::string> lines, Index rows) {
  // More than the terminal has would move it.
  lines.resize(std::min(lines.size(), static_cast<std::size_t>(std::max<Index>(1, rows - 1))));
  std::string text = "\x1b[H";
  for (const std::string& line : lines) text += line + "\x1b[K\n";
  return text + "\x1b[J";
}

void watch(const CommandLine& command) {
  dos::watch::RunView run(command.run);
  const bool plain = command.ascii || !terminal_knows_utf8();
  const bool stays = ::isatty(STDOUT_FILENO) != 0 && !command.once;
  const bool draws_over = stays && terminal_moves_its_cursor();
  const dos::apps::Looks looks;
  if (draws_over) dos::streams::print("\x1b[2J");
  do {
    const Size size = terminal_size();
    dos::expect(size.columns >= dos::watch::kLeastColumns,
                "the terminal has {} columns, {} are needed: make it wider", size.columns,
                dos::watch::kLeastColumns);
    run.look();
    const std::vector<std::string> lines = dos::watch::picture(run, size.columns, plain);
    if (draws_over)
      dos::streams::print("{}", drawn_over(lines, size.rows));
    else
      dos::streams::print("{}\n{}", fmt::join(lines, "\n"), stays ? "\n" : "");
    dos::expect_output_written();
  } while (stays && looks.pause(command.seconds));
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "watch_run",
          .examples = {{"watch_run runs/mine", "again and again, until Ctrl-C"},
                       {"watch_run runs/mine --once", "one picture, as in a pipe"}}};
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine command;
  dos::apps::Parser app(
      "Shows a run of train_gpt in the terminal while it runs, and after, also from another "
      "machine "
      "that sees its folder.");
  app.add_option("run", command.run, "output folder of a train_gpt run")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  dos::apps::add_seconds(app, command.seconds, "between two pictures");
  app.add_flag("--once", command.once, "print one picture and end");
  app.add_flag("--ascii", command.ascii, "draw with plain characters");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    watch(command);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("watch_run", error);
  }
}
