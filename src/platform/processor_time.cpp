// SPDX-License-Identifier: Apache-2.0
#include "platform/processor_time.hpp"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.hpp"

namespace dos::platform {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

std::optional<ProcessorTime> read_processor_time(std::istream& stat, double ticks) {
  std::string name;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double waiting = 0;
  double interrupts = 0;
  double soft_interrupts = 0;
  double stolen = 0;
  if (!(stat >> name >> user >> nice >> system >> idle >> waiting >> interrupts >>
        soft_interrupts >> stolen) ||
      name != "cpu")
    return std::nullopt;
  return ProcessorTime{.busy = (user + nice + system + interrupts + soft_interrupts) / ticks,
                       .idle = (idle + waiting) / ticks,
                       .stolen = stolen / ticks};
}

std::optional<ProcessorTime> processor_time() {
  std::ifstream stat("/proc/stat");
  return read_processor_time(stat, static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

double own_processor_seconds() {
  rusage usage{};
  require(::getrusage(RUSAGE_SELF, &usage) == 0, "getrusage of this process");
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double thread_processor_seconds(pthread_t thread) {
  clockid_t clock{};
  timespec time{};
  require(::pthread_getcpuclockid(thread, &clock) == 0 && ::clock_gettime(clock, &time) == 0,
          "a thread of this process");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace dos::platform
