// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/local_time.hpp"
#include "base/log.hpp"
#include "base/temporary.hpp"
#include "io/run_folder.hpp"

namespace dos::io {
namespace {

namespace fs = std::filesystem;

/// "host 1234 9876543 2026-01-02T03:04:05+0000": process and start of a holder. The third is
/// the process's start in the kernel's clock, by which another process with its number is known.
struct Holder {
  std::string host;
  pid_t process = 0;
  std::string start;
  std::string since;
};

std::string this_host() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Field 22 of /proc/PID/stat: behind the name, which may hold anything. "" when there is none.
std::string start_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  if (!std::getline(file, text, '\0')) return "";
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

std::string to_text(const Holder& holder) {
  return fmt::format("{} {} {} {}\n", holder.host, holder.process, holder.start, holder.since);
}

/// process 0: the text names nobody.
Holder parse(const std::string& text) {
  Holder holder;
  std::istringstream fields(text);
  if (!(fields >> holder.host >> holder.process >> holder.start >> holder.since)) return {};
  return holder;
}

Holder this_process() {
  return {.host = this_host(),
          .process = ::getpid(),
          .start = start_of(::getpid()),
          .since = fmt::format("{:%Y-%m-%dT%H:%M:%S%z}", local_time())};
}

/// Of a process of this machine.
bool lives(const Holder& holder) {
  return (::kill(holder.process, 0) == 0 || errno == EPERM) &&
         start_of(holder.process) == holder.start;
}

std::string read_all(int descriptor) {
  std::string text(4096, '\0');
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

[[noreturn]] void refuse(const fs::path& folder, const LockWords& words, const fs::path& path,
                         const Holder& holder) {
  const std::string who =
      holder.process == 0
          ? "another process"
          : fmt::format("process {} on {}, since {}", holder.process, holder.host, holder.since);
  fail("{} {} is in use by {}: {}; only if that process is gone for certain, delete {}", words.what,
       folder.string(), who, words.remedy, path.string());
}

/// The holder, who may not have had the time to write down who he is.
Holder wait_for_holder(int descriptor) {
  Holder holder = parse(read_all(descriptor));
  for (int i = 0; i < 50 && holder.process == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    holder = parse(read_all(descriptor));
  }
  return holder;
}

enum class Answer { kTaken, kRefused, kUnknown };

Answer ask_system(int descriptor) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &whole) == 0) return Answer::kTaken;
  return errno == EAGAIN || errno == EACCES ? Answer::kRefused : Answer::kUnknown;
}

/// Without locks of the system: whether the file was left behind.
bool was_left(const Holder& holder) {
  return holder.process != 0 && holder.host == this_host() && !lives(holder);
}

bool are_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool is_same_file(int descriptor, const fs::path& path) {
  struct stat mine {};
  struct stat there {};
  return ::fstat(descriptor, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         are_same(mine, there);
}

/// A folder may be named by a link.
bool is_same_folder(int descriptor, const fs::path& path) {
  struct stat mine {};
  struct stat there {};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
         are_same(mine, there);
}

}  // namespace

RunLock::RunLock(const fs::path& folder, LockWords words, bool asks_system)
    : folder_(folder),
      words_(std::move(words)),
      path_(folder / kLockName),
      asks_system_(asks_system) {
  // Whoever holds the file may remove it at any moment: then there is a next one.
  while (!try_to_take()) ::close(std::exchange(descriptor_, -1));
  const std::string mine = to_text(this_process());
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size())) {
    const int cause = errno;
    ::unlink(path_.c_str());
    ::close(descriptor_);
    fail_errno(path_.string() + ": cannot write", cause);
  }
  place_ = ::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void RunLock::keep() {
  if (is_same_file(descriptor_, path_)) return;
  constexpr const char* kGone = "the folder that this run began in was removed or moved";
  std::error_code ignored;
  expect(is_same_folder(place_, folder_) || !fs::exists(folder_ / kRunInfo, ignored),
         "{} {}: {}, and there is another run now: put the folder back, or let this run end",
         words_.what, folder_.string(), kGone);
  RunLock anew(folder_,
               {.what = fmt::format("{}, and {}", kGone, words_.what),
                .remedy = "stop it, or let this run end"},
               asks_system_);
  former_.push_back(std::exchange(descriptor_, std::exchange(anew.descriptor_, -1)));
}

bool RunLock::try_to_take() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = ::open(path_.c_str(), kFlags | O_EXCL, 0644);
  const bool is_new = descriptor_ >= 0;
  if (!is_new && errno == EEXIST) descriptor_ = ::open(path_.c_str(), kFlags, 0644);
  expect(descriptor_ >= 0 || errno != ELOOP,
         "{}: cannot create, a symbolic link is in its place: remove it", path_.string());
  if (descriptor_ < 0)
    fail_errno(fmt::format("{}: cannot create, choose a writable folder for {}", path_.string(),
                           words_.what),
               errno);
  const Answer answer = asks_system_ ? ask_system(descriptor_) : Answer::kUnknown;
  if (answer == Answer::kUnknown && is_new) return true;
  const Holder holder =
      answer == Answer::kTaken ? parse(read_all(descriptor_)) : wait_for_holder(descriptor_);
  const bool refused =
      answer == Answer::kRefused || (answer == Answer::kUnknown && !was_left(holder));
  // A file that is gone was let go of.
  if (!is_same_file(descriptor_, path_)) return false;
  if (refused) {
    ::close(std::exchange(descriptor_, -1));
    refuse(folder_, words_, path_, holder);
  }
  if (answer == Answer::kUnknown) {
    ::unlink(path_.c_str());
    return false;
  }
  if (holder.process != 0)
    log::info("{} {}: process {} on {} has {}; taken over", words_.what, folder_.string(),
              holder.process, holder.host,
              holder.host == this_host() && lives(holder)
                  ? "another folder, which this is a copy of"
                  : "ended without letting go of it");
  return true;
}

bool is_locked(const fs::path& folder) {
  const int descriptor = ::open((folder / kLockName).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  const Descriptor closes(descriptor);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_GETLK, &whole) == 0) return whole.l_type != F_UNLCK;
  return !was_left(parse(read_all(descriptor)));
}

RunLock::RunLock(RunLock&& other) noexcept
    : folder_(std::move(other.folder_)),
      words_(std::move(other.words_)),
      path_(std::move(other.path_)),
      asks_system_(other.asks_system_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      place_(std::exchange(other.place_, -1)),
      former_(std::move(other.former_)) {}

RunLock::~RunLock() {
  if (place_ >= 0) ::close(place_);
  for (const int former : former_) ::close(former);
  if (descriptor_ < 0) return;
  // Before the lock goes: it is ours until then.
  if (is_same_file(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace dos::io
