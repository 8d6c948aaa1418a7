// SPDX-License-Identifier: Apache-2.0
#include "launch/device_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/stop.hpp"
#include "base/units.hpp"
#include "platform/starved_threads.hpp"
#include "rt/device.hpp"
#include "storage/engine.hpp"

namespace dos::launch {
namespace {

/// A device is full when less than this part of it is free.
constexpr Index kFullParts = 16;

std::vector<DeviceRoom> rooms_of(const std::vector<rt::Device>& devices) {
  std::vector<DeviceRoom> rooms;
  for (const rt::Device& device : devices)
    if (device.memory_bytes)
      rooms.push_back({.name = device.name,
                       .bytes = *device.memory_bytes,
                       .free = *device.memory_bytes - rt::used_on(device.node)});
  return rooms;
}

bool is_full(const DeviceRoom& device) {
  return device.free < device.bytes / kFullParts;
}

}  // namespace

std::string stall_text(const std::vector<DeviceRoom>& devices, const rt::Progress& now,
                       double seconds) {
  const bool has_tasks = now.ready > 0;
  const std::string waiting =
      fmt::format("{} for {:g} s (train.stall_timeout_s)",
                  has_tasks ? fmt::format("ready tasks: {}, of which none has run", now.ready)
                            : fmt::format("messages that wait for memory: {}, of which none has "
                                          "got any",
                                          now.accesses.waiting()),
                  seconds);
  const auto part_free = [](const DeviceRoom& device) {
    return static_cast<double>(device.free) / static_cast<double>(std::max<Index>(1, device.bytes));
  };
  const auto fullest = std::ranges::min_element(devices, {}, part_free);
  if (fullest == devices.end()) return "the run stands still: " + waiting;
  return fmt::format("{} has no memory for the next {}: {} of {} are free; {}", fullest->name,
                     has_tasks ? "task" : "message", format_bytes(fullest->free),
                     format_bytes(fullest->bytes), waiting);
}

DeviceWatch::Sources DeviceWatch::session_sources() {
  return {
      .rooms = [devices = rt::devices()] { return rooms_of(devices); },
      .progress =
          [] {
            rt::Progress now = rt::progress();
            now.transfers = storage::Engine::open_transfers();
            return now;
          },
      .is_starved = [threads = platform::StarvedThreads()]() mutable { return threads.look(); }};
}

DeviceWatch::DeviceWatch(double patience_s, const std::string& advice,
                         std::function<void(const std::string&)> end, Sources sources)
    : patience_s_(patience_s),
      advice_(advice),
      end_(std::move(end)),
      sources_(std::move(sources)),
      last_words_(
          "train_gpt: error: aborted while the memory of a device was full: if what was said "
          "before is about its memory,\n" +
          advice + "\n"),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

void DeviceWatch::watch(const std::stop_token& stop) {
  const std::chrono::duration<double> period(patience_s_ / static_cast<double>(kLooks));
  rt::StallDetector detector(kLooks);
  while (sleep_unless_stopped(stop, period)) {
    const std::vector<DeviceRoom> rooms = sources_.rooms();
    last_words_.apply(std::ranges::any_of(rooms, is_full));
    const rt::Progress now = sources_.progress();
    if (sources_.is_starved() || !detector.has_stalled(now)) continue;
    end_(stall_text(rooms, now, patience_s_) + "\n" + advice_);
    return;
  }
}

}  // namespace dos::launch
