// SPDX-License-Identifier: Apache-2.0
// The storage engine beside a plain loop of system calls over the same files, round about, in one
// process: how near it comes to what the disk allows, and what processor time it takes.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "base/error.hpp"
#include "storage/engine.hpp"
#include "storage/pages.hpp"
#include "transfer_readings.hpp"

namespace dos::bench {
namespace {

using storage::DirectFile;
using storage::Engine;
using storage::Kind;
using storage::Pages;

struct Options {
  std::filesystem::path folder = ".";
  double gigabytes = 1;
  Index depth = 8;
  double block_mib = 4;
  int rounds = 5;
  Index busy = 0;
  std::string backend = "best";
  bool is_json = false;
};

/// `depth` threads that take the next block, until there is none.
void raw_loop(const DirectFile& file, Kind kind, std::span<std::byte> memory, Index depth,
              Index block) {
  const int descriptor = file.is_direct() ? file.direct() : file.buffered();
  std::atomic<Index> next = 0;
  std::atomic<int> error = 0;
  const auto work = [&] {
    const Index bytes = std::ssize(memory);
    for (Index first = next.fetch_add(block); first < bytes; first = next.fetch_add(block)) {
      const auto part = memory.subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(std::min(block, bytes - first)));
      const ssize_t moved = kind == Kind::kRead
                                ? ::pread(descriptor, part.data(), part.size(), first)
                                : ::pwrite(descriptor, part.data(), part.size(), first);
      if (moved != std::ssize(part)) error = moved < 0 ? errno : EIO;
    }
  };
  std::vector<std::thread> threads;
  for (Index i = 0; i < depth; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (error == 0 && kind == Kind::kWrite && ::fdatasync(file.buffered()) != 0) error = errno;
  if (error != 0) fail_errno(file.path().string() + ": cannot read or write", error);
}

void through_engine(Engine& engine, const DirectFile& file, Kind kind,
                    std::span<std::byte> memory) {
  std::string fault;
  const auto note = [&](const std::string& text) {
    if (!text.empty()) fault = text;
  };
  if (kind == Kind::kRead) {
    engine.read(file, 0, memory, note);
  } else {
    engine.write(file, 0, memory, note);
    engine.sync(file, note);
  }
  engine.wait_all();
  expect(fault.empty(), "{}", fault);
}

/// Reads one file and writes another, half of the operations each.
void raw_mixed(const DirectFile& from, std::span<std::byte> into, const DirectFile& to,
               std::span<std::byte> memory, Index depth, Index block) {
  std::string fault;
  std::jthread reader([&] {
    try {
      raw_loop(from, Kind::kRead, into, std::max<Index>(1, depth / 2), block);
    } catch (const Error& error) {
      fault = error.what();
    }
  });
  raw_loop(to, Kind::kWrite, memory, std::max<Index>(1, depth / 2), block);
  reader.join();
  expect(fault.empty(), "{}", fault);
}

/// The same through the engine, a block of each by turns, as states on disks come and go.
void mixed_through_engine(Engine& engine, const DirectFile& from, std::span<std::byte> into,
                          const DirectFile& to, std::span<std::byte> memory, Index block) {
  std::string fault;
  const auto note = [&](const std::string& text) {
    if (!text.empty()) fault = text;
  };
  for (Index first = 0; first < std::ssize(memory); first += block) {
    const auto offset = static_cast<std::size_t>(first);
    const auto count = std::min(static_cast<std::size_t>(block), memory.size() - offset);
    engine.read(from, first, into.subspan(offset, count), note);
    engine.write(to, first, memory.subspan(offset, count), note);
  }
  engine.sync(to, note);
  engine.wait_all();
  expect(fault.empty(), "{}", fault);
}

/// Processes that compute all the time, as workers do in long tasks. Their time is not this one's.
class BusyCores {
 public:
  explicit BusyCores(Index count) {
    for (Index i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (std::atomic<Index> sum = 0;; ++sum) {
        }
      }
      if (child < 0) fail_errno("--busy: cannot start a process", errno);
      children_.push_back(child);
    }
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;
  ~BusyCores() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

std::unique_ptr<storage::Backend> make_backend(const std::string& name) {
  if (name == "threads") return storage::make_thread_backend();
  if (name == "best") return storage::make_backend();
  auto backend = storage::make_uring_backend();
  expect(backend != nullptr, "--backend io_uring: not to be had on this machine; use threads");
  return backend;
}

void check(const Options& options) {
  expect(options.gigabytes > 0 && options.gigabytes < 1000,
         "--gigabytes {}: must be above 0, and below 1000", options.gigabytes);
  expect(options.depth > 0 && options.depth <= 64, "--depth {}: must lie between 1 and 64",
         options.depth);
  const double pages = options.block_mib * 256;
  expect(pages >= 1 && pages <= 1 << 18 && pages == std::floor(pages),
         "--block-mib {}: must be a multiple of 4 KiB, at most 1024", options.block_mib);
  expect(options.rounds > 0, "--rounds {}: must be positive", options.rounds);
  expect(options.busy >= 0 && options.busy <= 1024, "--busy {}: must lie between 0 and 1024",
         options.busy);
}

using Results = std::map<std::string, TransferReadings>;

constexpr std::array kWays{"write", "read", "mixed"};

/// Fills "write", "raw_write", "read", "raw_read", "mixed" and "raw_mixed", in turn.
std::string run(const Options& options, Results& results) {
  constexpr Index kUnit = 1 << 20;
  const Index block = static_cast<Index>(options.block_mib * kUnit);
  const Index bytes =
      std::max<Index>(1, static_cast<Index>(options.gigabytes * 1e9) / kUnit) * kUnit;
  const BusyCores busy(options.busy);
  const Pages memory(bytes);
  const Pages into(bytes);
  std::ranges::fill(into.bytes(), std::byte{1});
  for (Index i = 0; i < bytes; i += 64)
    memory.bytes()[static_cast<std::size_t>(i)] = std::byte(i / 64);
  Engine engine({.depth = options.depth, .block_bytes = block}, make_backend(options.backend));
  const std::filesystem::path path = options.folder / fmt::format("io_bench.{}.tmp", ::getpid());
  const std::filesystem::path second = path.string() + "2";
  const auto remove_files = [&] {
    std::filesystem::remove(path);
    std::filesystem::remove(second);
  };
  std::string how = engine.backend();
  try {
    for (int round = 0; round < options.rounds; ++round) {
      {
        // New files for each, as checkpoints have: a file system may treat others differently.
        const DirectFile file = DirectFile::create(path, bytes);
        if (!file.is_direct()) how = std::string(engine.backend()) + " through the page cache";
        results["raw_write"].measure(
            bytes, [&] { raw_loop(file, Kind::kWrite, memory.bytes(), options.depth, block); });
      }
      const DirectFile file = DirectFile::create(path, bytes);
      results["write"].measure(bytes,
                               [&] { through_engine(engine, file, Kind::kWrite, memory.bytes()); });
      results["raw_read"].measure(
          bytes, [&] { raw_loop(file, Kind::kRead, memory.bytes(), options.depth, block); });
      results["read"].measure(bytes,
                              [&] { through_engine(engine, file, Kind::kRead, memory.bytes()); });
      {
        const DirectFile to = DirectFile::create(second, bytes);
        results["raw_mixed"].measure(2 * bytes, [&] {
          raw_mixed(file, into.bytes(), to, memory.bytes(), options.depth, block);
        });
      }
      const DirectFile to = DirectFile::create(second, bytes);
      results["mixed"].measure(2 * bytes, [&] {
        mixed_through_engine(engine, file, into.bytes(), to, memory.bytes(), block);
      });
    }
  } catch (...) {
    remove_files();
    throw;
  }
  remove_files();
  return how;
}

void print(const Options& options) {
  Results results;
  const std::string how = run(options, results);
  nlohmann::json json{{"backend", how},
                      {"depth", options.depth},
                      {"block_mib", options.block_mib},
                      {"gigabytes", options.gigabytes},
                      {"rounds", options.rounds},
                      {"busy", options.busy}};
  for (const char* way : kWays)
    json[way] = comparison(results.at(way), results.at("raw_" + std::string(way)));
  if (options.is_json) {
    std::cout << json.dump() << '\n';
    return;
  }
  fmt::print("{}, {} under way, blocks of {} MiB, {} GB, {} rounds, {} busy cores\n", how,
             options.depth, options.block_mib, options.gigabytes, options.rounds, options.busy);
  for (const char* way : kWays) fmt::print("{:5}  {}\n", way, in_words(json[way]));
}

}  // namespace
}  // namespace dos::bench

int main(int argc, char** argv) {
  dos::bench::Options options;
  dos::apps::Parser app(
      "Reads and writes a file through the storage engine, and by threads that do nothing else.");
  app.add_option("--folder", options.folder, "where two files are made, and removed")
      .capture_default_str();
  app.add_option("--gigabytes", options.gigabytes, "of a file; twice as much memory")
      .capture_default_str();
  app.add_option("--depth", options.depth, "operations under way").capture_default_str();
  app.add_option("--block-mib", options.block_mib, "of an operation").capture_default_str();
  app.add_option("--rounds", options.rounds, "of each, in turn").capture_default_str();
  app.add_option("--busy", options.busy, "processes that compute all the time beside it")
      .capture_default_str();
  app.add_option("--backend", options.backend, "best, io_uring or threads")
      .check(dos::apps::one_of({"best", "io_uring", "threads"}))
      .capture_default_str();
  app.add_flag("--json", options.is_json, "one JSON object");
  if (const auto status = app.parse("io", argc, argv)) return *status;
  try {
    dos::bench::check(options);
    dos::bench::print(options);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("io", error);
  }
}
