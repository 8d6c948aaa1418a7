// SPDX-License-Identifier: Apache-2.0
#include "storage/blocking.hpp"

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

void read(Engine& engine, const File& file, Index offset, std::span<std::byte> memory,
          const Label& label) {
  wait_for([&](Done done) { engine.read(file, offset, memory, std::move(done), label); });
}

void write(Engine& engine, const File& file, Index offset, std::string_view text,
           const Label& label) {
  wait_for([&](Done done) {
    engine.write(file, offset, std::as_bytes(std::span(text)), std::move(done), label);
  });
}

void sync(Engine& engine, const File& file, const Label& label) {
  wait_for([&](Done done) { engine.sync(file, std::move(done), label); });
}

}  // namespace dos::storage
