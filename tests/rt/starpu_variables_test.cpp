// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_variables.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/scoped_environment.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::rt::starpu_variables_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kThreads = 8;

const StarpuVariable& variable(std::string_view name) {
  for (const StarpuVariable& each : starpu_variables())
    if (each.name == name) return each;
  throw std::logic_error("no such variable");
}

bool takes(std::string_view name, const std::string& value) {
  return obstacle_to_value(variable(name), value, kThreads).empty();
}

TEST(StarpuVariables, AreNamedOnce) {
  std::set<std::string_view> names;
  for (const StarpuVariable& each : starpu_variables()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_THAT(each.name, testing::StartsWith("STARPU_"));
  }
}

TEST(StarpuVariables, AllRefuseNonsense) {
  for (const StarpuVariable& each : starpu_variables()) {
    if (each.kind == VariableKind::kFile || each.kind == VariableKind::kFolder) continue;
    for (const char* value : {"", " ", "1  x", "\xFF", "\n", "1,,2", "a/b"})
      EXPECT_NE(obstacle_to_value(each, value, kThreads), "") << each.name << "=" << value;
    if (each.kind == VariableKind::kName || each.kind == VariableKind::kNames) continue;
    for (const char* value : {"-1", "--", "nan", "inf", "1e99", "1 x",
                              "99999999999999999999999999999999999999999", "0x10", "5-2"})
      EXPECT_NE(obstacle_to_value(each, value, kThreads), "") << each.name << "=" << value;
  }
}

TEST(StarpuVariables, Numbers) {
  EXPECT_TRUE(takes("STARPU_NCPU", "0"));
  EXPECT_TRUE(takes("STARPU_NCPU", "2147483647"));
  EXPECT_FALSE(takes("STARPU_NCPU", "2147483648"));
  EXPECT_TRUE(takes("STARPU_CALIBRATE", "2"));
  EXPECT_FALSE(takes("STARPU_CALIBRATE", "3"));
  EXPECT_TRUE(takes("STARPU_DISABLE_KERNELS", "0"));
  EXPECT_FALSE(takes("STARPU_DISABLE_KERNELS", "1"));
  EXPECT_TRUE(takes("STARPU_MAIN_THREAD_CPUID", "7"));
  EXPECT_FALSE(takes("STARPU_MAIN_THREAD_CPUID", "8"));
  EXPECT_TRUE(takes("STARPU_SCHED_ALPHA", "1.5"));
  EXPECT_FALSE(takes("STARPU_SCHED_ALPHA", "-0.5"));
  EXPECT_FALSE(takes("STARPU_WINDOW_TIME_SIZE", "abc"));
  EXPECT_TRUE(takes("STARPU_BACKOFF_MAX", "100000"));
  EXPECT_FALSE(takes("STARPU_BACKOFF_MAX", "100001"));
  EXPECT_TRUE(takes("STARPU_RESERVE_NCPU", "7"));
  EXPECT_FALSE(takes("STARPU_RESERVE_NCPU", "8"));
}

TEST(StarpuVariables, Lists) {
  for (const char* value : {"0", "0 7", "0,1,2", "2-5", "0 2-3,6-", "4-"})
    EXPECT_TRUE(takes("STARPU_WORKERS_CPUID", value)) << value;
  for (const char* value : {"8", "0 8", "3-8", "5-4", "0;1", "0  1", "0,", "abc", "1 abc"})
    EXPECT_FALSE(takes("STARPU_WORKERS_CPUID", value)) << value;
  EXPECT_TRUE(takes("STARPU_WORKERS_CUDAID", "3 1"));
  EXPECT_FALSE(takes("STARPU_WORKERS_CUDAID", "1-3"));
}

TEST(StarpuVariables, Names) {
  EXPECT_TRUE(takes("STARPU_HOSTNAME", "node-7.cluster"));
  EXPECT_FALSE(takes("STARPU_HOSTNAME", "../node"));
  EXPECT_FALSE(takes("STARPU_HOSTNAME", std::string(65, 'a')));
  EXPECT_TRUE(takes("STARPU_MPI_HOSTNAMES", "node-7 node-8"));
  EXPECT_FALSE(takes("STARPU_MPI_HOSTNAMES", "node-7 ../node"));
}

