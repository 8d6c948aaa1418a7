// SPDX-License-Identifier: Apache-2.0
#include "config/config_file.hpp"

#include <limits>

#include "base/file.hpp"
#include "fails_with.hpp"
#include "scratch_directory.hpp"

namespace dos::config::config_file_test {
namespace {

using test::fails_with;
using testing::HasSubstr;

class ConfigFile : public testing::Test {
 protected:
  TrainConfig read(const std::string& text) {
    write_durably(path_, text);
    read_config_file(path_, config_);
    return config_;
  }
  void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
    EXPECT_THAT([&] { read(text); }, fails_with(parts)) << text;
    EXPECT_EQ(to_json(config_), to_json(TrainConfig{})) << text;
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "run.toml";
  TrainConfig config_;
};

/// A configuration with no default left.
TrainConfig all_changed() {
  TrainConfig config;
  Index number = 1;
  for (const Key& key : keys_of(config)) {
    if (auto* const* value = std::get_if<Index*>(&key.value)) **value += ++number;
    if (auto* const* value = std::get_if<double*>(&key.value)) **value += 0.1;
    if (auto* const* value = std::get_if<bool*>(&key.value)) **value = !**value;
    if (auto* const* value = std::get_if<std::string*>(&key.value)) **value += " ü#\"\\\t'";
  }
  return config;
}

TEST_F(ConfigFile, ReadsBackWhatIsPrinted) {
  for (const TrainConfig& config : {TrainConfig{}, all_changed()}) {
    config_ = TrainConfig{};
    EXPECT_EQ(to_json(read(to_toml(config))), to_json(config));
  }
}

TEST_F(ConfigFile, ReadsBackExtremeValues) {
  for (const double value : {1.0, 1e-8, 1e30, 0.1 + 0.2, 5e-324, -0.0}) {
    TrainConfig config;
    config.optim.lr = value;
    EXPECT_EQ(read(to_toml(config)).optim.lr, value);
  }
  for (const Index value :
       {Index{-7}, std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()}) {
    TrainConfig config;
    config.train.steps = value;
    EXPECT_EQ(read(to_toml(config)).train.steps, value);
  }
}

TEST_F(ConfigFile, EveryKeyByFileAndByAssignment) {
  TrainConfig changed = all_changed();
  for (const Key& key : keys_of(changed)) {
    const auto dot = key.name.find('.');
    const std::string line = fmt::format("{} = {}\n", key.name.substr(dot + 1), value_text(key));
    config_ = TrainConfig{};
    read(fmt::format("[{}]\n{}", key.name.substr(0, dot), line));
    TrainConfig assigned;
    const auto* text = std::get_if<std::string*>(&key.value);
    set_from_text(key.name + "=" + (text != nullptr ? **text : value_text(key)), assigned);
    EXPECT_EQ(to_json(assigned), to_json(config_)) << key.name;
    EXPECT_NE(to_json(assigned), to_json(TrainConfig{})) << key.name;
  }
}

TEST_F(ConfigFile, ChangesOnlyWhatItNames) {
  config_.train.batch = 3;
  config_.train.keep = 4;
  read("[train]\nkeep = 5\n");
  EXPECT_EQ(config_.train.batch, 3);
  EXPECT_EQ(config_.train.keep, 5);
  read("");
  read("# nothing\n[train]\n");
  EXPECT_EQ(config_.train.keep, 5);
  read("train.keep = 6\noptim = { lr = 2 }\n");
  EXPECT_EQ(config_.train.keep, 6);
  EXPECT_EQ(config_.optim.lr, 2.0);
}

TEST_F(ConfigFile, NamesThePlaceAndTheNearestKey) {
  const std::string file = path_.string();
  expect_refused("[train]\nbatch = 4\n\nbtach = 3\n",
                 {file + ":4: unknown key 'train.btach' (did you mean 'train.batch'?)", "--help"});
  expect_refused("[trian]\nbatch = 3\n", {file + ":2: unknown key 'trian.batch'", "'train.batch'"});
  expect_refused("\nsteps = 3\n", {file + ":2: unknown key 'steps'"});
  expect_refused("\"train.steps\" = 3\n", {file + ":1: ", "train.steps", "without quotes"});
  expect_refused("[train.batch]\nx = 1\n", {file + ":1: train.batch must be an integer"});
  expect_refused("[train]\nbatch = 4\nbatch = 5\n", {file + ":3: ", "batch"});
  expect_refused("[train]\nbatch = \n", {file + ":2: "});
  expect_refused("[train\nbatch = 3", {file + ":1: "});
  expect_refused("[data]\npath = \"\xff\"\n", {file + ":2: "});
}

TEST_F(ConfigFile, NamesTheWrongType) {
  const std::string file = path_.string();
  for (const char* value : {"1.5", "\"1\"", "true", "[1]", "{}", "1979-05-27"})
    expect_refused(fmt::format("[train]\nbatch = {}\n", value),
                   {file + ":2: train.batch must be an integer"});
  for (const char* value : {"\"1\"", "true", "[1.0]"})
    expect_refused(fmt::format("[optim]\nlr = {}\n", value),
                   {file + ":2: optim.lr must be a number"});
  for (const char* value : {"1", "\"true\""})
    expect_refused(fmt::format("[train]\nrecompute = {}\n", value),
                   {file + ":2: train.recompute must be true or false"});
  expect_refused("[data]\npath = 3\n", {file + ":2: data.path must be a string in quotes"});
  expect_refused("[train]\nbatch = 9223372036854775808\n", {file + ":2: "});
}

TEST_F(ConfigFile, TakesListsAsArrays) {
  const std::string words =
      ": sched.disks must be a string in quotes, or an array of strings without commas";
  for (const char* value : {"1", "[1]", "[\"/a\", 2]", "[[\"/a\"]]", "[\"/a,b\"]", "[\"\"]"})
    expect_refused(fmt::format("[sched]\ndisks = {}\n", value), {words});
  expect_refused("[data]\npath = [\"a\"]\n", {"data.path must be a string in quotes"});
  read("[sched]\ndisks = [\"/nvme0/run:400GB\", \"/lustre/run\"]\n[optim]\nfreeze = []\n");
  EXPECT_EQ(config_.sched.disks, "/nvme0/run:400GB,/lustre/run");
  EXPECT_EQ(config_.optim.freeze, "");
}

TEST_F(ConfigFile, AFileThatCannotBeRead) {
  EXPECT_THAT([&] { read_config_file(scratch_ / "none.toml", config_); },
              fails_with({"none.toml: cannot open: No such file"}));
  EXPECT_THAT([&] { read_config_file(scratch_.path(), config_); },
              fails_with({scratch_.path().string()}));
}

TEST_F(ConfigFile, Assignments) {
  set_from_text("optim.lr=1e-3", config_);
  EXPECT_EQ(config_.optim.lr, 1e-3);
  set_from_text("optim.lr=2", config_);
  EXPECT_EQ(config_.optim.lr, 2.0);
  set_from_text("train.recompute=true", config_);
  EXPECT_TRUE(config_.train.recompute);
  set_from_text("train.recompute=false", config_);
  EXPECT_FALSE(config_.train.recompute);
  for (const char* path : {"data.path=a=b", "data.path=\"a=b\""}) {
    set_from_text(path, config_);
    EXPECT_EQ(config_.data.path, "a=b");
  }
  for (const char* path : {"data.path=", "data.path=\"\""}) {
    set_from_text(path, config_);
    EXPECT_EQ(config_.data.path, "");
  }
  set_from_text("data.path=\"", config_);
  EXPECT_EQ(config_.data.path, "\"");
}

TEST_F(ConfigFile, WrongAssignmentsChangeNothing) {
  const std::pair<const char*, std::string> cases[] = {
      {"", "write section.key=value"},
      {"train.batch", "--set train.batch: write section.key=value"},
      {"train.batch=", "'' is not an integer"},
      {"train.batch=1.5", "--set train.batch=1.5: '1.5' is not an integer"},
      {"train.batch=4x", "'4x' is not an integer"},
      {"train.batch=9223372036854775808", "is not an integer"},
      {"optim.lr=fast", "'fast' is not a number"},
      {"optim.lr=1e999", "is not a number"},
      {"train.recompute=1", "'1' is not true or false"},
      {"train.recompute=True", "'True' is not true or false"},
      {"trian.batch=1", "unknown key 'trian.batch' (did you mean 'train.batch'?)"},
      {"batch=1", "unknown key 'batch'"},
  };
  for (const auto& wrong : cases) {
    EXPECT_THAT([&] { set_from_text(wrong.first, config_); }, fails_with({wrong.second}));
    EXPECT_EQ(to_json(config_), to_json(TrainConfig{})) << wrong.first;
  }
}

TEST_F(ConfigFile, HelpNamesEveryKeyWithItsDefault) {
  TrainConfig defaults;
  const std::string help = describe_keys();
  for (const Key& key : keys_of(defaults)) {
    const std::string start = "\n  " + key.name + " ";
    const auto at = help.find(start);
    ASSERT_NE(at, std::string::npos) << key.name;
    EXPECT_THAT(help.substr(at + 1, help.find('\n', at + 1) - at - 1),
                testing::EndsWith(key.help + "  [" + value_text(key) + "]"));
  }
}

}  // namespace
}  // namespace dos::config::config_file_test
