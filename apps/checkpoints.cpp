// SPDX-License-Identifier: Apache-2.0
// checkpoints: what a run has saved, whether it is intact, and the removal of what is not needed.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/file.hpp"
#include "base/json_text.hpp"
#include "base/local_time.hpp"
#include "base/log.hpp"
#include "base/mapped_file.hpp"
#include "base/streams.hpp"
#include "base/units.hpp"
#include "checkpoint/listing.hpp"
#include "platform/crash_signals.hpp"

namespace {

using dos::checkpoint::Listed;

/// Local time, to the second.
std::string text_of(std::filesystem::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     dos::local_time(std::chrono::system_clock::to_time_t(
                         std::chrono::time_point_cast<std::chrono::seconds>(system))));
}

std::string links_of(const Listed& listed) {
  if (listed.is_last && listed.is_best) return "last, best";
  if (listed.is_last) return "last";
  return listed.is_best ? "best" : "";
}

std::string state_of(const Listed& listed, bool verified) {
  if (!listed.fault.empty()) return "damaged: " + listed.fault;
  return fmt::format("{}{}", verified ? "intact" : "complete",
                     listed.is_aside ? ", set aside" : "");
}

const char* level_of(const Listed& listed) {
  return listed.is_local ? "local" : "shared";
}

/// With the part that this node has.
std::string place_of(const Listed& listed) {
  return listed.parts == 1
             ? level_of(listed)
             : fmt::format("{} {}/{}", level_of(listed), listed.part + 1, listed.parts);
}

void print(const std::vector<Listed>& all, bool verified) {
  // Few runs have two.
  const bool has_levels = std::ranges::any_of(all, &Listed::is_local);
  const auto level = [&](const std::string& name) {
    return has_levels ? fmt::format("{:<12}", name) : std::string();
  };
  dos::streams::print("{:>10}  {}{:<19}  {:>10}  {:>10}  {:<10}  {}\n", "step", level("level"),
                      "written", "size", "best loss", "links", "state");
  for (const Listed& each : all)
    dos::streams::print("{:>10}  {}{:<19}  {:>10}  {:>10}  {:<10}  {}\n", each.step,
                        level(place_of(each)), text_of(each.time), dos::format_bytes(each.bytes),
                        each.validation_loss ? fmt::format("{:.4f}", *each.validation_loss) : "-",
                        links_of(each), state_of(each, verified));
}

void print_json(const std::vector<Listed>& all, bool verified) {
  nlohmann::json list = nlohmann::json::array();
  for (const Listed& each : all) {
    nlohmann::json entry{{"step", each.step},
                         {"folder", each.folder.string()},
                         {"level", level_of(each)},
                         {"bytes", each.bytes},
                         {"last", each.is_last},
                         {"best", each.is_best},
                         {"aside", each.is_aside},
                         {"written", text_of(each.time)},
                         {"verified", verified},
                         {"fault", nullptr},
                         {"best_validation_loss", nullptr},
                         {"part", each.part},
                         {"parts", each.parts}};
    if (!each.fault.empty()) entry["fault"] = each.fault;
    if (each.validation_loss) entry["best_validation_loss"] = *each.validation_loss;
    list.push_back(std::move(entry));
  }
  dos::streams::print("{}\n", dos::json_text(list, 1));
}

void list(const std::string& run, const std::vector<Listed>& all, bool verified, bool as_json) {
  if (as_json)
    print_json(all, verified);
  else if (all.empty())
    dos::streams::print("{}: no checkpoints\n", run);
  else
    print(all, verified);
}

void print_pruned(const std::vector<Listed>& gone, bool is_dry, bool as_json) {
  if (as_json) return print_json(gone, /*verified=*/false);
  dos::Index bytes = 0;
  for (const Listed& each : gone) {
    dos::streams::print("{} step {}, {}: {}\n", is_dry ? "would remove" : "removed", each.step,
                        dos::format_bytes(each.bytes), each.folder.string());
    bytes += each.bytes;
  }
  dos::streams::print("{} checkpoints, {}\n", gone.size(), dos::format_bytes(bytes));
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "checkpoints",
          .examples = {
              {"checkpoints runs/mine --verify",
               "reads every byte of all checkpoints and says which are intact"},
              {"checkpoints runs/mine --prune --keep 3 --dry-run", "says what would be removed"}}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string run;
  bool verifies = false;
  bool as_json = false;
  bool prunes = false;
  dos::checkpoint::Pruning pruning;
  dos::apps::Parser app(
      "Lists the checkpoints of a run. Ends with status 1 when one is damaged. export makes "
      "a folder of Hugging Face of one.");
  app.add_option("run", run, "output folder of a train_gpt run")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  const dos::apps::Option verify =
      app.add_flag("--verify", verifies, "read every byte and compare it with its checksum");
  app.add_flag("--json", as_json, "print one JSON array");
  const dos::apps::Option prune = app.add_flag(
      "--prune", prunes, "remove checkpoints, but for last, best, and what the options name");
  prune.excludes(verify);
  app.add_option("--keep", pruning.keep,
                 "with --prune: the newest so many stay; the run's train.keep")
      .needs(prune)
      .check(dos::apps::within(dos::Index{1}, std::numeric_limits<dos::Index>::max()));
  app.add_option("--keep-every-hours", pruning.every_hours,
                 "with --prune: one of every so many hours stays, too; the run's "
                 "train.keep_every_hours; 0: none")
      .needs(prune)
      .check(dos::apps::within(0.0, 1e9));
  app.add_flag("--dry-run", pruning.is_dry, "with --prune: say what would go, remove nothing")
      .needs(prune);
  dos::platform::say_at_crash("checkpoints");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    dos::log::configure("warn");
    dos::end_with_words_when_cut("checkpoints");
    if (prunes) {
      print_pruned(dos::checkpoint::prune_checkpoints(run, pruning), pruning.is_dry, as_json);
      dos::expect_output_written();
      return EXIT_SUCCESS;
    }
    const std::vector<Listed> all = dos::checkpoint::list_checkpoints(run, verifies);
    list(run, all, verifies, as_json);
    dos::expect_output_written();
    const bool intact =
        std::ranges::all_of(all, [](const Listed& each) { return each.fault.empty(); });
    return intact ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("checkpoints", error);
  }
}
