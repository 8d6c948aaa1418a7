// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update_opencl.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "codelets/update/rule_info.hpp"

namespace dos::codelets {
namespace {

/// What the common lines of the headers expect.
constexpr std::string_view kPreamble = R"(#pragma OPENCL FP_CONTRACT OFF
#define DOS_HD
static float square_root(float x) { return sqrt(x); }
)";

/// {0} types and names of the states' buffers, {1} their loads, {2} their addresses, {3} their
/// stores, {4} parameter, {5} statement for w, {6} type of g, {7} value of a gradient x, {8} types
/// and names of the buffers that p and the states come from, {9} that of p.
constexpr std::string_view kKernel = R"(
__kernel void update(struct Step step, long count, __global const float* clip,
                     __global const {6}* gradients, __global float* parameters{0}{4}{8}) {{
  const long i = get_global_id(0);
  if (i >= count) return;
  const float factor = clip[0];
  float p = {9}[i];
{1}  if (!isnan(factor)) {{
    const {6} x = gradients[i];
    element(&p{2}, {7} * factor, step);
  }}
  parameters[i] = p;
{3}{5}}}
)";

std::string_view text_of(std::string_view name) {
  const std::span<const OpenclText> texts = opencl_texts();
  const auto found =
      std::find_if(texts.begin(), texts.end(), [&](const OpenclText& t) { return t.name == name; });
  require(found != texts.end(), "a rule's file is called like the rule");
  return found->text;
}

}  // namespace

std::string update_opencl_source(const UpdateKind& kind, bool in_place) {
  const RuleInfo& rule = all_rules()[static_cast<std::size_t>(kind.rule)];
  std::string buffers;
  std::string loads;
  std::string addresses;
  std::string stores;
  std::string old = in_place ? "" : ", __global const float* old_parameters";
  for (std::size_t s = 0; s < rule.states.size(); ++s) {
    buffers += fmt::format(", __global float* states{}", s);
    loads += fmt::format("  float s{0} = {1}states{0}[i];\n", s, in_place ? "" : "old_");
    if (!in_place) old += fmt::format(", __global const float* old_states{}", s);
    addresses += fmt::format(", &s{}", s);
    stores += fmt::format("  states{0}[i] = s{0};\n", s);
  }
  const bool narrow_gradient = kind.gradient == DType::kBF16;
  const bool has_working = kind.working == DType::kBF16;
  return fmt::format("{}{}{}", kPreamble, text_of("bf16"), text_of(rule.name)) +
         fmt::format(kKernel, buffers, loads, addresses, stores,
                     has_working ? ", __global ushort* working" : "",
                     has_working ? "  working[i] = round_to_bf16(as_uint(p));\n" : "",
                     narrow_gradient ? "ushort" : "float",
                     narrow_gradient ? "as_float((uint)x << 16U)" : "x", old,
                     in_place ? "parameters" : "old_parameters");
}

}  // namespace dos::codelets
