// SPDX-License-Identifier: Apache-2.0
#include "trace/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "trace/report/charts.hpp"
#include "trace/report/svg.hpp"

namespace dos::trace {
namespace {

constexpr const char* kStyle = R"(
body{font:15px/1.5 system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;color:#20262d;background:#eef1f4;margin:0}
main{max-width:1240px;margin:0 auto;padding:24px}
header h1{margin:0 0 4px;font-size:26px}
header p{margin:0;color:#5b6570}
section{background:#fff;border-radius:10px;padding:18px 24px;margin:18px 0;box-shadow:0 1px 3px #0002}
h2{font-size:18px;margin:0 0 6px}
h3{font-size:15px;margin:16px 0 4px}
.note{color:#5b6570;font-size:13px;margin:0 0 10px}
.tiles{display:flex;flex-wrap:wrap;gap:14px;margin:18px 0}
.tile{background:#fff;border-radius:10px;padding:12px 18px;box-shadow:0 1px 3px #0002;flex:1 1 150px}
.tile b{display:block;font-size:23px}
.tile span{color:#5b6570;font-size:13px}
.warning{background:#fff4e5;border-left:4px solid #e08e45;padding:8px 14px;border-radius:4px}
svg{width:100%;height:auto;display:block}
svg text{font:11px system-ui,sans-serif;fill:#20262d}
svg text.tick{fill:#5b6570;font-size:10px}
svg text.on-bar{fill:#fff;font-weight:600}
svg line.grid{stroke:#d9dee3;stroke-width:1}
svg line.limit{stroke:#c0392b;stroke-width:1.5;stroke-dasharray:6 4}
.legend{margin:6px 0 0;font-size:13px}
.legend span{margin-right:16px;white-space:nowrap}
.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:5px;vertical-align:-1px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:right;padding:5px 10px;border-bottom:1px solid #e4e8ec}
th:first-child,td:first-child{text-align:left}
th{color:#5b6570;font-weight:600}
ol.losses{margin:0;padding-left:22px}
ol.losses li{margin:8px 0}
ol.losses .share{font-weight:600}
ol.losses .remedy{color:#3b6b4c}
)";

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>\n{}</main></body></html>\n",
      escaped(title), kStyle, body);
}

std::string section(const std::string& title, const std::string& note, const std::string& body) {
  return fmt::format("<section><h2>{}</h2><p class=\"note\">{}</p>\n{}</section>\n", escaped(title),
                     escaped(note), body);
}

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escaped(value),
                     escaped(name));
}

std::string heading(const Trace& trace, const Analysis& analysis) {
  const Manifest& first = trace.ranks.front();
  std::string text = fmt::format(
      "<header><h1>Where the time went</h1><p>{} · policy {} · {} rank{} · {} ({})</p>"
      "<p>steps {} to {} · run {} · {}</p></header>\n",
      escaped(first.model), escaped(first.policy), first.ranks, first.ranks == 1 ? "" : "s",
      escaped(first.host), escaped(first.processor), analysis.steps.front().step,
      analysis.steps.back().step, escaped(first.run), escaped(first.program));
  for (const std::string& warning : trace.warnings)
    text += fmt::format("<p class=\"warning\">{}</p>\n", escaped(warning));
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

std::string tiles(const Analysis& analysis) {
  std::string text = "<div class=\"tiles\">\n";
  text += tile(format_time(analysis.median_step), "median step");
  text += tile(format_share(analysis.idle_share(Use::kComputing)), "of worker time computing");
  text += tile(format_share(analysis.idle_share(Use::kData)), "waiting for data");
  text += tile(format_bytes(static_cast<Index>(bytes_a_step(analysis))), "over links a step");
  if (peak_of_devices(analysis) > 0)
    text += tile(format_bytes(peak_of_devices(analysis)), "peak of device memory");
  return text + "</div>\n";
}

std::string losses(const Analysis& analysis) {
  std::string text = "<ol class=\"losses\">\n";
  for (const Loss& loss : analysis.losses)
    text += fmt::format(
        "<li><span class=\"share\">{}</span> — {}<br><span class=\"remedy\">→ {}</span></li>\n",
        format_share(loss.share), escaped(loss.what), escaped(loss.remedy));
  if (analysis.losses.empty()) text += "<li>No loss above 0.1 % of the workers' time.</li>\n";
  return text + "</ol>\n";
}

std::string memory(const Analysis& analysis) {
  std::string text;
  for (const MemoryUse& use : analysis.memory) {
    const std::string capacity =
        use.capacity
            ? fmt::format("capacity {}, {} used at the peak", format_bytes(*use.capacity),
                          format_share(static_cast<double>(use.peak) /
                                       static_cast<double>(std::max<Index>(1, *use.capacity))))
            : "the runtime knows no limit";
    text +=
        fmt::format(
            "<h3>{}{}</h3><p class=\"note\">{} to {}; {}</p>\n",
            analysis.memory.size() > 1 && use.rank > 0 ? fmt::format("rank {}: ", use.rank) : "",
            escaped(use.name), format_bytes(use.lowest), format_bytes(use.peak), capacity) +
        memory_chart(use, analysis.window);
  }
  return text;
}

std::string links(const Analysis& analysis) {
  if (analysis.links.empty()) return "<p>Nothing moved between memory nodes.</p>\n";
  std::string text;
  for (const LinkUse& link : analysis.links)
    text += fmt::format(
                "<h3>{}</h3><p class=\"note\">peak {} · {} in {} transfers · busy {} · {} of that "
                "beside computation of its device{}</p>\n",
                escaped(link.name), link.peak > 0 ? format_rate(link.peak) : "unknown",
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
             "<p>{} of the parameters were sent to devices and {} were updated there; {} updates "
             "ran elsewhere than they were sent.</p>\n",
             format_share(planned / std::max(1.0, params)),
             format_share(executed / std::max(1.0, params)), moved) +
         placement_chart(analysis);
}

std::string timeline_note(Index step) {
  return fmt::format(
      "Step {}, the one of median duration. The steps before and after it overlap it. Point at a "
      "bar for what it is.",
      step);
}

struct Run {
  std::string name;
  const Trace& trace;
  const Analysis& analysis;
};

std::string row(const std::string& name, const Run& a, const Run& b,
                std::string (*value)(const Analysis&)) {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(name),
                     escaped(value(a.analysis)), escaped(value(b.analysis)));
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

std::string comparison_table(const Run& a, const Run& b) {
  std::string text = fmt::format("<table><tr><th></th><th>{}</th><th>{}</th></tr>\n",
                                 escaped(a.name), escaped(b.name));
  text += fmt::format("<tr><td>policy</td><td>{}</td><td>{}</td></tr>\n",
                      escaped(a.trace.ranks.front().policy), escaped(b.trace.ranks.front().policy));
  text +=
      row("median step", a, b, [](const Analysis& each) { return format_time(each.median_step); });
  text += row("updated on devices", a, b, &device_share);
  text += row(name_of(Use::kComputing), a, b, &share_of<Use::kComputing>);
  text += row(name_of(Use::kDram), a, b, &share_of<Use::kDram>);
  text += row(name_of(Use::kData), a, b, &share_of<Use::kData>);
  text += row(name_of(Use::kDevice), a, b, &share_of<Use::kDevice>);
  text += row(name_of(Use::kHeldBack), a, b, &share_of<Use::kHeldBack>);
  text += row(name_of(Use::kCheckpoint), a, b, &share_of<Use::kCheckpoint>);
  text += row(name_of(Use::kNoWork), a, b, &share_of<Use::kNoWork>);
  text += row("over links a step", a, b, [](const Analysis& each) {
    return format_bytes(static_cast<Index>(bytes_a_step(each)));
  });
  text += row("peak of device memory", a, b,
              [](const Analysis& each) { return format_bytes(peak_of_devices(each)); });
  return text + "</table>\n";
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
                  "Time of workers that did not go into computing, as a part of all workers' time.",
                  losses(analysis));
  body += section("One iteration", timeline_note(analysis.typical_step),
                  timeline_chart(trace, analysis, analysis.typical_step));
  body += section("What the workers' time went to", "All recorded steps.", use_chart(analysis));
  body += section("Memory", "By category, over all recorded steps.", memory(analysis));
  body += section("Links",
                  "Bandwidth that each direction reached, against what the runtime measured "
                  "of the idle link.",
                  links(analysis));
  body += section("Placement of the updates",
                  "Each block is a subgroup, as wide as its parameters; "
                  "the last recorded step.",
                  placements(analysis));
  body +=
      section("Steps", "From the end of the step before to the end of each.", step_chart(analysis));
  return page("Trace report: " + trace.ranks.front().model, body);
}

std::string compare_html(const std::string& name_a, const Trace& a, const Analysis& analysis_a,
                         const std::string& name_b, const Trace& b, const Analysis& analysis_b) {
  const Run first{name_a, a, analysis_a};
  const Run second{name_b, b, analysis_b};
  std::string body = fmt::format("<header><h1>Two runs compared</h1><p>{}</p></header>\n",
                                 escaped(a.ranks.front().model));
  body += section("Figures", "Shares are of all workers' time.", comparison_table(first, second));
  const double span = std::max(typical_length(analysis_a), typical_length(analysis_b));
  for (const Run& run : {first, second}) {
    body += section(fmt::format("{}: one iteration", run.name),
                    timeline_note(run.analysis.typical_step) + " Both runs have one scale.",
                    timeline_chart(run.trace, run.analysis, run.analysis.typical_step, span));
    body += section(fmt::format("{}: what the workers' time went to", run.name),
                    "All recorded steps.", use_chart(run.analysis) + losses(run.analysis));
  }
  return page("Trace comparison", body);
}

}  // namespace dos::trace
