// SPDX-License-Identifier: Apache-2.0
#include "rt/history_model.hpp"

#include <gmock/gmock.h>
#include <starpu.h>

#include <array>
#include <fstream>
#include <sstream>

#include "rt/history_format.hpp"
#include "rt/tasks.hpp"
#include "scratch_directory.hpp"

namespace dos::rt::history_model_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// As StarPU writes it: one CPU core, one implementation, two sizes.
constexpr const char* kModel = R"(##################
# Performance Model Version
45

####################
# COMBs
# number of combinations
1
####################
# COMB_0
# number of types devices
1
####################
# DEV_0
# device type
0
####################
# DEV_0
# device id
0
####################
# DEV_0
# number of cores
1
##########
# number of implementations
1
#####
# Model for cpu0_impl0 (Comb0)
# number of entries
2
# sumlnx	sumlnx2		sumlny		sumlnxlny	alpha		beta		n	minx		maxx
0.000000e+00   	0.000000e+00   	0.000000e+00   	0.000000e+00   	nan            	-nan           	0	0              	0              
# a		b		c
nan            	nan            	nan            
# not multiple-regression-base
0
# hash		size		flops		mean (us)	dev (us)	sum		sum2		n
1c6a0a38	80000004       	8.500000e+07   	2.155022e+03   	5.625365e+01   	6.465067e+03   	1.394186e+07   	3
0a6a0a39	40000004       	nan            	1.155022e+03   	5.625365e+01   	6.465067e+03   	1.394186e+07   	4

)";

std::string fault_of(const std::string& text) {
  const test::ScratchDirectory folder;
  std::ofstream(folder / "model") << text;
  return test::message_of<Error>([&] { expect_history(folder / "model", 45, "1.3.10"); });
}

/// kModel with the first `old` after `place` replaced.
std::string with(const std::string& place, const std::string& old, const std::string& text) {
  std::string model = kModel;
  return model.replace(model.find(old, model.find(place)), old.size(), text);
}

TEST(HistoryModel, OfThisVersionIsGood) {
  EXPECT_EQ(fault_of(kModel), "");
  // Without the floating-point operations, as older versions of StarPU wrote entries.
  EXPECT_EQ(fault_of(with("1c6a0a38", "8.500000e+07", "")), "");
  EXPECT_EQ(fault_of("45\n0\n"), "");
  // StarPU passes over an empty file and measures anew.
  EXPECT_EQ(fault_of(""), "");
}

TEST(HistoryModel, OfAnotherVersionOrOfNoneIsNamed) {
  EXPECT_THAT(fault_of("# Performance Model Version\n44\n"),
              AllOf(HasSubstr("/model: a performance model of version 44"),
                    HasSubstr("StarPU 1.3.10 reads version 45"), HasSubstr("run calibrate")));
  EXPECT_THAT(fault_of("\n\nnonsense of some length\n"),
              AllOf(HasSubstr("starts with 'nonsense of some len'"), HasSubstr("run calibrate")));
  EXPECT_THAT(fault_of("# Performance Model Version\n"), HasSubstr("it has no version"));
}

TEST(HistoryModel, OfAnotherFormatIsStarPUsOwnAffair) {
  const test::ScratchDirectory folder;
  std::ofstream(folder / "model") << "46\nsomething new\n";
  EXPECT_EQ(test::message_of<Error>([&] { expect_history(folder / "model", 46, "1.9"); }), "");
}

