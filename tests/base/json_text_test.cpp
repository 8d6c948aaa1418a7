// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"

#include <gtest/gtest.h>

namespace dos::json_text_test {
namespace {

TEST(JsonText, IsUtf8WhateverIsInIt) {
  EXPECT_EQ(json_text(nlohmann::json{{"path", "a\xff/b"}}), "{\"path\":\"a\uFFFD/b\"}");
  EXPECT_EQ(json_text(nlohmann::ordered_json{{"b", "\xfe"}, {"a", 1}}, 1),
            "{\n \"b\": \"\uFFFD\",\n \"a\": 1\n}");
}

}  // namespace
}  // namespace dos::json_text_test
