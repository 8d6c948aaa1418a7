// SPDX-License-Identifier: Apache-2.0
#include "trace/report/terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/xml.hpp"
#include "trace/report/palette.hpp"

namespace dos::trace {
namespace {

struct Meaning {
  const char* name;
  const char* text;
};
constexpr std::array kMemoryMeanings{
    Meaning{"working parameters", "what forward and backward read: the parameters in BF16"},
    Meaning{"optimizer states", "what the optimizer keeps of each parameter, as its moments"},
    Meaning{"activations", "what forward leaves for backward"},
    Meaning{"workspace", "what tasks need while they run"},
    Meaning{"data", "tokens, and sums as the loss and the norm"},
};

Term of_phase(const char* name, const char* meaning) {
  return {key_square(fill_of(ColorFamily::kRun, name)), name, meaning};
}

void add_storage_terms(const Trace& trace, const Analysis& analysis, std::vector<Term>& terms) {
  const auto has = [&](const char* operation) {
    return std::ranges::any_of(trace.storage,
                               [&](const Storage& row) { return row.operation == operation; });
  };
  if (!analysis.disks.empty())
    terms.push_back({"", "read, write",
                     "transfers of the disk that is mounted there, in the "
                     "colours of what they carry"});
  if (has("flush")) terms.push_back(of_phase("flush", "the disk is told to keep what it has"));
  if (analysis.held.empty()) return;
  terms.push_back({key_square(fill_of(ColorFamily::kRun, "checkpoint")), "updates waiting",
                   "updates that only a checkpoint still keeps from running"});
  terms.push_back({"", "copies", "buffers copied for a checkpoint, so that updates need not wait"});
  terms.push_back({"", "held for checkpoints",
                   "bytes that no task may change before they are written or copied"});
}

}  // namespace

std::string definitions(const std::vector<Term>& terms) {
  std::string text;
  for (const Term& each : terms)
    text += fmt::format("<dt>{}{}</dt><dd>{}</dd>\n", each.key, xml_escaped(each.name),
                        xml_escaped(each.meaning));
  return text.empty() ? "" : "<dl class=\"terms\">\n" + text + "</dl>\n";
}

std::string key_of(Use use) {
  if (use == Use::kComputing) return "";
  if (use == Use::kNoWork) return key_square(kBackground);
  if (use == Use::kCheckpoint) return key_square(fill_of(ColorFamily::kRun, "checkpoint"));
  return key_square(fill_of(ColorFamily::kWait, name_of(use)));
}

std::vector<Term> terms_of_uses(const Analysis& analysis) {
  std::vector<Term> terms;
  for (const Use use : kUses)
    if (use != Use::kComputing && analysis.idle_share(use) > 0)
      terms.push_back({key_of(use), name_of(use), meaning_of(use)});
  return terms;
}

std::vector<Term> terms_of_iteration(const Trace& trace, const Analysis& analysis) {
  std::vector<Term> terms;
  if (analysis.phase_busy.contains("reduce"))
    terms.push_back(of_phase("reduce", trace.ranks.size() > 1
                                           ? "gradients of all ranks are added, and their squares"
                                           : "squares of the gradients are added, for the norm"));
  if (!analysis.links.empty())
    terms.push_back({"", analysis.links.front().name,
                     "copies between two memories, in the colours of what they carry"});
  terms.push_back({"", "submitting thread", "creates the tasks, ahead of the workers"});
  if (!trace.spans.empty())
    terms.push_back(of_phase("wait", "it waits for the oldest of the steps that it has created"));
  if (!trace.communications.empty())
    terms.push_back(
        {key_square(fill_of(ColorFamily::kRun, "message")), "MPI", "messages between ranks"});
  add_storage_terms(trace, analysis, terms);
  return terms;
}

std::vector<Term> terms_of_memory(const Analysis& analysis) {
  std::vector<Term> terms;
  for (const Meaning& each : kMemoryMeanings) {
    const auto holds = [&](const MemoryPoint& point) {
      const auto found = point.bytes.find(each.name);
      return found != point.bytes.end() && found->second > 0;
    };
    if (std::ranges::any_of(analysis.memory, [&](const MemoryUse& use) {
          return std::ranges::any_of(use.curve, holds);
        }))
      terms.push_back({key_square(fill_of(ColorFamily::kMemory, each.name)), each.name, each.text});
  }
  return terms;
}

}  // namespace dos::trace
