// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/units.hpp"
#include "calibration/busy_cpu.hpp"
#include "calibration/measured_rates.hpp"

namespace dos::calibration {
namespace {

using rt::Device;
using rt::Mode;

constexpr Index kSubgroups = 4;
/// Copies of one direction in flight: StarPU hides the start of one behind the one before.
constexpr Index kCopies = 8;
constexpr Index kSmallCopies = 64;
constexpr float kValue = 1e-3F;

/// Host buffers that travel to one device or back.
class Cargo {
 public:
  Cargo(rt::Session& session, const Device& device, Index copies, Index bytes) : device_(device) {
    for (Index i = 0; i < copies; ++i) {
      buffers_.push_back(std::make_unique<rt::Handle>(
          session, rt::HandleSpec{.name = "cargo", .count = bytes / size_of(DType::kF32)}));
      std::ranges::fill(rt::HostAccess(*buffers_.back(), Mode::kWrite).as<float>(), kValue);
    }
    // Memory of the device is allocated once, now.
    put(device_.node);
  }

  /// Blocks until the node has the only valid copy.
  void put(int node) const {
    for (const auto& buffer : buffers_) rt::fetch(*buffer, node, Mode::kReadWrite);
  }
  void start_to(int node) const {
    for (const auto& buffer : buffers_) rt::prefetch(*buffer, node);
  }
  void wait_at(int node) const {
    for (const auto& buffer : buffers_) rt::fetch(*buffer, node, Mode::kRead);
  }

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] double bytes() const {
    double sum = 0;
    for (const auto& buffer : buffers_) sum += static_cast<double>(buffer->bytes());
    return sum;
  }

 private:
  const Device& device_;
  std::vector<std::unique_ptr<rt::Handle>> buffers_;
};

using Fleet = std::vector<Cargo>;

double bytes_of(const Fleet& fleet) {
  double sum = 0;
  for (const Cargo& cargo : fleet) sum += cargo.bytes();
  return sum;
}

/// The links of all devices, with cargo for each direction.
class Links {
 public:
  Links(rt::Session& session, const std::vector<Device>& devices, Index copies, Index bytes)
      : devices_(static_cast<double>(devices.size())) {
    in_.reserve(devices.size());
    out_.reserve(devices.size());
    for (const Device& device : devices) {
      in_.emplace_back(session, device, copies, bytes);
      out_.emplace_back(session, device, copies, bytes);
    }
  }

  /// Seconds of one trip of the cargo of a direction, or of both at once. All of it is ready before
  /// `begin`, which may start what runs beside it.
  [[nodiscard]] double trip(bool in, bool out, const Action& begin) const {
    for (const Cargo& cargo : in_) cargo.put(rt::kHostNode);
    for (const Cargo& cargo : out_) cargo.put(cargo.device().node);
    begin();
    return seconds_of([&] {
      for (std::size_t i = 0; i < in_.size(); ++i) {
        if (in) in_[i].start_to(in_[i].device().node);
        if (out) out_[i].start_to(rt::kHostNode);
      }
      for (std::size_t i = 0; i < in_.size(); ++i) {
        if (in) in_[i].wait_at(in_[i].device().node);
        if (out) out_[i].wait_at(rt::kHostNode);
      }
    });
  }

  /// Bytes of such a trip on one link.
  [[nodiscard]] double bytes(bool in, bool out) const {
    return ((in ? bytes_of(in_) : 0) + (out ? bytes_of(out_) : 0)) / devices_;
  }

