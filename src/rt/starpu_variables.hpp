// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dos::rt {

/// What the value of a variable of StarPU's environment must be.
enum class VariableKind {
  kNumber,   ///< a whole number between `least` and `most`
  kReal,     ///< a finite number of at least 0
  kCores,    ///< "0 2,5-7 9-": hardware threads
  kDevices,  ///< "0 2": devices
  kFile,     ///< a path that can be written to
  kFolder,   ///< a folder that can be written to, or made
  kName,     ///< a part of names of files
  kNames,    ///< such parts with a space between them
};

struct StarpuVariable {
  const char* name;  ///< '#' stands for a number: one variable a device
  VariableKind kind = VariableKind::kNumber;
  std::int64_t least = 0;
  std::int64_t most = 1;
  const char* because = "";  ///< why there is one value only, if that needs a word
};

/// The variables that StarPU reads, and with whose values it may abort, crash or compute nothing.
std::span<const StarpuVariable> starpu_variables();

/// Whether StarPU means this variable, or one of these, by the name.
bool is_name_of(const StarpuVariable& variable, std::string_view name);

/// "" when the value is good for StarPU on a machine (or a part of one that this process is bound
/// to) with so many hardware threads, else what it must be.
std::string obstacle_to_value(const StarpuVariable& variable, const std::string& value,
                              std::int64_t threads);

/// Throws Error for the first variable of the environment that has a bad value, with that and what
/// is allowed.
void expect_good_starpu_variables();

}  // namespace dos::rt
