// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::test {

/// A machine file without GPU and tiers, to which a test may add some.
inline const std::string kCpuMachine = R"(format = 1
description = "a test"
[node]
gpus = { value = 0, unit = "1", source = "s" }
cpu_workers = { value = 8, unit = "1", source = "s" }
training_rate = { value = 1, unit = "TFLOP/s", source = "s" }
task_latency = { value = 0, unit = "us", source = "s" }
[cpu]
update_rate = { value = 2, unit = "Gparam/s", source = "bench" }
[dram]
bandwidth = { value = 100, unit = "GB/s", source = "s" }
capacity = { value = 64, unit = "GB", source = "s" }
)";

}  // namespace dos::test