// What StarPU 1.3 and 1.4 hand to starpu_get_env_number() and abort at, whether they have the
// device or not.
TEST(StarpuVariables, OfEveryKindOfDeviceAreChecked) {
  for (const char* device : {"CUDA", "OPENCL", "HIP", "MAX_FPGA", "MIC", "MPI_MS", "TCPIP_MS"}) {
    const std::string name = std::string("STARPU_DISABLE_ASYNCHRONOUS_") + device + "_COPY";
    EXPECT_TRUE(takes(name, "1")) << name;
    EXPECT_FALSE(takes(name, "2")) << name;
    EXPECT_FALSE(takes(std::string("STARPU_PERF_MODEL_HOMOGENEOUS_") + device, "x")) << device;
  }
  for (const char* device : {"CUDA", "OPENCL", "HIP", "MAX_FPGA", "MIC", "MPI_MS", "TCPIP_MS"})
    EXPECT_FALSE(takes(std::string("STARPU_N") + device, "-1")) << device;
  EXPECT_FALSE(takes("STARPU_RAND_SEED", "abc"));
  EXPECT_FALSE(takes("STARPU_SYNTHESIZE_ARITY_COMBINED_WORKER", "0"));
  EXPECT_FALSE(takes("STARPU_MALLOC_SIMULATION_FOLD", "2048"));  // MiB: would not fit into int
  EXPECT_FALSE(takes("STARPU_WATCHDOG_TIMEOUT", "30"));          // that would be no second
  EXPECT_TRUE(takes("STARPU_WATCHDOG_TIMEOUT", "3600000000"));   // microseconds: an hour
}

TEST(StarpuVariables, OfSingleDevicesAreFoundByTheirNumber) {
  const StarpuVariable& limit = variable("STARPU_LIMIT_CUDA_#_MEM");
  for (const char* name : {"STARPU_LIMIT_CUDA_0_MEM", "STARPU_LIMIT_CUDA_15_MEM"})
    EXPECT_TRUE(is_name_of(limit, name)) << name;
  for (const char* name : {"STARPU_LIMIT_CUDA_MEM", "STARPU_LIMIT_CUDA__MEM",
                           "STARPU_LIMIT_CUDA_0_MEMORY", "STARPU_LIMIT_OPENCL_0_MEM", ""})
    EXPECT_FALSE(is_name_of(limit, name)) << name;
  EXPECT_TRUE(is_name_of(variable("STARPU_NCPU"), "STARPU_NCPU"));
  EXPECT_FALSE(is_name_of(variable("STARPU_NCPU"), "STARPU_NCPUS"));
  ScopedEnvironment environment;
  environment.set_default("STARPU_LIMIT_CUDA_7_MEM", "4 GB");
  EXPECT_THAT(test::message_of<Error>(&expect_good_starpu_variables),
              HasSubstr(R"(STARPU_LIMIT_CUDA_7_MEM="4 GB": it must be a whole number between 0)"));
}

TEST(StarpuVariables, WithOneGoodValueSayWhy) {
  EXPECT_EQ(obstacle_to_value(variable("STARPU_DISABLE_KERNELS"), "1", kThreads),
            "0 (a run without kernels trains nothing)");
  const StarpuVariable& simulates = variable("STARPU_SIMGRID");
  const bool has_simgrid = simulates.most == 1;
  EXPECT_EQ(obstacle_to_value(simulates, "1", kThreads),
            has_simgrid ? "" : "0 (this StarPU has no SimGrid)");
}

TEST(StarpuVariables, Folders) {
  const test::ScratchDirectory scratch;
  EXPECT_TRUE(takes("STARPU_DISK_SWAP", (scratch / ".").string()));
  EXPECT_TRUE(takes("STARPU_DISK_SWAP", (scratch / "new/deep").string()));
  EXPECT_TRUE(takes("STARPU_DISK_SWAP", "new"));
  for (const char* value : {"", "/dev/null", "/dev/null/x", "/proc/self/x/y/../.."})
    EXPECT_FALSE(takes("STARPU_DISK_SWAP", value)) << value;
}

TEST(StarpuVariables, Files) {
  const test::ScratchDirectory scratch;
  for (const char* name : {"STARPU_BUS_STATS_FILE", "STARPU_WORKER_STATS_FILE"}) {
    EXPECT_TRUE(takes(name, (scratch / "new").string()));
    EXPECT_TRUE(takes(name, "/dev/null"));
    const std::string folder = (scratch / ".").string();
    const std::vector<std::string> bad{"", folder, (scratch / "none/x").string(), "/dev/null/x",
                                       (scratch / std::string(300, 'x')).string()};
    for (const std::string& value : bad) EXPECT_FALSE(takes(name, value)) << value;
  }
}

TEST(StarpuVariables, OfTheEnvironmentAreNamedWithValueAndRange) {
  EXPECT_NO_THROW(expect_good_starpu_variables());
  ScopedEnvironment environment;
  environment.remove("STARPU_NCPU");
  environment.set_default("STARPU_NCPU", "ab\nc");
  EXPECT_THAT(test::message_of<Error>(&expect_good_starpu_variables),
              R"(the environment has STARPU_NCPU="ab\nc": it must be a whole number between 0 and )"
              "2147483647; change or unset it");
}

}  // namespace
}  // namespace dos::rt::starpu_variables_test
