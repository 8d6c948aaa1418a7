// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/starpu_bus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dos::perfmodels {
namespace {

/// Rows and columns of a matrix: StarPU reads as many as it was built for memory nodes, at most 32
/// (STARPU_MAXNODES), and takes the last of a shorter row as unknown.
constexpr Index kNodes = 32;
constexpr double kMega = 1e6;
constexpr double kMicro = 1e-6;
/// Flops a second of a simulated worker: StarPU multiplies by it what SimGrid divides by it.
constexpr const char* kWorkerSpeed = "2000000000f";

using Text = fmt::memory_buffer;

template <class... Args>
void add(Text& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

const GpuRates& gpu(const Rates& rates, Index place) {
  return rates.gpus[static_cast<std::size_t>(place)];
}

/// `value` of a pair of memory nodes; node 0 is host memory, node g + 1 GPU g.
template <class Value>
std::string matrix(const Rates& rates, Value&& value) {
  const Index nodes = std::ssize(rates.gpus) + 1;
  const auto entry = [&](Index from, Index to) {
    if (from >= nodes || to >= nodes) return std::string("nan");
    return fmt::format("{:.6f}", from == to ? 0 : value(from, to));
  };
  Text text;
  add(text, "# from \\ to");
  for (Index to = 0; to < kNodes; ++to) add(text, "\t{}", to);
  for (Index from = 0; from < kNodes; ++from)
    for (Index to = 0; to < kNodes; ++to) add(text, "{}{}", to == 0 ? '\n' : '\t', entry(from, to));
  add(text, "\n");
  return fmt::to_string(text);
}

std::string bandwidths(const Rates& rates) {
  return matrix(rates, [&](Index from, Index to) {
    const double out =
        from == 0 ? gpu(rates, to - 1).h2d.value() : gpu(rates, from - 1).d2h.value();
    const double in = to == 0 ? out : gpu(rates, to - 1).h2d.value();
    return std::min(in, out) / kMega;
  });
}

std::string latencies(const Rates& rates) {
  return matrix(rates, [&](Index from, Index to) {
    const double ways = from != 0 && to != 0 ? 2 : 1;
    return ways * rates.transfer_latency.value() / kMicro;
  });
}

std::string configuration(const Rates& rates) {
  Text text;
  add(text, "# Current configuration\n{} # Number of CPUs\n{} # Number of CUDA nodes\n",
      rates.cpu_workers, rates.gpus.size());
  for (const char* kind :
       {"OpenCL nodes", "HIP nodes", "Max FPGA nodes", "MPI_MS nodes", "TCPIP_MS nodes"})
    add(text, "0 # Number of {}\n", kind);
  return fmt::to_string(text);
}

std::string affinities(const Rates& rates) {
  Text text;
  add(text, "# GPU\tNUMA0\n");
  for (std::size_t g = 0; g < rates.gpus.size(); ++g) add(text, "{}\t0\n", g);
  return fmt::to_string(text);
}

void add_hosts(Text& text, const Rates& rates, units::Bytes gpu_memory) {
  add(text, "  <host id=\"MAIN\" speed=\"1f\"/>\n  <host id=\"RAM\" speed=\"1f\"/>\n");
  for (Index worker = 0; worker < rates.cpu_workers; ++worker)
    add(text, "  <host id=\"CPU{}\" speed=\"{}\"/>\n", worker, kWorkerSpeed);
  for (std::size_t g = 0; g < rates.gpus.size(); ++g)
    add(text,
        "  <host id=\"CUDA{}\" speed=\"{}\">\n"
        "   <prop id=\"model\" value=\"simulated\"/>\n"
        "   <prop id=\"memsize\" value=\"{:.0f}\"/>\n"
        "   <prop id=\"memcpy_peer\" value=\"0\"/>\n"
        "  </host>\n",
        g, kWorkerSpeed, gpu_memory.value());
}

void add_links(Text& text, const Rates& rates) {
  const auto link = [&](const std::string& name, double rate) {
    add(text, "  <link id=\"{}\" bandwidth=\"{:.0f}Bps\" latency=\"{:.9f}s\"/>\n", name, rate,
        rates.transfer_latency.value());
  };
  for (std::size_t g = 0; g < rates.gpus.size(); ++g) {
    link(fmt::format("RAM-CUDA{}", g), rates.gpus[g].h2d.value());
    link(fmt::format("CUDA{}-RAM", g), rates.gpus[g].d2h.value());
  }
}

void add_routes(Text& text, std::size_t gpus) {
  for (std::size_t g = 0; g < gpus; ++g) {
    add(text,
        "  <route src=\"RAM\" dst=\"CUDA{0}\" symmetrical=\"NO\"><link_ctn id=\"RAM-CUDA{0}\"/>"
        "</route>\n"
        "  <route src=\"CUDA{0}\" dst=\"RAM\" symmetrical=\"NO\"><link_ctn id=\"CUDA{0}-RAM\"/>"
        "</route>\n",
        g);
    for (std::size_t to = 0; to < gpus; ++to)
      if (to != g)
        add(text,
            "  <route src=\"CUDA{0}\" dst=\"CUDA{1}\" symmetrical=\"NO\">"
            "<link_ctn id=\"CUDA{0}-RAM\"/><link_ctn id=\"RAM-CUDA{1}\"/></route>\n",
            g, to);
  }
}

/// The properties switch off SimGrid's corrections for TCP over a network.
std::string platform(const Rates& rates, units::Bytes gpu_memory) {
  Text text;
  add(text,
      "<?xml version='1.0'?>\n"
      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\">\n"
      " <config id=\"General\">\n"
      "  <prop id=\"network/TCP-gamma\" value=\"-1\"></prop>\n"
      "  <prop id=\"network/latency-factor\" value=\"1\"></prop>\n"
      "  <prop id=\"network/bandwidth-factor\" value=\"1\"></prop>\n"
      "  <prop id=\"network/weight-S\" value=\"0.0\"></prop>\n"
      "  <prop id=\"network/crosstraffic\" value=\"0\"></prop>\n"
      " </config>\n"
      " <zone id=\"node\" routing=\"Full\">\n");
  add_hosts(text, rates, gpu_memory);
  add_links(text, rates);
  add_routes(text, rates.gpus.size());
  add(text, " </zone>\n</platform>\n");
  return fmt::to_string(text);
}

}  // namespace

Rates simulated_rates(const Rates& rates, Links links) {
  Rates result = rates;
  const bool busy = links == Links::kCpuBusy;
  units::BytesPerSecond demand = result.cpu_update * kCpuUpdateTraffic;
  for (GpuRates& gpu : result.gpus) {
    const units::BytesPerSecond half = (busy ? gpu.both_cpu_busy : gpu.both) * 0.5;
    gpu.h2d = gpu.h2d_cpu_busy = std::min(busy ? gpu.h2d_cpu_busy : gpu.h2d, half);
    gpu.d2h = gpu.d2h_cpu_busy = std::min(busy ? gpu.d2h_cpu_busy : gpu.d2h, half);
    gpu.both = gpu.both_cpu_busy = gpu.h2d + gpu.d2h;
    demand += gpu.both;
  }
  // A worker is as fast alone as beside the others.
  result.cpu_worker = result.cpu_update / static_cast<double>(result.cpu_workers);
  result.dram = std::max(result.dram, demand);
  return result;
}

std::vector<BusFile> starpu_bus(const std::string& host, const Rates& rates,
                                units::Bytes gpu_memory) {
  rates.validate();
  const std::string stem = "bus/" + host;
  return {{stem + ".config", configuration(rates)},
          {stem + ".bandwidth", bandwidths(rates)},
          {stem + ".latency", latencies(rates)},
          {stem + ".affinity", affinities(rates)},
          {stem + ".platform.v4.xml", platform(rates, gpu_memory)}};
}

}  // namespace dos::perfmodels
