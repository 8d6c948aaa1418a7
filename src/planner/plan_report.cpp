// SPDX-License-Identifier: Apache-2.0
#include "planner/plan_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "planner/checkpoint_forecast.hpp"
#include "planner/tier_uses.hpp"
#include "planner/timeline.hpp"
#include "shape/model.hpp"

namespace dos::planner {
namespace {

constexpr double kGiga = 1e9;
/// Of times that are the same, s.
constexpr double kRounding = 1e-9;

std::string memory_text(const char* title, const MemoryUse& use) {
  std::string text = fmt::format("{}\n", title);
  for (const MemoryItem& item : use.items)
    text +=
        fmt::format("  {:<34}{:>9.2f} GB\n", name_of(item.category), item.bytes.value() / kGiga);
  return text + fmt::format("  {:<34}{:>9.2f} GB of {:.2f} GB{}\n", "total",
                            use.total().value() / kGiga, use.available.value() / kGiga,
                            use.fits() ? "" : ": DOES NOT FIT");
}

nlohmann::json memory_json(const MemoryUse& use) {
  nlohmann::json items = nlohmann::json::object();
  for (const MemoryItem& item : use.items) items[name_of(item.category)] = item.bytes.value();
  return {{"items", items}, {"total", use.total().value()}, {"available", use.available.value()}};
}

Index widest(const sched::Plan& plan) {
  return plan.window.empty() ? 0 : *std::max_element(plan.window.begin(), plan.window.end());
}

std::string bound_text(const sched::Plan& plan) {
  std::string text = fmt::format("bound {:.1f} ms by {}: the update reaches {:.1f} % of it\n",
                                 plan.bound.time.value() * 1e3, plan.bound.binding,
                                 100 * (plan.bound.time / plan.time));
  for (const sched::ResourceUse& use : plan.bound.resources)
    text += fmt::format("  {:<34}{:>8.1f} % used at the bound\n", use.name, 100 * use.utilisation);
  return text;
}

std::string trained_text(const Request& request, const Forecast& forecast) {
  if (forecast.trained_params == request.model.params()) return "";
  return fmt::format(", {:.4g} M of them trained",
                     static_cast<double>(forecast.trained_params) / 1e6);
}

std::string wire_text(const Request& request, const Forecast& forecast) {
  return fmt::format(
      "each rank sends in a step (ZeRO-{}): {:.2f} GB of gradients, {:.2f} GB of weights; forward "
      "and backward wait {:.1f} ms for it ({})\n",
      request.settings.zero, forecast.sent.gradients.value() / kGiga,
      forecast.sent.weights.value() / kGiga, forecast.phases.exposed.value() * 1e3,
      wire_of(request.machine, forecast.layout, request.settings).slowest());
}

std::string why_so_often(perfmodels::IntervalLimit limit, units::Seconds mtbf) {
  using perfmodels::IntervalLimit;
  if (limit == IntervalLimit::kNone) return "as nothing asks for fewer";
  if (limit == IntervalLimit::kDevice) return "as storage writes no faster";
  return fmt::format("with a failure every {:.3g} h", mtbf.value() / 3600);
}

std::string checkpoint_text(const Request& request, const Forecast& forecast) {
  const CheckpointForecast result = forecast_checkpoints(request, forecast);
  const std::string taken = result.taken.value() > 0
                                ? fmt::format(" ({:.1f} GB are on disks and taken as they are)",
                                              result.taken.value() / kGiga)
                                : "";
  return fmt::format(
      "checkpoints of {:.1f} GB, {:.1f} GB of each rank{}, written in {:.1f} s; one every step "
      "would keep updates waiting for {:.2f} s and take {:.3f} s of the "
      "workers\ntrain.checkpoint_every=auto: every {} step{}, {}\n",
      result.all.value() / kGiga, result.own.value() / kGiga, taken, result.write.value(),
      result.wait.value(), result.slowed.value(), result.interval.steps,
      result.interval.steps == 1 ? "" : "s",
      why_so_often(result.interval.limit, request.storage->mtbf));
}

nlohmann::json checkpoint_json(const Request& request, const Forecast& forecast) {
  const CheckpointForecast result = forecast_checkpoints(request, forecast);
  return {{"bytes", result.all.value()},
          {"bytes_a_rank", result.own.value()},
          {"bytes_taken_a_rank", result.taken.value()},
          {"write_s", result.write.value()},
          {"wait_s", result.wait.value()},
          {"slowed_s", result.slowed.value()},
          {"every_steps", result.interval.steps}};
}

std::string plan_name(const shape::ActivationPlan& plan, const Request& request) {
  return shape::activation_plan_text(plan, request.model.config.layers);
}

/// Disks as train_gpt is told of them: as the plan was, else folders to be named, on `tiers`.
std::string disks_text(const std::vector<PlannedDisk>& told,
                       const std::vector<std::string>& tiers) {
  std::vector<std::string> disks;
  for (const PlannedDisk& disk : told)
    disks.push_back(disk.most ? fmt::format("{}:{:.0f}MB", disk.folder, disk.most->value() / 1e6)
                              : disk.folder);
  if (disks.empty())
    for (const std::string& tier : tiers) disks.push_back("/folder/on/" + tier);
  return fmt::format("{}", fmt::join(disks, ","));
}

/// The disks of the plan, as sched.disks; "" where nothing goes there.
std::string disks_of(const Request& request, const Forecast& forecast) {
  std::vector<std::string> tiers;
  if (sched::lives_behind_host(forecast.problem, forecast.plan))
    for (const perfmodels::Tier& tier : forecast.machine.tiers) tiers.push_back(tier.name);
  return disks_text(request.settings.disks, tiers);
}

/// Likewise as train.activation_disks; "" also where they are those of states.
std::string activation_disks_of(const Request& request, const Forecast& forecast) {
  std::vector<std::string> tiers;
  if (forecast.activations_on_disk > units::Bytes{0} && request.settings.disks.empty())
    for (const ActivationTier& each : activation_tiers(forecast.machine))
      tiers.push_back(each.tier->name);
  return disks_text(request.settings.activation_disks, tiers);
}

/// What train_gpt is told to run so, whose defaults are others; none for code that is not its own.
std::vector<std::pair<std::string, std::string>> keys_of(const Request& request,
                                                         const Forecast& forecast) {
  if (request.settings.policy.published) return {};
  std::vector<std::pair<std::string, std::string>> keys;
  const std::vector<std::string> presets = shape::preset_names();
  if (std::ranges::find(presets, request.model.name) != presets.end())
    keys.emplace_back("model.preset", request.model.name);
  const char* type = request.settings.fp32 ? "fp32" : "bf16";
  keys.emplace_back("train.precision", type);
  keys.emplace_back("train.gradient_precision", type);
  keys.emplace_back("train.batch", std::to_string(request.micro_batch));
  keys.emplace_back("train.activations", plan_name(forecast.activations, request));
  keys.emplace_back("sched.subgroup_params", std::to_string(forecast.problem.largest()));
  if (!request.settings.clips) keys.emplace_back("optim.clip", "0");
  if (forecast.ahead.subgroups > 0)
    keys.emplace_back("optim.speculate",
                      request.settings.speculation == SpeculationChoice::kOn ? "on" : "auto");
  if (request.ranks > 1) keys.emplace_back("dist.zero", std::to_string(request.settings.zero));
  if (const std::string disks = disks_of(request, forecast); !disks.empty())
    keys.emplace_back("sched.disks", disks);
  if (const std::string disks = activation_disks_of(request, forecast); !disks.empty())
    keys.emplace_back("train.activation_disks", disks);
  if (const auto& memory = request.settings.state_memory)
    keys.emplace_back("sched.host_memory", fmt::format("{}", memory->value() / kGiga));
  return keys;
}

std::string keys_text(const Request& request, const Forecast& forecast) {
  std::string text;
  if (!forecast.fits()) return text;
  for (const auto& [key, value] : keys_of(request, forecast))
    text += fmt::format(" --set {}={}", key, value);
  if (text.empty()) return text;
  return fmt::format("to run so, beside what the plan was told: train_gpt{}\n", text);
}

/// Of a GPU whose memory does not hold all weights beside what else a step needs there.
std::string passing_text(const sched::Plan& plan) {
  if (!(plan.overflow > units::Bytes{0})) return "";
  return fmt::format(
      "weights pass: {:.2f} GB have no place on a GPU and come for the layer at work; the step "
      "waits "
      "{:.1f} ms for it\n",
      plan.overflow.value() / kGiga, plan.refetch.value() * 1e3);
}

const char* why_not_hidden(const Forecast& forecast) {
  if (forecast.problem.gpus() == 0) return "CPUs compute forward and backward";
  return "weights pass, so that GPUs have no memory for updates beside backward";
}

/// Where the update runs beside forward and backward.
std::string beside_text(const Forecast& forecast) {
  if (!forecast.updates_beside) return "";
  const sched::Bound& bound = forecast.step_bound;
  if (bound.binding.empty()) return " beside them";
  return fmt::format(" beside them; bound {:.1f} by {}", bound.time.value() * 1e3, bound.binding);
}

/// Of updates that go ahead of the norm, if any do.
std::string ahead_text(const Forecast& forecast) {
  const AheadForecast& ahead = forecast.ahead;
  if (ahead.subgroups == 0) return "";
  std::string text = fmt::format(
      "ahead of the norm: updates of {} of {} subgroups, {:.1f} % of the parameters, with second "
      "banks of {:.2f} GB a rank\n",
      ahead.subgroups, forecast.problem.subgroups.size(),
      100 * (ahead.params / forecast.problem.total()), ahead.banks.value() / kGiga);
  if (!forecast.updates_beside)
    return text + "  that hides nothing: " + why_not_hidden(forecast) + "\n";
  const double hidden = ahead.hidden().value();
  return text + fmt::format("  the step would take {:.1f} ms if all waited: {:.1f} ms {}\n",
                            ahead.waiting.value() * 1e3, std::abs(hidden) * 1e3,
                            hidden > -kRounding ? "are hidden"
                                                : "less, as GPUs hold both banks: leave it off");
}

nlohmann::json ahead_json(const AheadForecast& ahead) {
  return {{"subgroups", ahead.subgroups},
          {"params", ahead.params.value()},
          {"bank_bytes", ahead.banks.value()},
          {"waiting_s", ahead.waiting.value()},
          {"hidden_s", ahead.hidden().value()}};
}

/// Which disks have them, and what else these do meanwhile; "" where none go there.
std::string activation_disk_text(const Request& request, const Forecast& forecast) {
  if (!(forecast.activations_on_disk > units::Bytes{0})) return "";
  const DiskRates rates = activation_disk_rates(forecast.machine, forecast.layout).value();
  Request planned = request;
  planned.machine = forecast.machine;
  const DiskLoad beside = traffic_beside_activations(planned, forecast);
  std::string text = fmt::format("  disk: {}; a device writes {:.2f} GB/s there and reads {:.2f}",
                                 activation_tier_names(forecast.machine),
                                 rates.write.value() / kGiga, rates.read.value() / kGiga);
  if (beside.read + beside.written > units::Bytes{0})
    text += fmt::format("; states and checkpoints write {:.2f} GB there meanwhile and read {:.2f}",
                        beside.written.value() / kGiga, beside.read.value() / kGiga);
  return text + "\n";
}

std::string activations_text(const Request& request, const Forecast& forecast) {
  std::string text = fmt::format("activations of a micro-batch on one device: {}\n",
                                 plan_name(forecast.activations, request));
  text += activation_text(forecast.activation_uses) + activation_disk_text(request, forecast);
  std::vector<std::string> others;
  for (const NamedActivations& each : forecast.named)
    others.push_back(each.fits ? fmt::format("{} {:.1f} ms", plan_name(each.plan, request),
                                             each.step.value() * 1e3)
                               : fmt::format("{} does not fit", plan_name(each.plan, request)));
  if (!others.empty()) text += fmt::format("  a step would take: {}\n", fmt::join(others, ", "));
  return text;
}

nlohmann::json activations_json(const Request& request, const Forecast& forecast) {
  nlohmann::json classes = nlohmann::json::array();
  for (const ActivationUse& use : forecast.activation_uses)
    classes.push_back({{"class", class_name(use.is_cheap)},
                       {"tensors", tensors_of(request.model, use.is_cheap)},
                       {"where", use.where},
                       {"blocks", use.blocks},
                       {"bytes", use.bytes.value()},
                       {"hidden_s", use.hidden.value()},
                       {"exposed_s", use.exposed.value()}});
  nlohmann::json compared = nlohmann::json::array();
  for (const NamedActivations& each : forecast.named)
    compared.push_back({{"plan", plan_name(each.plan, request)},
                        {"fits", each.fits},
                        {"step_s", each.step.value()}});
  nlohmann::json disks = nlohmann::json::array();
  if (forecast.activations_on_disk > units::Bytes{0})
    for (const ActivationTier& each : activation_tiers(forecast.machine))
      disks.push_back(each.tier->name);
  return {{"plan", plan_name(forecast.activations, request)},
          {"classes", classes},
          {"disks", disks},
          {"compared", compared},
          {"waits_s", forecast.phases.moving.value()}};
}

nlohmann::json home_json(const Forecast& forecast) {
  nlohmann::json bytes = nlohmann::json::object();
  for (Index tier = sched::kHost; tier < forecast.problem.tiers(); ++tier)
    bytes[forecast.problem.name_of_tier(tier)] = 0.0;
  for (const HomePart& part : parts_of(forecast.problem, forecast.plan))
    bytes[part.home] = bytes[part.home].get<double>() + part.states.value();
  return bytes;
}

nlohmann::json tiers_json(const Forecast& forecast) {
  nlohmann::json tiers = nlohmann::json::object();
  for (const TierUse& use : uses_of_tiers(forecast)) {
    nlohmann::json& tier = tiers[use.name];
    tier = {{"states", use.states.value()},     {"files", use.files.value()},
            {"capacity", use.capacity.value()}, {"read", use.read.value()},
            {"written", use.written.value()},   {"written_a_day", use.a_day.value()}};
    if (use.days) tier["endurance_days"] = *use.days;
  }
  return tiers;
}

}  // namespace

std::string report_text(const Request& request, const Forecast& forecast,
                        const sched::Replay& replay) {
  const sched::Plan& plan = forecast.plan;
  const sched::Problem& problem = forecast.problem;
  std::string text =
      fmt::format("{} ({:.4g} M parameters{}) on {} ({}), {} rank{}, micro-batch {}\n{}\n\n",
                  request.model.name, static_cast<double>(request.model.params()) / 1e6,
                  trained_text(request, forecast), request.machine.name,
                  request.machine.description, request.ranks, request.ranks == 1 ? "" : "s",
                  request.micro_batch, forecast.fits() ? "fits" : "DOES NOT FIT");
  if (problem.gpus() > 0) text += memory_text("memory of a GPU", forecast.gpu);
  text += memory_text("memory of a node's host", forecast.host);
  text += fmt::format("\nplan of a rank, {} subgroups of at most {} parameters\n  {}\n  {}\n",
                      problem.subgroups.size(), problem.largest(), describe(plan, problem),
                      plan.reason);
  text += homes_text(forecast);
  text += passing_text(plan) + activations_text(request, forecast) + bound_text(plan);
  text += fmt::format(
      "\npredicted step {:.1f} ms: forward {:.1f}, backward {:.1f}, update {:.1f}{}; limit: {}\n"
      "first layers ready for the next forward after {:.1f} ms of the update\n",
      forecast.step.value() * 1e3, forecast.phases.forward.value() * 1e3,
      forecast.phases.backward.value() * 1e3, plan.time.value() * 1e3, beside_text(forecast),
      forecast.limit, replay.first_ready.value() * 1e3);
  text += ahead_text(forecast);
  text += keys_text(request, forecast);
  if (request.ranks > 1) text += wire_text(request, forecast);
  if (request.storage) text += checkpoint_text(request, forecast);
  return text + "\n" + timeline_text(problem, replay);
}

std::string report_json(const Request& request, const Forecast& forecast) {
  const sched::Plan& plan = forecast.plan;
  const sched::Problem& problem = forecast.problem;
  nlohmann::json json{
      {"machine", request.machine.name},
      {"model", request.model.name},
      {"params", request.model.params()},
      {"trained_params", forecast.trained_params},
      {"ranks", request.ranks},
      {"micro_batch", request.micro_batch},
      {"policy", plan.policy},
      {"reason", plan.reason},
      {"fits", forecast.fits()},
      {"update_s", plan.time.value()},
      {"forward_s", forecast.phases.forward.value()},
      {"backward_s", forecast.phases.backward.value()},
      {"step_s", forecast.step.value()},
      {"step_bound_s", forecast.step_bound.time.value()},
      {"step_binding", forecast.step_bound.binding},
      {"exposed_s", forecast.phases.exposed.value()},
      {"passing", {{"bytes", plan.overflow.value()}, {"waits_s", plan.refetch.value()}}},
      {"zero", request.settings.zero},
      {"sent",
       {{"gradients", forecast.sent.gradients.value()},
        {"weights", forecast.sent.weights.value()}}},
      {"limit", forecast.limit},
      {"ahead", ahead_json(forecast.ahead)},
      {"bound_s", plan.bound.time.value()},
      {"binding", plan.bound.binding},
      {"share", plan.gpu_share(problem)},
      {"resident_share", plan.share(problem, &sched::is_resident)},
      {"window", widest(plan)},
      {"windows", plan.window},
      {"subgroups", problem.subgroups.size()},
      {"activations", activations_json(request, forecast)},
      {"home", home_json(forecast)},
      {"tiers", tiers_json(forecast)},
      {"memory", {{"gpu", memory_json(forecast.gpu)}, {"host", memory_json(forecast.host)}}}};
  for (const auto& [key, value] : keys_of(request, forecast)) json["keys"][key] = value;
  if (request.storage) json["checkpoints"] = checkpoint_json(request, forecast);
  return json_text(json, 2);
}

}  // namespace dos::planner
