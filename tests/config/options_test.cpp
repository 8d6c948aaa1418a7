// SPDX-License-Identifier: Apache-2.0
// Every test here goes through the table of options: a new key is tested with no new line.
#include "config/options.hpp"

#include <set>

#include "base/file.hpp"
#include "config/config_file.hpp"
#include "config/option_values.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::config::options_test {
namespace {

using test::fails_with;
using testing::HasSubstr;

TrainConfig runnable() {
  TrainConfig config;
  config.data.path = "data/x";
  return config;
}

/// The words that the domain of a text allows; none where it may be any.
std::vector<std::string> words_of(const Domain& domain) {
  if (const auto* choice = std::get_if<Choice>(&domain)) return choice->words();
  if (const auto* named = std::get_if<Named>(&domain)) return named->known();
  return {};
}

TEST(Options, EachHasANameOfItsOwnAHelpLineAndAReader) {
  std::set<std::string> names;
  for (const Option& option : kOptions) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_THAT(option.name, testing::MatchesRegex("[a-z]+[.][a-z_0-9]+"));
    EXPECT_TRUE(option.is_for_training() || option.is_for_plan()) << option.name;
    if (option.is_for_training()) {
      EXPECT_THAT(option.help.full(), testing::MatchesRegex("[^\n]+")) << option.name;
    }
    if (option.is_for_plan()) {
      EXPECT_THAT(option.plan.help, testing::MatchesRegex("[^\n]+")) << option.name;
    }
  }
}

TEST(Options, EachHasADomainOfItsTypeOrAReasonForNone) {
  TrainConfig config;
  for (const Key& key : keys_of(config)) {
    const Domain& domain = key.option->domain;
    const bool is_number =
        std::holds_alternative<Index*>(key.value) || std::holds_alternative<double*>(key.value);
    EXPECT_EQ(is_number, std::holds_alternative<Range>(domain)) << key.name;
    if (const auto* any = std::get_if<Any>(&domain)) {
      EXPECT_STRNE(any->why, "") << key.name;
    }
    if (!words_of(domain).empty()) {
      EXPECT_TRUE(std::holds_alternative<std::string*>(key.value)) << key.name;
    }
  }
  for (const Option& option : kOptions) {
    if (!option.is_for_plan()) continue;
    const bool is_number = option.plan.set.index() == 1 || option.plan.set.index() == 2;
    EXPECT_EQ(is_number, std::holds_alternative<Range>(option.plan.domain)) << option.name;
    // A text is a word of some, or anything for a reason.
    const bool is_text = option.plan.set.index() == 4;
    const auto* any = std::get_if<Any>(&option.plan.domain);
    EXPECT_EQ(is_text && any == nullptr, !words_of(option.plan.domain).empty()) << option.name;
    if (any != nullptr) {
      EXPECT_STRNE(any->why, "") << option.name;
    }
  }
}

TEST(Options, HelpNamesEachForThoseWhoReadIt) {
  for (const Option& option : kOptions) {
    const auto line = HasSubstr(fmt::format("\n  {:<24} ", option.name));
    if (option.is_for_training()) {
      EXPECT_THAT(describe_keys(), line);
    } else {
      EXPECT_THAT(describe_keys(), testing::Not(line));
    }
    if (option.is_for_plan()) {
      EXPECT_THAT(describe_plan_keys(), line);
    } else {
      EXPECT_THAT(describe_plan_keys(), testing::Not(line));
    }
  }
}

TEST(Options, EachIsUnknownToThoseWhoDoNotReadIt) {
  for (const Option& option : kOptions) {
    const std::string assignment = std::string(option.name) + "=1";
    const auto unknown = fails_with({fmt::format("unknown key '{}'", option.name)});
    TrainConfig config;
    planner::PlanSettings settings;
    if (!option.is_for_training()) {
      EXPECT_THAT([&] { set_from_text(assignment, config); }, unknown);
    }
    if (!option.is_for_plan()) {
      EXPECT_THAT([&] { set_from_text(assignment, settings); }, unknown);
    }
  }
}

