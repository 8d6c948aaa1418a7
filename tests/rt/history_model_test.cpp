// SPDX-License-Identifier: Apache-2.0
#include "rt/history_model.hpp"

#include <gmock/gmock.h>
#include <starpu.h>

#include <array>
#include <fstream>
#include <sstream>

#include "rt/tasks.hpp"
#include "scratch_directory.hpp"

namespace dos::rt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string fault_of(const std::string& text) {
  const test::ScratchDirectory folder;
  std::ofstream(folder / "model") << text;
  return test::message_of<Error>([&] { expect_history_version(folder / "model", 45, "1.3.10"); });
}

TEST(HistoryModel, OfThisVersionIsGood) {
  EXPECT_EQ(fault_of("##################\n# Performance Model Version\n45\n\n"), "");
  EXPECT_EQ(fault_of("45\n"), "");
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
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace dos::rt
