// SPDX-License-Identifier: Apache-2.0
// report: says from a trace of train_gpt where the time went, or shows a run in a browser while it
// runs.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/looks.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json_text.hpp"
#include "base/local_time.hpp"
#include "base/log.hpp"
#include "base/output_file.hpp"
#include "base/streams.hpp"
#include "base/units.hpp"
#include "trace/chrome.hpp"
#include "trace/paje.hpp"
#include "trace/report/activation_section.hpp"
#include "trace/report/html.hpp"
#include "trace/report/report_json.hpp"
#include "trace/report/svg.hpp"
#include "watch/page.hpp"

namespace {

using dos::trace::Analysis;
using dos::trace::Trace;

struct CommandLine {
  std::string folder;
  std::vector<std::string> compared;
  std::string live;
  std::string output;
  std::string paje;
  std::string perfetto;
  bool json = false;
  bool once = false;
  double seconds = 2;
};

Trace read(const std::string& folder) {
  Trace trace = dos::trace::read_trace(folder);
  for (const std::string& warning : trace.warnings) dos::log::warn("{}: {}", folder, warning);
  return trace;
}

/// Where the page goes; not in the place of anything but a page.
std::string page_path(const CommandLine& command, const std::filesystem::path& otherwise) {
  const std::string path = command.output.empty() ? otherwise.string() : command.output;
  dos::expect_replaceable(path, dos::trace::kPageMark);
  return path;
}

void write(const std::string& path, const std::string& html) {
  dos::write_replaceable(path, html, dos::trace::kPageMark);
  dos::streams::say("report: wrote {}\n", path);
}

void compare(const CommandLine& command) {
  const std::string& first = command.compared[0];
  const std::string& second = command.compared[1];
  const bool writes = !command.json || !command.output.empty();
  const std::string path = writes ? page_path(command, "compare.html") : "";
  const Trace a = read(first);
  const Trace b = read(second);
  dos::trace::expect_comparable(a, first, b, second);
  const Analysis analysis_a = dos::trace::analyse(a);
  const Analysis analysis_b = dos::trace::analyse(b);
  if (command.json)
    dos::streams::print("{}\n",
                        dos::json_text(nlohmann::json::array({dos::trace::to_json(a, analysis_a),
                                                              dos::trace::to_json(b, analysis_b)}),
                                       2));
  if (writes) write(path, dos::trace::compare_html(first, a, analysis_a, second, b, analysis_b));
}

void print_summary(const Analysis& analysis) {
  dos::streams::print("median step {:.1f} ms; computing {:.1f} % of the workers' time\n",
                      analysis.median_step / 1e3,
                      analysis.idle_share(dos::trace::Use::kComputing) * 100);
  for (const dos::trace::ActivationCost& cost : analysis.activations)
    dos::streams::print("activations, {}\n", dos::trace::in_words(cost));
  if (const std::string most = dos::trace::dearest(analysis); !most.empty())
    dos::streams::print("activations, {}\n", most);
  for (const dos::trace::CheckpointSummary& all : dos::trace::summarise(analysis.checkpoints))
    dos::streams::print(
        "rank {}: {} checkpoints of {}, each in {} at {}; an update waited {} at most\n", all.rank,
        all.checkpoints, dos::format_bytes(all.bytes), dos::trace::format_time(all.time),
        dos::trace::format_rate(all.bytes_per_s), dos::trace::format_time(all.waited));
  for (const dos::trace::Loss& loss : analysis.losses)
    dos::streams::print("{:5.1f} %  {}\n         -> {}\n", loss.share * 100, loss.what,
                        loss.remedy);
}

void write_page(const std::string& path, const std::string& page) {
  try {
    dos::write_replaceable(path, page, dos::watch::kPageMark);
  } catch (const dos::Error& error) {
    dos::fail("{}: name a file that can be written with --output", error.what());
  }
}

/// Writes the page of a run again and again, until the run or this program ends.
void show_live(const CommandLine& command) {
  dos::watch::RunView run(command.live);
  const std::string path = page_path(command, std::filesystem::path(command.live) / "live.html");
  const dos::apps::Looks looks;
  for (bool is_first = true;; is_first = false) {
    run.look();
    const bool is_last = command.once || run.has_ended();
    const std::string now = fmt::format("{:%Y-%m-%d %H:%M:%S}", dos::local_time());
    write_page(path, dos::watch::to_page(run, now,
                                         is_last ? std::nullopt : std::optional(command.seconds)));
    if (is_first)
      dos::streams::say("report: wrote {}{}\n", path,
                        is_last ? "" : ", and goes on until the run ends: open it in a browser");
    if (is_last || !looks.pause(command.seconds)) return;
  }
}

void run(const CommandLine& command) {
  dos::log::configure("info");
  if (!command.live.empty()) {
    show_live(command);
    return;
  }
  if (!command.compared.empty()) {
    dos::expect(command.folder.empty(), "give one folder, or two with --compare");
    compare(command);
    return;
  }
  dos::expect(!command.folder.empty(), "give the folder that train_gpt --trace wrote");
  const bool writes = !command.json || !command.output.empty();
  const std::string path =
      writes ? page_path(command, std::filesystem::path(command.folder) / "report.html") : "";
  dos::expect_replaceable(command.paje, dos::trace::kPajeMark);
  dos::expect_replaceable(command.perfetto, dos::trace::kChromeMark);
  const Trace trace = read(command.folder);
  if (!command.paje.empty())
    dos::write_replaceable(command.paje, dos::trace::to_paje(trace), dos::trace::kPajeMark);
  if (!command.perfetto.empty())
    dos::write_replaceable(command.perfetto, dos::json_text(dos::trace::to_chrome(trace)),
                           dos::trace::kChromeMark);
  const Analysis analysis = dos::trace::analyse(trace);
  if (command.json)
    dos::streams::print("{}\n", dos::json_text(dos::trace::to_json(trace, analysis), 2));
  else
    print_summary(analysis);
  if (writes) write(path, dos::trace::to_html(trace, analysis));
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "report",
          .examples = {
              {"report runs/trace", "writes runs/trace/report.html and says where the time went"},
              {"report --compare runs/a runs/b --output both.html",
               "two runs of one model side by side"},
              {"report --live runs/mine",
               "writes runs/mine/live.html again and again while the run goes on"}}};
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine command;
  dos::apps::Parser app(
      "Says from a trace of train_gpt where the time went (docs/traces.md), or shows a run in a "
      "browser while it runs (--live).");
  const dos::apps::Option folder =
      app.add_option("folder", command.folder, "what train_gpt --trace wrote")
          .type_name("FOLDER")
          .check(dos::apps::not_empty());
  app.add_option("--output", command.output,
                 "the HTML file; default: report.html in the "
                 "folder, compare.html, or live.html in the run")
      .type_name("FILE")
      .check(dos::apps::not_empty());
  const dos::apps::Option json =
      app.add_flag("--json", command.json,
                   "print the figures as JSON; the HTML file is written only with --output");
  const dos::apps::Option compare =
      app.add_option("--compare", command.compared,
                     "two folders: two runs of one model side by side")
          .type_name("FOLDER")
          .expected(2);
  const dos::apps::Option paje =
      app.add_option("--paje", command.paje, "write the trace of all ranks for ViTE and pj_dump")
          .type_name("FILE")
          .check(dos::apps::not_empty());
  const dos::apps::Option perfetto =
      app.add_option("--perfetto", command.perfetto, "write the trace of all ranks for Perfetto")
          .type_name("FILE")
          .check(dos::apps::not_empty());
  const dos::apps::Option live =
      app.add_option("--live", command.live,
                     "output folder of a train_gpt run: write a page that browsers load again by "
                     "themselves, without a server, until the last step")
          .type_name("FOLDER")
          .check(dos::apps::not_empty());
  for (const dos::apps::Option& other : {folder, json, compare, paje, perfetto})
    live.excludes(other);
  dos::apps::add_seconds(app, command.seconds, "with --live: between two pages").needs(live);
  app.add_flag("--once", command.once, "with --live: write one page and end").needs(live);
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    run(command);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("report", error);
  }
}
