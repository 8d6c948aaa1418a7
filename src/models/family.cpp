// SPDX-License-Identifier: Apache-2.0
#include "models/family.hpp"

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "models/gpt2/gpt2.hpp"
#include "models/llama/llama.hpp"
#include "shape/model.hpp"

namespace dos::models {
namespace {

std::vector<const Family*>& families() {
  static std::vector<const Family*> list{&gpt2::family(), &llama::family()};
  return list;
}

}  // namespace

const Family& find_family(const std::string& name) {
  for (const Family* family : families())
    if (name == family->shape.name) return *family;
  fail("models of the architecture '{}' can be planned, but not trained yet",
       shape::find_family(name).name);
}

void add_family(const Family& family) {
  shape::add_family(family.shape);
  families().push_back(&family);
}

const shape::ModelConfig& find_preset(const std::string& name) {
  return shape::find_preset(name, "model.preset", preset_names());
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Family* family : families())
    for (std::string& name : shape::preset_names(family->shape.name))
      names.push_back(std::move(name));
  return names;
}

}  // namespace dos::models
