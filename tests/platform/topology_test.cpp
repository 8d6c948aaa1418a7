// SPDX-License-Identifier: Apache-2.0
#include "platform/topology.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace dos::platform::topology_test {
namespace {

using ::testing::MatchesRegex;

Index kernel_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  Index kib = 0;
  file >> key >> kib;  // MemTotal comes first
  return kib * 1024;
}

TEST(PhysicalMemory, IsWhatTheKernelSays) {
  EXPECT_EQ(physical_memory_bytes(), kernel_memory_bytes());
}

TEST(Topology, CountsWhatEveryMachineHas) {
  const Topology machine = read_topology();
  EXPECT_GE(machine.packages, 1);
  EXPECT_GE(machine.numa_nodes, 1);
  EXPECT_GE(machine.cores, machine.packages);
  EXPECT_GE(machine.processing_units, machine.cores);
  EXPECT_LE(machine.processing_units, Index{::sysconf(_SC_NPROCESSORS_CONF)});
  EXPECT_GE(machine.last_level_cache_bytes, 16 * 1024);
  EXPECT_LT(machine.last_level_cache_bytes, machine.memory_bytes);
  EXPECT_FALSE(host_name().empty());
}

// The two numbers need not be equal: the kernel keeps a part of the nodes' memory for itself, and
// what a virtual machine is given while it runs may belong to no node. A mistaken unit would be a
// factor of 1024.
TEST(Topology, KnowsTheMemory) {
  const Topology machine = read_topology();
  EXPECT_GT(machine.memory_bytes, physical_memory_bytes() / 64);
  EXPECT_LT(machine.memory_bytes, physical_memory_bytes() * 64);
}

TEST(Topology, IsTheSameEachTime) {
  const Topology first = read_topology();
  const Topology second = read_topology();
  EXPECT_EQ(first.processor, second.processor);
  EXPECT_EQ(first.processing_units, second.processing_units);
  EXPECT_EQ(first.memory_bytes, second.memory_bytes);
}

TEST(Topology, SaysTheVersionOfHwloc) {
  EXPECT_THAT(hwloc_version(), MatchesRegex("[1-9]\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace dos::platform::topology_test
