// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <list>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"

namespace dos {
namespace {

/// What a mapping is, where a signal handler finds it.
struct Range {
  const std::byte* begin;
  const std::byte* end;
  std::string words;  ///< for the case that it is cut
};

/// All mappings. Whoever changes the list reads no mapping meanwhile, so a handler of a read may
/// wait for the flag.
std::atomic_flag ranges_are_taken = ATOMIC_FLAG_INIT;
std::list<Range> ranges;
const char* program_name = nullptr;

class TakenRanges {
 public:
  TakenRanges() {
    while (ranges_are_taken.test_and_set(std::memory_order_acquire)) {
    }
  }
  TakenRanges(const TakenRanges&) = delete;
  TakenRanges& operator=(const TakenRanges&) = delete;
  ~TakenRanges() { ranges_are_taken.clear(std::memory_order_release); }
};

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void end_with_words(int signal, siginfo_t* info, void* /*context*/) {
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  const TakenRanges taken;
  for (const Range& range : ranges) {
    if (address < range.begin || address >= range.end) continue;
    say(program_name);
    say(range.words);
    std::_Exit(EXIT_FAILURE);
  }
  // Another's fault: the read is repeated, and ends the program. What somebody sent is sent again.
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) std::raise(signal);
}

}  // namespace

struct MappedFile::Mapping {
  explicit Mapping(const std::filesystem::path& path) : file(path) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (bytes.empty()) return;
    {
      const TakenRanges taken;
      ranges.erase(place);
    }
    ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
  }

  InputFile file;
  std::span<const std::byte> bytes;
  std::list<Range>::iterator place;
};

MappedFile::MappedFile(const std::filesystem::path& path)
    : mapping_(std::make_unique<Mapping>(path)) {
  const auto size = static_cast<std::size_t>(mapping_->file.size());
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, mapping_->file.descriptor(), 0);
  if (address == MAP_FAILED) fail_errno(path.string() + ": cannot map", errno);
  const auto* const begin = static_cast<const std::byte*>(address);
  std::list<Range> range{
      {begin, begin + size,
       ": error: " + path.string() +
           ": was cut short while it is in use, or cannot be read: copy or write "
           "it again\n"}};
  mapping_->bytes = {begin, size};
  mapping_->place = range.begin();
  const TakenRanges taken;
  ranges.splice(ranges.end(), range);
}

MappedFile::MappedFile(MappedFile&& other) noexcept = default;
MappedFile::~MappedFile() = default;

std::span<const std::byte> MappedFile::bytes() const noexcept {
  return mapping_->bytes;
}

const std::filesystem::path& MappedFile::path() const noexcept {
  return mapping_->file.path();
}

const InputFile& MappedFile::file() const noexcept {
  return mapping_->file;
}

void end_with_words_when_cut(const char* program) {
  program_name = program;
  struct sigaction action {};
  action.sa_sigaction = end_with_words;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace dos
