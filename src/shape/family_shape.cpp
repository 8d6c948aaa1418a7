// SPDX-License-Identifier: Apache-2.0
#include "shape/family_shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace dos::shape {
namespace {

std::vector<const Family*>& families() {
  static std::vector<const Family*> list{&gpt2(), &llama()};
  return list;
}

}  // namespace

const Family& find_family(std::string_view name) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (name == family->name) return *family;
    names.emplace_back(family->name);
  }
  fail("unknown model architecture '{}'{}; known: {}", name, did_you_mean(std::string(name), names),
       fmt::join(names, ", "));
}

const char* head_of(const ModelConfig& config) {
  return config.tied_head ? kTokenTable : find_family(config.architecture).head;
}

void validate(const ModelConfig& config) {
  const Family& family = find_family(config.architecture);
  config.validate();
  if (family.validate != nullptr) family.validate(config);
  // Finds what adapters do not fit.
  if (config.adapters.any()) static_cast<void>(family.parameters(config));
}

void add_family(const Family& family) {
  expect(std::ranges::none_of(
             families(),
             [&](const Family* known) { return std::string_view(known->name) == family.name; }),
         "model architecture '{}' is known already", family.name);
  families().push_back(&family);
}

}  // namespace dos::shape
