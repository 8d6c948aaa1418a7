// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "calibration/busy_cpu.hpp"
#include "calibration/measured_rates.hpp"
#include "storage/engine.hpp"
#include "storage/pages.hpp"

namespace dos::calibration {
namespace {

constexpr Index kTransfer = 8 * kMiB;
/// More than the engine has under way, so that nothing is read into what is being read.
constexpr Index kMemory = 64 * kMiB;
/// The least that goes past the page cache.
constexpr Index kSmallTransfer = 64 * 1024;
constexpr Index kSmallTransfers = 64;

/// Numbers that no controller compresses.
void fill(std::span<std::byte> memory) {
  const Philox random(1);
  const std::size_t words = memory.size() / sizeof(std::uint64_t);
  auto* values = reinterpret_cast<std::uint64_t*>(memory.data());
  for (std::size_t i = 0; i < words; ++i)
    values[i] = static_cast<std::uint64_t>(random.uniform(i, 0) * 0x1p53) * 0x9e3779b97f4a7c15ULL;
}

struct Ways {
  const char* key;
  bool reads;
  bool writes;
};

/// Two files of one disk, one to read and one to write.
class Files {
 public:
  Files(const Disk& disk, Index bytes)
      : bytes_(bytes),
        read_(make_test_file(disk, bytes)),
        write_(make_test_file(disk, bytes)),
        memory_(2 * std::min(kMemory, bytes)) {
    fill(memory_.bytes());
    // What was never written is not read from the disk, and slower to write.
    pass(write_, write_, /*reads=*/false, /*writes=*/true);
    pass(read_, read_, /*reads=*/false, /*writes=*/true);
    finish();
  }

  /// Seconds of `passes` passes over a file, or over both at once, begun behind `begin`.
  double trip(Ways ways, Index passes, const Action& begin) {
    begin();
    return seconds_of([&] {
      for (Index i = 0; i < passes; ++i) pass(read_, write_, ways.reads, ways.writes);
      finish();
    });
  }

  /// Seconds of a small read among others.
  double small_read() {
    const auto part = memory_.bytes().first(static_cast<std::size_t>(kSmallTransfer));
    const Index places = bytes_ / kSmallTransfer;
    const double seconds = seconds_of([&] {
      for (Index i = 0; i < kSmallTransfers; ++i)
        engine_.read(read_, i * 7 % places * kSmallTransfer, part, done());
      finish();
    });
    return seconds / static_cast<double>(kSmallTransfers);
  }

  /// Of one pass.
  [[nodiscard]] double bytes(Ways ways) const {
    return static_cast<double>(bytes_ * ((ways.reads ? 1 : 0) + (ways.writes ? 1 : 0)));
  }

 private:
  storage::Done done() {
    return [this](const std::string& fault) {
      if (!fault.empty()) fault_ = fault;
    };
  }

  void pass(const storage::DirectFile& from, const storage::DirectFile& to, bool reads,
            bool writes) {
    const Index half = std::min(kMemory, bytes_);
    for (Index offset = 0; offset < bytes_; offset += kTransfer) {
      const auto size = static_cast<std::size_t>(std::min(kTransfer, bytes_ - offset));
      const auto place = static_cast<std::size_t>(offset % half);
      if (reads) engine_.read(from, offset, memory_.bytes().subspan(place, size), done());
      if (writes)
        engine_.write(to, offset,
                      memory_.bytes().subspan(static_cast<std::size_t>(half) + place, size),
                      done());
    }
  }

  void finish() {
    engine_.wait_all();
    expect(fault_.empty(), "{}", fault_);
  }

  Index bytes_;
  storage::DirectFile read_;
  storage::DirectFile write_;
  storage::Pages memory_;
  std::string fault_;
  storage::Engine engine_;
};

}  // namespace

std::vector<Result> measure_disk(const Meter& meter, const Disk& disk, Index file_bytes,
                                 const UpdateSet& load) {
  const std::string tier = "tier." + disk.name + ".";
  Files files(disk, file_bytes);
  const std::string how = fmt::format("files of {} in {}, past the page cache",
                                      format_bytes(file_bytes), disk.folder.string());
  std::vector<Result> results{counted(tier + "capacity", capacity_of(disk),
                                      disk.size ? "as given" : "free in " + disk.folder.string())};
  BusyCpu busy(meter, load);
  for (const Ways& ways : {Ways{"link.read", true, false}, Ways{"link.write", false, true},
                           Ways{"link.both", true, true}}) {
    const double once = files.trip(ways, 1, [] {});
    const auto passes =
        static_cast<Index>(std::max(1.0, std::ceil(meter.effort().least_seconds / once)));
    const double bytes = files.bytes(ways) * static_cast<double>(passes);
    const auto alone = [&] { return bytes / files.trip(ways, passes, [] {}); };
    results.push_back(measured(tier + ways.key, repeat(meter.effort(), alone), how));
    const auto beside = [&] {
      return bytes / busy.seconds_beside(
                         [&](const Action& begin) { return files.trip(ways, passes, begin); });
    };
    results.push_back(measured(tier + ways.key + "_cpu_busy", repeat(meter.effort(), beside),
                               how + ", all CPU workers updating"));
  }
  static_cast<void>(files.small_read());
  results.push_back(measured(tier + "link.latency",
                             repeat(meter.effort(), [&] { return files.small_read(); }),
                             fmt::format("reads of {}, {} in flight, each",
                                         format_bytes(kSmallTransfer), kSmallTransfers)));
  return results;
}

}  // namespace dos::calibration
