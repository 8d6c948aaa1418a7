// SPDX-License-Identifier: Apache-2.0
#include "planner/scaling.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace dos::planner {
namespace {

using perfmodels::Machine;

constexpr double kGiga = 1e9;
constexpr Index kMostSequences = 64;

struct Run {
  const char* model;
  Index ranks;
};

constexpr std::array kRuns{Run{"llama-20b", 4}, Run{"llama-70b", 16}, Run{"gpt3-175b", 64},
                           Run{"gpt-1t", 1024}};

double ms(units::Seconds time) {
  return time.value() * 1e3;
}

/// "96 of 80!" when it does not fit.
std::string used(const MemoryUse& use) {
  return fmt::format("{:.0f} of {:.0f}{}", use.total().value() / kGiga,
                     use.available.value() / kGiga, use.fits() ? "" : "!");
}

std::string times(const Forecast& result) {
  return fmt::format("{:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f}", ms(result.phases.forward),
                     ms(result.phases.backward), ms(result.plan.time), ms(result.step),
                     ms(result.phases.exposed));
}

std::string level_table(const std::vector<Request>& runs) {
  std::string text =
      "| model | ranks | ZeRO | GPU, GB | node's host, GB | states on the GPU | sent by a rank, GB "
      "| forward ms | backward ms | update ms | step ms | of it waiting for ranks | limit |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
  for (Request request : runs) {
    for (const Index zero : {1, 2, 3}) {
      request.settings.zero = zero;
      const Forecast result = forecast(request);
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {:.0f} % | {:.1f} | {} | {} |\n",
                      request.model.name, request.ranks, zero, used(result.gpu), used(result.host),
                      100 * result.plan.share(result.problem, &sched::is_resident),
                      result.sent.total().value() / kGiga, times(result), result.limit);
    }
  }
  return text;
}

std::string batch_table(const std::vector<Request>& largest_runs) {
  std::string text =
      "| model | ranks | micro-batch | GPU, GB | forward ms | backward ms | update ms | step ms | "
      "of it waiting for ranks | tokens/s | PFLOP/s | limit | step ms between GPUs | limit then |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|\n";
  for (const Request& largest : largest_runs) {
    Request request = largest;
    request.micro_batch = 1;
    for (; request.micro_batch <= largest.micro_batch; request.micro_batch *= 2) {
      const Forecast result = forecast(request);
      const double tokens = result.layout.tokens * static_cast<double>(result.layout.devices);
      const double rate = tokens / result.step.value();
      // Forward and twice that backward: recomputing is no progress.
      const double flops = 3 * forward_flops(request.model).value() * rate;
      Request between_gpus = request;
      between_gpus.settings.exchange = ExchangeWay::kCollective;
      const Forecast then = forecast(between_gpus);
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {:.0f} | {:.2f} | {} | {:.0f} | {} |\n",
                      request.model.name, request.ranks, request.micro_batch, used(result.gpu),
                      times(result), rate, flops / 1e15, result.limit, ms(then.step), then.limit);
    }
  }
  return text;
}

struct Part {
  const char* name;
  void (*improve)(Request& request);
};

void improve_link(Request& request) {
  Machine& machine = request.machine;
  for (auto* rate : {&machine.h2d, &machine.d2h, &machine.both}) rate->value = rate->value * 2.0;
  for (auto* rate : {&machine.h2d_cpu_busy, &machine.d2h_cpu_busy, &machine.both_cpu_busy})
    if (*rate) (*rate)->value = (*rate)->value * 2.0;
}

template <class T>
void twice(perfmodels::Sourced<T>& number) {
  number.value = number.value * 2.0;
}

constexpr std::array kParts{
    Part{"GPU's FLOP rate",
         [](Request& r) {
           twice(r.machine.training_rate);
           if (r.machine.training_rate_fp32) twice(*r.machine.training_rate_fp32);
         }},
    Part{"network", [](Request& r) { twice(r.machine.network->bandwidth); }},
    Part{"DRAM bandwidth", [](Request& r) { twice(r.machine.dram_bandwidth); }},
    Part{"PCIe", improve_link},
    Part{"GPU memory", [](Request& r) { twice(r.machine.gpu_memory); }},
    Part{"exchange between GPUs",
         [](Request& r) { r.settings.exchange = ExchangeWay::kCollective; }},
};

std::string part_table(const std::vector<Request>& largest_runs) {
  std::string text = "| model | ranks | micro-batch |";
  std::string rule = "|---|---:|---:|";
  for (const Part& part : kParts) {
    text += fmt::format(" {} |", part.name);
    rule += "---:|";
  }
  text += "\n" + rule + "\n";
  for (const Request& largest : largest_runs) {
    std::vector<Request> requests{largest};
    if (largest.micro_batch > 1) requests.insert(requests.begin(), largest);
    requests.front().micro_batch = 1;
    for (const Request& request : requests) {
      const double now = forecast(request).step.value();
      text +=
          fmt::format("| {} | {} | {} |", request.model.name, request.ranks, request.micro_batch);
      for (const Part& part : kParts) {
        Request better = request;
        part.improve(better);
        const double saved = 100 * (1 - forecast(better).step.value() / now);
        // Not "-0.0": other rates make another plan, as good.
        text += fmt::format(" {:.1f} % |", std::abs(saved) < 0.05 ? 0.0 : saved);
      }
      text += '\n';
    }
  }
  return text;
}

}  // namespace

std::vector<Request> scaling_runs(const std::filesystem::path& machines, ModelFinder find_model) {
  std::vector<Request> requests;
  for (const Run& run : kRuns) {
    Request request;
    request.machine = perfmodels::find_machine("h100-4x", machines);
    request.model = find_model(run.model);
    request.ranks = run.ranks;
    requests.push_back(std::move(request));
  }
  return requests;
}

Request with_largest_micro_batch(Request request) {
  request.micro_batch = 1;
  for (Request larger = request; larger.micro_batch < kMostSequences;) {
    larger.micro_batch *= 2;
    if (!forecast(larger).fits()) break;
    request.micro_batch = larger.micro_batch;
  }
  return request;
}

std::string scaling_tables(const std::filesystem::path& machines, ModelFinder find_model) {
  const std::vector<Request> runs = scaling_runs(machines, find_model);
  std::vector<Request> largest;
  for (const Request& run : runs) largest.push_back(with_largest_micro_batch(run));
  return "By ZeRO level, micro-batch 1:\n\n" + level_table(runs) + "\nZeRO-3, by micro-batch:\n\n" +
         batch_table(largest) +
         "\nZeRO-3, the step's gain with a part of the machine twice as good, or another "
         "exchange:\n\n" +
         part_table(largest);
}

}  // namespace dos::planner