 private:
  double devices_;
  Fleet in_;
  Fleet out_;
};

std::vector<Result> measure_links(const Meter& meter, const std::vector<Device>& devices,
                                  Index bytes, const UpdateSet& load) {
  const Links links(meter.session(), devices, kCopies, bytes);
  const std::string how = fmt::format("{} copies of {} in flight on each of {} links", kCopies,
                                      format_bytes(bytes), devices.size());
  struct Direction {
    const char* key;
    bool in;
    bool out;
  };
  BusyCpu busy(meter, load);
  std::vector<Result> results;
  for (const Direction& d :
       {Direction{"link.h2d", true, false}, {"link.d2h", false, true}, {"link.both", true, true}}) {
    const auto alone = [&] { return links.bytes(d.in, d.out) / links.trip(d.in, d.out, [] {}); };
    results.push_back(measured(d.key, repeat(meter.effort(), alone), how));
    const auto beside = [&] {
      return links.bytes(d.in, d.out) / busy.seconds_beside([&](const Action& begin) {
        return links.trip(d.in, d.out, begin);
      });
    };
    results.push_back(measured(std::string(d.key) + "_cpu_busy", repeat(meter.effort(), beside),
                               how + ", all CPU workers updating"));
  }
  return results;
}

Result measure_latency(const Meter& meter, const std::vector<Device>& devices) {
  const Links links(meter.session(), devices, kSmallCopies, size_of(DType::kF32));
  const auto read = [&] {
    return links.trip(/*in=*/true, /*out=*/false, [] {}) / static_cast<double>(kSmallCopies);
  };
  static_cast<void>(read());
  return measured("link.latency", repeat(meter.effort(), read),
                  fmt::format("copies of 4 bytes to the device, {} in flight, each", kSmallCopies));
}

std::vector<Result> measure_updates(const Meter& meter, const codelets::UpdateKind& kind,
                                    const std::vector<Device>& devices, Index params) {
  std::vector<UpdateSet> sets;
  sets.reserve(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i)
    sets.emplace_back(meter.submitter(), kind, kSubgroups, params);
  const std::string how =
      fmt::format("fused update {}, {} subgroups of {:.3g} M parameters on the device",
                  name_of(kind), kSubgroups, static_cast<double>(params) / 1e6);
  std::vector<Result> results;
  const auto all = [&] {
    for (std::size_t i = 0; i < devices.size(); ++i) sets[i].submit_updates(devices[i].worker);
  };
  results.push_back(
      measured("gpu.update_rate", meter.rate(sets.front().params(), all),
               devices.size() > 1 ? fmt::format("{}, all {} at once", how, devices.size()) : how));
  for (std::size_t i = 0; devices.size() > 1 && i < devices.size(); ++i) {
    const auto alone = [&] { sets[i].submit_updates(devices[i].worker); };
    Result result =
        measured("gpu.update_rate", meter.rate(sets[i].params(), alone), "the same alone");
    result.device = devices[i].name;
    results.push_back(std::move(result));
  }
  return results;
}

Result smallest_memory(const std::vector<Device>& devices) {
  const auto smallest = std::ranges::min_element(devices, {}, [](const Device& device) {
    return device.memory_bytes.value_or(std::numeric_limits<Index>::max());
  });
  expect(smallest->memory_bytes.has_value(),
         "StarPU knows no memory size of device '{}': limit it with STARPU_LIMIT_CUDA_MEM or "
         "STARPU_LIMIT_OPENCL_MEM, in MB",
         smallest->name);
  return counted("gpu.memory", *smallest->memory_bytes,
                 fmt::format("what StarPU may use of {}", smallest->name));
}

}  // namespace

std::vector<Result> measure_devices(const Meter& meter, const codelets::UpdateKind& kind,
                                    const std::vector<Device>& devices, const Sizes& sizes,
                                    const UpdateSet& load) {
  std::vector<Result> results{smallest_memory(devices)};
  const double memory = results.front().value;
  // Half of the memory holds all of a measurement, whatever else StarPU keeps there.
  const auto fitting = [&](Index wanted, double bytes_each) {
    return std::clamp<Index>(static_cast<Index>(memory / 2 / bytes_each), 1, wanted);
  };
  const Index params = fitting(sizes.device_params,
                               static_cast<double>(kSubgroups * stored_bytes_per_parameter(kind)));
  for (Result& result : measure_updates(meter, kind, devices, params))
    results.push_back(std::move(result));
  const Index floats = fitting(sizes.link_bytes / size_of(DType::kF32),
                               static_cast<double>(2 * kCopies * size_of(DType::kF32)));
  for (Result& result : measure_links(meter, devices, floats * size_of(DType::kF32), load))
    results.push_back(std::move(result));
  results.push_back(measure_latency(meter, devices));
  return results;
}

}  // namespace dos::calibration
