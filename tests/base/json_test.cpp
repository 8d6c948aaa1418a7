// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "json_mutations.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::json_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* kExample =
    R"({"a":[1,-2,3.5,true,false,null,"t\u00e9xt\n",[],{}],"b":{"c":{"d":18446744073709551615}},"":0})";

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  return test::message_of<Error>([&] { parse_json(text, "file.json", "mend it", limits); });
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(Json, ReadsEveryKindOfValue) {
  const json document = parse_json(kExample, "", "");
  EXPECT_EQ(document, json::parse(kExample));
  EXPECT_EQ(parse_json("3", "", ""), json(3));
  EXPECT_EQ(parse_json(R"(["a"])", "", ""), json::array({"a"}));
}

TEST(Json, SaysWhatIsWrong) {
  EXPECT_THAT(refusal(""), AllOf(StartsWith("file.json: not JSON ("), HasSubstr("; mend it")));
  EXPECT_THAT(refusal("{\"a\": tru}"), HasSubstr("line 1, column 10"));
  EXPECT_THAT(refusal("[1] 2"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[1e400]"), HasSubstr("number overflow"));
  EXPECT_THAT(refusal("[\"\xFF\"]"), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(R"({"a":{"x":1},"b":{"x":1,"\n":2,"\n":3}})"),
              HasSubstr(R"(the name '\n' occurs twice)"));
  EXPECT_THAT(refusal("[\n" + std::string(100'000, 'x')),
              AllOf(Not(HasSubstr("\n")), SizeIs(testing::Lt(400U))));
  EXPECT_THAT(test::message_of<Error>([] { parse_json_object("[]", "p", "r"); }),
              "p: not a JSON object; r");
}

TEST(Json, IsBoundedInDepth) {
  const JsonLimits limits{.depth = 3};
  EXPECT_EQ(refusal(nested(3), limits), "");
  EXPECT_EQ(refusal(R"({"a":{"b":[1]},"c":[[2]]})", limits), "");
  EXPECT_THAT(refusal(nested(4), limits), HasSubstr("more than 3 objects and arrays inside"));
  EXPECT_EQ(refusal(nested(JsonLimits{}.depth)), "");
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("inside each other"));
  EXPECT_THAT(refusal(nested(1'000'000)), HasSubstr("inside each other"));
}

TEST(Json, IsBoundedInSize) {
  EXPECT_EQ(refusal("[1,2]", {.bytes = 5}), "");
  EXPECT_THAT(refusal("[1,2]", {.bytes = 4}), HasSubstr("5 bytes, more than the 4"));
  EXPECT_EQ(refusal("[1,[2]]", {.values = 4}), "");
  EXPECT_THAT(refusal("[1,[2]]", {.values = 3}), HasSubstr("more than 3 values"));
}

/// A parser that looks through an object's members at each member's end would need 10^11 steps.
TEST(Json, TakesTimeInProportionToTheMembers) {
  constexpr int kMembers = 300'000;
  std::string text = "{";
  for (int i = 0; i < kMembers; ++i) text += fmt::format(R"("tensor{}":{{"a":[{}]}},)", i, i);
  text.back() = '}';
  EXPECT_THAT(parse_json(text, "", ""), SizeIs(kMembers));
}

/// nlohmann's own parser says what JSON is; names that occur twice it would take.
TEST(Json, AgreesWithTheLibraryOnDamagedTexts) {
  test::JsonMutations mutations(7);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = mutations.of(kExample);
    const std::string refused = refusal(text);
    if (refused.empty()) {
      ++accepted;
      EXPECT_EQ(parse_json(text, "", ""), json::parse(text)) << text;
    } else if (json::accept(text)) {
      EXPECT_THAT(refused, testing::AnyOf(HasSubstr("occurs twice"), HasSubstr("inside each"),
                                          HasSubstr("out of range")))
          << text.substr(0, 500);
    }
  }
  EXPECT_GT(accepted, 500);
}

TEST(Json, TriesTextsThatMayBeDamaged) {
  EXPECT_EQ(try_parse_json_object(R"({"a":1})"), json({{"a", 1}}));
  EXPECT_FALSE(try_parse_json_object(R"({"a":)"));
  EXPECT_FALSE(try_parse_json_object("[]"));
  EXPECT_FALSE(try_parse_json_object(nested(1'000'000)));
}

TEST(Json, ReadsFiles) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a", R"({"a":1})");
  EXPECT_EQ(read_json_object(scratch / "a", ""), json({{"a", 1}}));
  write_durably(scratch / "b", "");
  EXPECT_THAT(test::message_of<Error>([&] { read_json_object(scratch / "b", "mend it"); }),
              AllOf(HasSubstr("/b: not JSON ("), HasSubstr("; mend it")));
}

TEST(Json, ShowsValuesInShort) {
  EXPECT_EQ(excerpt({{"a", "\n"}}), R"({"a":"\n"})");
  EXPECT_THAT(excerpt(std::string(1000, 'x')), AllOf(SizeIs(83), testing::EndsWith("...")));
  EXPECT_EQ(one_line("a\nb\xFF"), "a\\nb\xEF\xBF\xBD");
}

}  // namespace
}  // namespace dos::json_test