TEST(Options, EachGoesThroughFileAssignmentAndJsonAlone) {
  const test::ScratchDirectory scratch;
  TrainConfig changed;
  for (std::size_t i = 0; i < keys_of(changed).size(); ++i) {
    changed = TrainConfig();
    const Key key = keys_of(changed)[i];
    test::set_other(key);
    ASSERT_NE(to_json(changed), to_json(TrainConfig())) << key.name;
    write_durably(scratch / "run.toml", to_toml(changed));
    TrainConfig read;
    read_config_file(scratch / "run.toml", read);
    EXPECT_EQ(to_json(read), to_json(changed)) << key.name;
    TrainConfig assigned;
    set_from_text(key.name + "=" + value_text(key), assigned);
    EXPECT_EQ(to_json(assigned), to_json(changed)) << key.name;
    TrainConfig restored;
    from_json(nlohmann::json::parse(to_json(changed).dump()), "x", restored);
    EXPECT_EQ(to_json(restored), to_json(changed)) << key.name;
  }
}

TEST(Options, DefaultsAreOfTheirDomains) {
  EXPECT_NO_THROW(runnable().validate());
}

TEST(Options, OneErrorNamesKeyValueAndRangeOfANumber) {
  TrainConfig config = runnable();
  for (std::size_t i = 0; i < keys_of(config).size(); ++i) {
    config = runnable();
    const Key key = keys_of(config)[i];
    const auto* range = std::get_if<Range>(&key.option->domain);
    if (range == nullptr) continue;
    const std::vector<double> wrong = test::numbers_outside(*range);
    EXPECT_FALSE(wrong.empty()) << key.name;
    for (const double number : wrong) {
      std::string shown;
      std::visit(
          [&]<class T>(T* value) {
            if constexpr (std::is_same_v<T, Index> || std::is_same_v<T, double>) {
              *value = static_cast<T>(number);
              shown = fmt::format("{}", *value);
            }
          },
          key.value);
      EXPECT_THAT([&] { config.validate(); },
                  fails_with({fmt::format("{} must {}, got {}", key.name, range->text(), shown)}));
    }
  }
}

TEST(Options, OneErrorNamesKeyValueAndWordsOfAText) {
  TrainConfig config = runnable();
  for (std::size_t i = 0; i < keys_of(config).size(); ++i) {
    config = runnable();
    const Key key = keys_of(config)[i];
    std::vector<std::string> parts = words_of(key.option->domain);
    if (parts.empty()) continue;
    *std::get<std::string*>(key.value) = "no-such-word";
    parts.insert(parts.end(), {key.name, "'no-such-word'", "known: "});
    EXPECT_THAT([&] { config.validate(); }, fails_with(parts));
  }
}

TEST(Options, PlanRefusesWhatIsOutsideInOneLineToo) {
  for (const Option& option : kOptions) {
    if (!option.is_for_plan()) continue;
    // What is wrong of such a text is seen beside a model (tests/shape/trained_groups_test.cpp).
    const bool is_any_text =
        option.plan.set.index() == 4 && std::holds_alternative<Any>(option.plan.domain);
    if (is_any_text) continue;
    std::vector<std::string> wrong;
    if (const auto* range = std::get_if<Range>(&option.plan.domain)) {
      for (const double number : test::numbers_outside(*range))
        wrong.push_back(fmt::format("{}", number));
    } else {
      wrong.emplace_back("no-such-word");
    }
    EXPECT_FALSE(wrong.empty()) << option.name;
    for (const std::string& value : wrong) {
      planner::PlanSettings settings;
      EXPECT_THAT([&] { set_from_text(fmt::format("{}={}", option.name, value), settings); },
                  fails_with({option.name, value}));
    }
  }
}

}  // namespace
}  // namespace dos::config::options_test
