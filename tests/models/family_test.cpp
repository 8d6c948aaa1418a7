// SPDX-License-Identifier: Apache-2.0
#include "models/family.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"

namespace dos::models::family_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Families, OfEveryPresetCanBeTrained) {
  const std::vector<std::string> names = preset_names();
  EXPECT_FALSE(names.empty());
  for (const std::string& name : names)
    EXPECT_NO_THROW(find_family(find_preset(name).architecture)) << name;
}

TEST(Families, ThatCanOnlyBePlannedSaySo) {
  static const shape::Family planned{.name = "planned",
                                     .own_parameters = shape::gpt2().own_parameters,
                                     .own_block = shape::gpt2().own_block,
                                     .head = "token_embedding.weight",
                                     .norm_statistics = 2,
                                     .validate = nullptr};
  shape::add_family(planned);
  EXPECT_THAT([] { find_family("planned"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'planned'"), HasSubstr("can be planned"))));
  EXPECT_THAT([] { find_family("gpt3"); }, ThrowsMessage<Error>(HasSubstr("did you mean 'gpt2'?")));
  EXPECT_THAT(
      [] { find_preset("llama-8b"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("unknown model.preset 'llama-8b'"), HasSubstr("tiny"))));
}

}  // namespace
}  // namespace dos::models::family_test