TEST(HistoryModel, ThatIsDamagedIsNamedWithTheLine) {
  const std::pair<std::string, const char*> damages[] = {
      {with("number of comb", "1\n", "2\n"), "it ends after line 41, where the number of devices"},
      {with("number of entries", "2\n", "3\n"), "it ends after line 41, where an entry of seven"},
      {with("number of entries", "2\n", "1\n"), "line 40: more lines than it announces"},
      {with("number of entries", "2\n", "-2\n"), "line 31: '-2' is no whole number"},
      {with("number of impl", "1\n", "1 1\n"), "line 27: 2 words, where the number of implem"},
      {with("device type", "0\n", "77\n"), "line 16: 77 is no type of a device"},
      {with("sumlnx", "0.000000e+00", "inf"), "line 33: 'inf' is not finite"},
      {with("# a", "nan", "none"), "line 35: 'none' is no number"},
      {with("multiple", "0\n", "2\t1.0\n"), "line 37: 2 coefficients are announced, 1 are there"},
      {with("1c6a0a38", "2.155022e+03", "nan"), "line 39: 'nan' is no finite number of at least 0"},
      {with("1c6a0a38", "8.500000e+07", "-1"), "line 39: '-1' is no finite number of at least 0"},
      {with("0a6a0a39", "1.394186e+07", "-2.5"), "line 40: '-2.5' is no finite number"},
      {with("0a6a0a39", "0a6a0a39", "xyz"), "line 40: 'xyz' is no whole number"},
      {with("1c6a0a38", "3\n", "\n"), "line 39: '1.394186e+07' is no whole number"},
      {std::string(kModel).substr(0, std::string(kModel).size() - 2), "in the midst of a line"}};
  for (const auto& [text, what] : damages)
    EXPECT_THAT(fault_of(text), AllOf(HasSubstr("/model: a damaged performance model, "),
                                      HasSubstr(what), HasSubstr("delete it and run calibrate")))
        << text;
}

TEST(HistoryModel, ThatIsCutAnywhereInItsNumbersIsRefused) {
  const std::string whole = kModel;
  // What follows the last number is an end of line and an empty line.
  for (std::size_t bytes = 1; bytes < whole.size() - 1; ++bytes)
    EXPECT_THROW(expect_history_text(whole.substr(0, bytes)), Error) << bytes;
}

TEST(HistoryModel, IsARegularFile) {
  const test::ScratchDirectory folder;
  std::filesystem::create_directory(folder / "model");
  EXPECT_THAT(test::message_of<Error>([&] { expect_history(folder / "model", 45, "1.3.10"); }),
              AllOf(HasSubstr("it is no regular file"), HasSubstr("delete it and run calibrate")));
}

const Codelet& kept_codelet() {
  static const Codelet codelet = make_codelet<test::call_body>(
      {.symbol = "dos.test_kept_history.v1", .modes = {}, .tail = Mode::kReadWrite});
  return codelet;
}

std::filesystem::path model_file() {
  std::array<char, 4096> path{};
  starpu_perfmodel_get_model_path(kept_codelet().symbol(), path.data(), path.size());
  return std::filesystem::path(path.data()).lexically_normal();
}

void run_one_task(Session& session) {
  const Handle buffer(session, {.name = "b", .count = 1});
  const test::Body body = [](const TaskView&) {};
  Submitter submitter(session);
  test::submit_body(submitter, body, {&buffer}, {}, kept_codelet());
}

TEST(HistoryModel, IsKeptByACalibratingSessionAndRefusedWhenItIsForeign) {
  {
    Session session({.scheduler = "eager", .cpu_workers = 1, .calibrates = true});
    run_one_task(session);
  }
  Session session({.scheduler = "eager", .cpu_workers = 1});
  const std::filesystem::path file = model_file();
  ASSERT_TRUE(std::filesystem::is_regular_file(file)) << file;
  run_one_task(session);

  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string foreign = text.str();
  const std::size_t version = foreign.find_first_of("0123456789");
  ASSERT_NE(version, std::string::npos);
  foreign.insert(version, "9");
  std::ofstream(file, std::ios::trunc) << foreign;
  EXPECT_THAT(test::message_of<Error>([&] { run_one_task(session); }),
              AllOf(HasSubstr(file.string()), HasSubstr("a performance model of version 9")));

  EXPECT_THAT(set_unreadable_history_aside(kept_codelet().symbol()),
              AllOf(HasSubstr(file.string() + ": a performance model of version 9"),
                    HasSubstr("renamed to dos.test_kept_history.v1.damaged")));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(set_unreadable_history_aside(kept_codelet().symbol()), "");
  run_one_task(session);
  std::filesystem::remove(file.string() + ".damaged");
}

}  // namespace
}  // namespace dos::rt::history_model_test
