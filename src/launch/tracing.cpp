// SPDX-License-Identifier: Apache-2.0
#include "launch/tracing.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>

#include "base/file.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "models/demand.hpp"
#include "platform/topology.hpp"
#include "ranks/gather.hpp"
#include "trace/chrome.hpp"
#include "trace/clock.hpp"
#include "trace/paje.hpp"
#include "trace/trace.hpp"
#include "train/run_info.hpp"

namespace dos::launch {
namespace {

/// Differs between any two runs: host, process and time.
std::string make_run_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}-{}-{}", platform::host_name(), ::getpid(),
                     std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::string describe(const shape::ModelConfig& model) {
  return fmt::format("{}, {} layers, width {}, {} heads, context {}, vocabulary {}",
                     model.architecture, model.layers, model.width, model.heads, model.context,
                     model.vocabulary);
}

}  // namespace

void expect_traced_steps(const std::string& steps, Index before, Index last) {
  if (steps.empty() || before >= last) return;
  const trace::StepRange range = trace::parse_step_range(steps);
  expect(range.first <= last && range.last > before,
         "--trace-steps {}: the run makes steps {} to {}, none of them: name some of its own",
         steps, before + 1, last);
}

std::unique_ptr<trace::Recorder> start_trace(rt::Session& session, const TraceTarget& target,
                                             const std::string& steps, const train::Run& run) {
  if (target.folder.empty()) return nullptr;
  trace::RecorderOptions options;
  options.folder = target.folder;
  if (!steps.empty()) options.steps = trace::parse_step_range(steps);
  trace::TraceManifest manifest;
  manifest.run = make_run_id();
  if (target.exchange != nullptr)
    manifest.run = ranks::gather_texts(*target.exchange, manifest.run).front();
  manifest.rank = static_cast<int>(target.share.rank);
  manifest.ranks = static_cast<int>(target.share.ranks);
  manifest.program =
      fmt::format("train_gpt {} ({})", train::program_version(), train::source_revision());
  manifest.policy = session.scheduler();
  manifest.model = describe(run.model);
  config::TrainConfig chosen = run.config;
  const shape::RunShape shape = chosen.run_shape(models::lane_workers(session));
  chosen.train.lanes = shape.lanes;
  chosen.train.logits_rows = shape.logits_rows;
  manifest.configuration = to_json(chosen);
  manifest.host = platform::host_name();
  manifest.processor = platform::read_topology().processor;
  return std::make_unique<trace::Recorder>(session, options, std::move(manifest));
}

MessageTrace::MessageTrace(trace::Recorder& recorder, ranks::Exchange& exchange)
    : recorder_(recorder), exchange_(exchange) {
  exchange_.observe(this);
}

MessageTrace::~MessageTrace() {
  exchange_.observe(nullptr);
}

void MessageTrace::message_ended(const ranks::Message& message, ranks::Clock::time_point started,
                                 ranks::Clock::time_point ended) noexcept {
  const bool is_sent = message.direction == platform::MpiMessage::Direction::kSend;
  std::array<char, 32> operation{};
  std::snprintf(operation.data(), operation.size(), "%s %s", is_sent ? "send" : "receive",
                ranks::name_of(message.name.kind));
  const trace::TraceInterval interval(started, ended);
  recorder_.record(trace::CommunicationEvent{.operation = trace::Name(operation.data()),
                                             .peer = message.peer,
                                             .bytes = std::ssize(message.bytes),
                                             .step = exchange_.step(),
                                             .start_us = interval.start_us,
                                             .end_us = interval.end_us});
}

void finish_trace(trace::Recorder& recorder, const TraceTarget& target) {
  recorder.finish();
  // Nobody's part is read before it is there.
  if (target.exchange != nullptr) ranks::gather_texts(*target.exchange, "");
  if (target.share.rank != 0) return;
  const std::filesystem::path& folder = target.folder;
  try {
    const trace::Trace trace = trace::read_trace(folder);
    write_durably(folder / "paje.trace", trace::to_paje(trace));
    write_durably(folder / "perfetto.json", json_text(trace::to_chrome(trace)));
  } catch (const std::exception& error) {
    log::warn("no trace for ViTE and Perfetto: {}", error.what());
  }
}

}  // namespace dos::launch
