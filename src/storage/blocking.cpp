// SPDX-License-Identifier: Apache-2.0
#include "storage/blocking.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/event.hpp"

namespace dos::storage {
namespace {

/// begin(done) begins a transfer.
template <class Begin>
void wait_for(const Begin& begin) {
  Event ended;
  std::string found;
  begin([&](const std::string& fault) {
    found = fault;
    ended.set();
  });
  ended.wait();
  expect(found.empty(), "{}", found);
}

}  // namespace

void read(Engine& engine, const DirectFile& file, Index offset, std::span<std::byte> memory,
          const Label& label) {
  wait_for([&](Done done) { engine.read(file, offset, memory, std::move(done), label); });
}

void write(Engine& engine, const DirectFile& file, Index offset, std::string_view text,
           const Label& label) {
  wait_for([&](Done done) {
    engine.write(file, offset, std::as_bytes(std::span(text)), std::move(done), label);
  });
}

void sync(Engine& engine, const DirectFile& file, const Label& label) {
  const DirectFile* const one = &file;
  sync(engine, std::span(&one, 1), label);
}

void sync(Engine& engine, std::span<const DirectFile* const> files, const Label& label) {
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::size_t left = files.size();
  std::string found;
  for (const DirectFile* file : files)
    engine.sync(
        *file,
        [&](const std::string& fault) {
          const std::lock_guard lock(mutex);
          if (found.empty()) found = fault;
          if (--left == 0) changed.notify_all();
        },
        label);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return left == 0; });
  expect(found.empty(), "{}", found);
}

}  // namespace dos::storage
