// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

// Standard output and standard error, which may be closed, full, or gone with their terminal. What
// is written there never throws and never ends a program.
namespace dos::streams {

/// To be called once, by `main`, before files are opened. From now on a write that cannot be done,
/// to a pipe that nobody reads or beyond the limit of a file's size, is an error of that write and
/// no signal. Streams that are closed are occupied, so that no file gets their number, and what is
/// written there fails as before.
void set_up() noexcept;

/// Adds to standard output. What could not be written expect_output_written() (base/file.hpp)
/// tells.
void write_output(std::string_view text) noexcept;

/// Sends to standard error, if that can be written.
void write_error(std::string_view text) noexcept;

/// Formats for standard output.
template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  write_output(fmt::format(text, std::forward<Args>(args)...));
}

/// Formats for standard error.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  write_error(fmt::format(text, std::forward<Args>(args)...));
}

/// Sends what standard output still holds. errno's value of what could not be written since the
/// start of the program; 0: all was.
[[nodiscard]] int flush_output() noexcept;

}  // namespace dos::streams
