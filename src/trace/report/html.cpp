// SPDX-License-Identifier: Apache-2.0
#include "trace/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "base/xml.hpp"
#include "trace/report/activation_section.hpp"
#include "trace/report/charts.hpp"
#include "trace/report/palette.hpp"
#include "trace/report/storage_section.hpp"
#include "trace/report/svg.hpp"
#include "trace/report/terms.hpp"

namespace dos::trace {
namespace {

constexpr const char* kStyle = R"(
body{overflow-wrap:anywhere;font:15px/1.5 system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;color:#20262d;background:#eef1f4;margin:0}
main{max-width:1500px;margin:0 auto;padding:24px}
header h1{margin:0 0 4px;font-size:26px}
header p{margin:0;color:#5b6570}
section{background:#fff;border-radius:10px;padding:18px 24px;margin:18px 0;box-shadow:0 1px 3px #0002}
h2{font-size:18px;margin:0 0 6px}
h3{font-size:15px;margin:16px 0 4px}
.note{color:#5b6570;font-size:13px;margin:0 0 10px}
.tiles{display:flex;flex-wrap:wrap;gap:14px;margin:18px 0}
.tile{background:#fff;border-radius:10px;padding:12px 18px;box-shadow:0 1px 3px #0002;flex:1 1 150px}
.tile b{display:block;font-size:23px}
.tile span{display:block;color:#5b6570;font-size:13px;line-height:1.3}
dl.terms{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 12px;margin:8px 0 0;font-size:13px}
dl.terms dd{margin:0;color:#5b6570}
svg.key{margin:0 5px 0 1px;vertical-align:-2px;border-radius:3px;box-shadow:0 0 0 1px #0004}
.warning{background:#fff4d6;border-left:4px solid #5b6570;padding:8px 14px;border-radius:4px}
.chart{display:grid;grid-template-columns:150px minmax(0,1fr);column-gap:8px;align-items:center}
.name{font-size:12px;line-height:12px;max-height:24px;text-align:right;overflow:hidden}
.plot{position:relative;overflow:hidden}
.plot svg{position:absolute;width:100%;height:100%}
.plot span{position:absolute;transform:translate(0,-50%);font-size:11px;line-height:14px;white-space:nowrap;padding:0 3px}
.plot span.centred{transform:translate(-50%,-50%)}
.plot span.tick{color:#5b6570}
.plot span.mark{font-weight:600}
.plot span.on-plot{background:#ffffffd9;border-radius:3px}
svg line{vector-effect:non-scaling-stroke}
svg line.grid{stroke:#5b6570;stroke-opacity:.22;stroke-width:1}
svg line.mark{stroke:#000;stroke-width:2}
svg line.weak{stroke-width:1;stroke-dasharray:2 3}
svg line.limit{stroke:#000;stroke-width:1.5;stroke-dasharray:6 4}
svg.definitions{position:absolute}
.legend{margin:6px 0 0;font-size:13px}
.legend span{margin-right:16px;white-space:nowrap}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:right;padding:5px 10px;border-bottom:1px solid #e4e8ec}
th:first-child,td:first-child{text-align:left}
th{color:#5b6570;font-weight:600}
ol.losses{margin:0;padding-left:22px}
ol.losses li{margin:8px 0}
ol.losses .share{font-weight:600}
.scrolled{overflow-x:auto}
table.figures{width:auto}
table.figures th,table.figures td{white-space:nowrap}
@media (max-width:700px){
main{padding:10px}
section{padding:12px;margin:12px 0}
.chart{grid-template-columns:112px minmax(0,1fr);column-gap:6px}
dl.terms{display:block}
dl.terms dt{margin-top:4px}
.name{font-size:11px}
.plot .minor{display:none}
.tile{padding:8px 12px;flex-basis:120px}
}
)";

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>\n{}{}</main></body></html>\n",
      xml_escaped(title), kStyle, pattern_definitions(), body);
}

std::string section(const std::string& title, const std::string& note, const std::string& body) {
  return fmt::format("<section><h2>{}</h2><p class=\"note\">{}</p>\n{}</section>\n",
                     xml_escaped(title), xml_escaped(note), body);
}

std::string tile(const std::string& value, const std::string& name, const std::string& meaning) {
  return fmt::format("<div class=\"tile\"><b>{}</b>{}<span>{}</span></div>\n", xml_escaped(value),
                     xml_escaped(name), xml_escaped(meaning));
}

std::string heading(const Trace& trace, const Analysis& analysis) {
  const TraceManifest& first = trace.ranks.front();
  std::string text = fmt::format(
      "<header><h1>Where the time went</h1><p>{} · policy {} · {} rank{} · {} ({})</p>"
      "<p>steps {} to {} · run {} · {}</p></header>\n",
      xml_escaped(first.model), xml_escaped(first.policy), first.ranks, first.ranks == 1 ? "" : "s",
      xml_escaped(first.host), xml_escaped(first.processor), analysis.steps.front().step,
      analysis.steps.back().step, xml_escaped(first.run), xml_escaped(first.program));
  for (const std::string& warning : trace.warnings)
    text += fmt::format("<p class=\"warning\">{}</p>\n", xml_escaped(warning));
  return text;
}

double bytes_a_step(const Analysis& analysis) {
  double bytes = 0;
  for (const LinkUse& link : analysis.links) bytes += static_cast<double>(link.bytes);
  return bytes / static_cast<double>(analysis.steps.size());
}

Index peak_of_devices(const Analysis& analysis) {
  Index peak = 0;
  for (const MemoryUse& use : analysis.memory)
    if (use.node != 0) peak = std::max(peak, use.peak);
  return peak;
}

bool has_devices(const Analysis& analysis) {
  return std::any_of(analysis.workers.begin(), analysis.workers.end(),
                     [](const WorkerUse& worker) { return worker.kind != "cpu"; });
}

std::string tiles(const Analysis& analysis) {
  std::string text = "<div class=\"tiles\">\n";
  const auto share_tile = [&](Use use, const std::string& meaning) {
    text += tile(format_share(analysis.idle_share(use)), name_of(use), meaning);
  };
  text += tile(format_time(analysis.median_step), "median step",
               "from the end of one step to the end of the next");
  share_tile(Use::kComputing, "of all workers' time a task ran");
  if (analysis.links.empty()) {
    share_tile(Use::kNoWork, "of all workers' time nothing was ready");
  } else {
    share_tile(Use::kData, "of all workers' time a task's buffers were on their way");
    text += tile(format_bytes(static_cast<Index>(bytes_a_step(analysis))), "over links a step",
                 "copied between memories");
  }
  if (peak_of_devices(analysis) > 0)
    text += tile(format_bytes(peak_of_devices(analysis)), "peak of device memory",
                 "the most that one held at a time");
  return text + "</div>\n";
}

std::string losses(const Analysis& analysis) {
  std::string text = "<ol class=\"losses\">\n";
  for (const Loss& loss : analysis.losses)
    text += fmt::format(
        "<li><span class=\"share\">{}</span> {}{} — {}<br><span class=\"remedy\">→ "
        "{}</span></li>\n",
        format_share(loss.share), loss.use ? key_of(*loss.use) : "",
        loss.use ? name_of(*loss.use) : "moved twice", xml_escaped(loss.what),
        xml_escaped(loss.remedy));
  if (analysis.losses.empty()) text += "<li>No loss above 0.1 % of the workers' time.</li>\n";
  return text + "</ol>\n";
}

/// "72.2 MiB", or "64.0 MiB to 72.2 MiB" where the two differ as they are shown.
std::string range_of(Index lowest, Index peak) {
  const std::string from = format_bytes(lowest);
  const std::string to = format_bytes(peak);
  return from == to ? to : from + " to " + to;
}

std::string memory(const Analysis& analysis) {
  std::string text = "<ul>\n";
  for (const MemoryUse& use : analysis.memory)
    text += fmt::format(
        "<li>{}{}: {}{}</li>\n", use.rank > 0 ? fmt::format("rank {}, ", use.rank) : "",
        xml_escaped(use.name), range_of(use.lowest, use.peak),
        use.capacity
            ? fmt::format(" of {} ({} at the peak)", format_bytes(*use.capacity),
                          format_share(static_cast<double>(use.peak) /
                                       static_cast<double>(std::max<Index>(1, *use.capacity))))
            : "");
  return text + "</ul>\n";
}

std::string links(const Analysis& analysis) {
  std::string text;
  for (const LinkUse& link : analysis.links)
    text += fmt::format(
                "<h3>{}</h3><p class=\"note\">peak {} · {} in {} transfers · busy {} · {} of that "
                "hidden{}</p>\n",
                xml_escaped(link.name), link.peak > 0 ? format_rate(link.peak) : "unknown",
                format_bytes(link.bytes), link.transfers, format_time(link.busy),
                format_share(link.busy > 0 ? link.overlapped / link.busy : 0),
                link.estimated ? " · ends of transfers are estimates" : "") +
            link_chart(link);
  return text;
}

std::string placements(const Analysis& analysis) {
  if (analysis.placements.empty())
    return "<p>The policy tells no placements: it is not one of this project.</p>\n";
  double params = 0;
  double planned = 0;
  double executed = 0;
  Index moved = 0;
  for (const PlacementUse& use : analysis.placements) {
    params += static_cast<double>(use.params);
    planned += static_cast<double>(use.planned_device);
    executed += static_cast<double>(use.executed_device);
    moved += use.moved;
  }
  return fmt::format(
             "<p>In all recorded steps {} of the parameters were planned for devices and {} were "
             "updated there; {} updates "
             "ran elsewhere than planned.</p>\n",
             format_share(planned / std::max(1.0, params)),
             format_share(executed / std::max(1.0, params)), moved) +
         placement_chart(analysis);
}

std::string timeline_note(Index step) {
  return fmt::format(
      "Step {}, the one of median duration, on one time axis. Lines mark its first and its last "
      "task, dotted ones those of other steps, whose tasks are pale. Point at a bar for what it "
      "is.",
      step);
}

struct Run {
  std::string name;
  const Trace& trace;
  const Analysis& analysis;
};

std::string figures(const std::string& name, const Run& a, const Run& b,
                    std::string (*value)(const Analysis&)) {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", xml_escaped(name),
                     xml_escaped(value(a.analysis)), xml_escaped(value(b.analysis)));
}

template <Use kUse>
std::string share_of(const Analysis& analysis) {
  return format_share(analysis.idle_share(kUse));
}

std::string device_share(const Analysis& analysis) {
  double params = 0;
  double executed = 0;
  for (const PlacementUse& use : analysis.placements) {
    params += static_cast<double>(use.params);
    executed += static_cast<double>(use.executed_device);
  }
  return params > 0 ? format_share(executed / params) : "unknown";
}

std::string checkpoint_bytes(const Analysis& analysis) {
  Index most = 0;
  for (const CheckpointUse& use : analysis.checkpoints) most = std::max(most, use.bytes);
  return analysis.checkpoints.empty() ? "none" : format_bytes(most);
}

std::string checkpoint_wait(const Analysis& analysis) {
  double longest = 0;
  for (const CheckpointUse& use : analysis.checkpoints) longest = std::max(longest, use.waited);
  return format_time(longest);
}

std::string comparison_table(const Run& a, const Run& b) {
  std::string text =
      fmt::format("<div class=\"scrolled\"><table><tr><th></th><th>{}</th><th>{}</th></tr>\n",
                  xml_escaped(a.name), xml_escaped(b.name));
  text += fmt::format("<tr><td>policy</td><td>{}</td><td>{}</td></tr>\n",
                      xml_escaped(a.trace.ranks.front().policy),
                      xml_escaped(b.trace.ranks.front().policy));
  text += figures("median step", a, b,
                  [](const Analysis& each) { return format_time(each.median_step); });
  text += figures("updated on devices", a, b, &device_share);
  text += figures(name_of(Use::kComputing), a, b, &share_of<Use::kComputing>);
  text += figures(name_of(Use::kDram), a, b, &share_of<Use::kDram>);
  text += figures(name_of(Use::kData), a, b, &share_of<Use::kData>);
  text += figures(name_of(Use::kDevice), a, b, &share_of<Use::kDevice>);
  text += figures(name_of(Use::kHeldBack), a, b, &share_of<Use::kHeldBack>);
  text += figures(name_of(Use::kCheckpoint), a, b, &share_of<Use::kCheckpoint>);
  text += figures(name_of(Use::kRanks), a, b, &share_of<Use::kRanks>);
  text += figures(name_of(Use::kNoWork), a, b, &share_of<Use::kNoWork>);
  text += figures("over links a step", a, b, [](const Analysis& each) {
    return format_bytes(static_cast<Index>(bytes_a_step(each)));
  });
  text += figures("bytes of a checkpoint", a, b, &checkpoint_bytes);
  text += figures("longest wait for a checkpoint", a, b, &checkpoint_wait);
  text += figures("peak of device memory", a, b,
                  [](const Analysis& each) { return format_bytes(peak_of_devices(each)); });
  return text + "</table></div>\n";
}

std::string steps_note(const Analysis& analysis) {
  const std::string text =
      "Duration of each, from the end of the step before to its own (the one above is dark), and "
      "memory by category, on one time axis.";
  const StepTimes* first = long_first_step(analysis);
  if (first == nullptr) return text;
  return text + fmt::format(
                    " Step {}, which took {}, is left out, or the others could not be seen: the "
                    "first step of a run touches all memory for the first time, and measures.",
                    first->step, format_time(first->duration));
}

double typical_length(const Analysis& analysis) {
  for (const StepTimes& step : analysis.steps)
    if (step.step == analysis.typical_step) return step.end - step.start;
  return 0;
}

}  // namespace

std::string to_html(const Trace& trace, const Analysis& analysis) {
  std::string body = heading(trace, analysis) + tiles(analysis);
  body += section("The largest losses",
                  "Time of workers that did not go into computing, as a part of all workers' time; "
                  "the words are those of the section on workers' time below.",
                  losses(analysis));
  body += section("One iteration", timeline_note(analysis.typical_step),
                  iteration_chart(trace, analysis, analysis.typical_step) +
                      definitions(terms_of_iteration(trace, analysis)));
  body += section("All recorded steps", steps_note(analysis),
                  run_chart(analysis) + memory_legend(trace, analysis) +
                      definitions(terms_of_memory(analysis)) + memory(analysis));
  body += section("What the workers' time went to", "All recorded steps.", use_chart(analysis));
  if (!analysis.links.empty())
    body +=
        section("Links",
                "Bytes from the first to the last task of a phase, over that time. Peak: what the "
                "runtime measured of the idle link. Busy: something was on the link. Hidden: its "
                "device computed meanwhile.",
                links(analysis));
  if (!analysis.activations.empty())
    body += section("Activations that were not kept",
                    "What backward had from elsewhere, or computed again: of a rank and a step. "
                    "Hidden: part of the time in which workers computed meanwhile.",
                    activation_section(analysis));
  if (const std::string storage = storage_section(trace, analysis); !storage.empty())
    body +=
        section("Checkpoints and disks",
                "What went to and from files, all of it that was recorded. Buffers are held until "
                "they are written or copied; of all tasks only their next update waits for that. "
                "Busy: a transfer was under way. Hidden: workers computed meanwhile.",
                storage);
  if (has_devices(analysis))
    body += section("Placement of the updates",
                    "Each block is a subgroup, as wide as its parameters; the last recorded step. "
                    "Planned: where the policy sent its update. Executed: where that ran.",
                    placements(analysis));
  return page("Trace report: " + trace.ranks.front().model, body);
}

std::string compare_html(const std::string& name_a, const Trace& a, const Analysis& analysis_a,
                         const std::string& name_b, const Trace& b, const Analysis& analysis_b) {
  const Run first{name_a, a, analysis_a};
  const Run second{name_b, b, analysis_b};
  std::string body = fmt::format("<header><h1>Two runs compared</h1><p>{}</p></header>\n",
                                 xml_escaped(a.ranks.front().model));
  body += section("Figures", "Shares are of all workers' time.", comparison_table(first, second));
  const double span = std::max(typical_length(analysis_a), typical_length(analysis_b));
  for (const Run& run : {first, second}) {
    body += section(fmt::format("{}: one iteration", run.name),
                    timeline_note(run.analysis.typical_step) + " Both runs have one scale.",
                    iteration_chart(run.trace, run.analysis, run.analysis.typical_step, span));
    body += section(fmt::format("{}: what the workers' time went to", run.name),
                    "All recorded steps.", use_chart(run.analysis) + losses(run.analysis));
  }
  return page("Trace comparison", body);
}

}  // namespace dos::trace
