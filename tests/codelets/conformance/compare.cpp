// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "base/bf16.hpp"

namespace dos::test {
namespace {

double value_at(const std::byte* element, DType type) {
  const auto read = [&]<class T>() {
    T value;
    std::memcpy(&value, element, sizeof value);
    return value;
  };
  switch (type) {
    case DType::kF32:
      return double{read.operator()<float>()};
    case DType::kF64:
      return read.operator()<double>();
    case DType::kBF16:
      return double{to_float(read.operator()<BF16>())};
    default:
      return static_cast<double>(read.operator()<std::int32_t>());
  }
}

/// How far an element of a kernel's output may be from another kernel's, as a part of the output's
/// largest element. FP32, and FP64 computed from it: the 90 eps by which two GELUs of arguments up
/// to 1 may differ (elementwise_cuda_test.cpp), the longest way to a result here, rounded up to a
/// power of two. BF16: eight roundings of the result or of what is summed for it. References in
/// double bound kernels more closely; a wrong buffer, offset or argument changes a whole result.
double nearness(DType type) {
  if (type == DType::kI32) return 0;
  return type == DType::kBF16 ? 8 * 0x1p-8 : 128 * 0x1p-23;
}

double largest_output(const Contents& contents, DType type, const std::vector<bool>& outputs) {
  double largest = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i])
      largest = std::max(
          largest,
          std::abs(value_at(contents.data() + i * static_cast<std::size_t>(size_of(type)), type)));
  return largest;
}

}  // namespace

std::vector<bool> marks(Index count, const std::vector<Range>& ranges) {
  std::vector<bool> result(static_cast<std::size_t>(count));
  for (const Range& range : ranges) {
    std::fill_n(result.begin() + range.first, range.count, true);
  }
  return result;
}

void compare(const Comparison& c, Likeness likeness, Complaints& complaints) {
  const std::vector<bool> outputs = marks(c.buffer.count, c.buffer.outputs);
  const std::vector<bool> inputs = marks(c.buffer.count, c.buffer.inputs);
  const auto size = static_cast<std::size_t>(size_of(c.buffer.type));
  const double margin =
      likeness == Likeness::kNear
          ? nearness(c.buffer.type) * largest_output(c.expected, c.buffer.type, outputs)
          : 0;
  std::set<std::string> said;
  const auto complain = [&](const char* what, std::size_t element) {
    if (!said.insert(what).second) return;
    complaints.push_back(fmt::format("buffer {}, element {}: {}", c.index, element, what));
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::byte* after = c.after.data() + i * size;
    const bool kept = std::memcmp(after, c.before.data() + i * size, size) == 0;
    if (!outputs[i] && !kept) complain("changed, but is no output", i);
    if (outputs[i] && !inputs[i] && kept) complain("not written", i);
    const std::byte* expected = c.expected.data() + i * size;
    if (!outputs[i] || std::memcmp(after, expected, size) == 0) continue;
    const double distance =
        std::abs(value_at(after, c.buffer.type) - value_at(expected, c.buffer.type));
    if (likeness == Likeness::kBits || !(distance <= margin))
      complain("differs from the kernel called directly", i);
  }
}

void compare_runs(Index index, const Buffer& buffer, const Contents& first, const Contents& second,
                  Complaints& complaints) {
  const std::vector<bool> outputs = marks(buffer.count, buffer.outputs);
  const auto size = static_cast<std::size_t>(size_of(buffer.type));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i] || std::memcmp(first.data() + i * size, second.data() + i * size, size) == 0) {
      continue;
    }
    complaints.push_back(
        fmt::format("buffer {}, element {}: depends on what is no input", index, i));
    return;
  }
}

}  // namespace dos::test
