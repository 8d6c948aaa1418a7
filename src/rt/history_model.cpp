// SPDX-License-Identifier: Apache-2.0
#include "rt/history_model.hpp"

#include <starpu.h>

#include <array>
#include <charconv>
#include <fstream>
#include <system_error>

#include "base/error.hpp"
#include "rt/session.hpp"

namespace dos::rt {
namespace {

constexpr const char* kRemedy = "delete it and run calibrate, which measures it anew";

}  // namespace

void expect_history_version(const std::filesystem::path& file, Index version,
                            const std::string& starpu) {
  std::ifstream stream(file);
  std::string line;
  bool empty = true;
  while (std::getline(stream, line)) {
    empty = false;
    if (line.empty() || line.front() == '#') continue;
    Index found = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), found);
    expect(error == std::errc{}, "{}: no performance model, it starts with '{}': {}", file.string(),
           line.substr(0, 20), kRemedy);
    expect(found == version,
           "{}: a performance model of version {}, StarPU {} reads version {}: {}", file.string(),
           found, starpu, version, kRemedy);
    return;
  }
  // StarPU passes over a file of no bytes.
  expect(empty, "{}: no performance model, it has no version: {}", file.string(), kRemedy);
}

void expect_readable_history(const char* symbol) {
  std::array<char, 4096> path{};
  starpu_perfmodel_get_model_path(symbol, path.data(), path.size());
  if (path.front() == '\0') return;
  const std::filesystem::path file = std::filesystem::path(path.data()).lexically_normal();
  // StarPU's version of the format is nowhere but in the name of the folder: ".../codelets/45/".
  const std::string folder = file.parent_path().filename().string();
  Index version = 0;
  const auto [stop, error] = std::from_chars(folder.data(), folder.data() + folder.size(), version);
  if (error == std::errc{}) expect_history_version(file, version, Session::version());
}

}  // namespace dos::rt
