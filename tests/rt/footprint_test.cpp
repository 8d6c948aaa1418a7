// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <starpu.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "rt/tasks.hpp"
#include "scratch_directory.hpp"

namespace dos::rt::footprint_test {
namespace {

using ::testing::SizeIs;

struct Args {
  std::uint32_t* footprint;
  float hyper_parameter;
};

void note_footprint(const TaskView& task) {
  starpu_task* running = starpu_task_get_current();
  const auto& args = task.args<Args>();
  if (args.footprint != nullptr)
    *args.footprint = starpu_task_footprint(running->cl->model, running, nullptr, 0);
  test::sleep_ms(1);
}

const Codelet& noting_codelet() {
  static const Codelet codelet = make_codelet<note_footprint>(
      {.symbol = "dos.test_footprint.v1", .modes = {Mode::kReadWrite}, .tail = {}});
  return codelet;
}

std::uint32_t footprint_of(const Session& session, Submitter& submitter, const Handle& buffer,
                           const Work& work, float hyper_parameter) {
  std::uint32_t footprint = 0;
  const std::vector<const Handle*> buffers{&buffer};
  submitter.submit(noting_codelet(), buffers, Args{&footprint, hyper_parameter}, work, {});
  session.wait_all();
  return footprint;
}

TEST(Footprint, DependsOnTheSizesAlone) {
  Session session({.scheduler = "", .cpu_workers = 1});
  const Handle small(session, {.name = "small", .count = 10});
  const Handle large(session, {.name = "large", .count = 1000});
  Submitter submitter(session);
  const std::uint32_t first =
      footprint_of(session, submitter, small, {.flops = 1, .sizes = {4, 5}}, 0.1F);
  EXPECT_EQ(footprint_of(session, submitter, small, {.flops = 1, .sizes = {4, 5}}, 0.2F), first);
  EXPECT_EQ(footprint_of(session, submitter, large, {.flops = 2, .sizes = {4, 5}}, 0.1F), first);
  std::set<std::uint32_t> all{first};
  for (const Work& work :
       {Work{1, {5, 4}}, Work{1, {4, 6}}, Work{1, {4, 5, 1}}, Work{1, {4, 5, 0, 1}}, Work{}}) {
    all.insert(footprint_of(session, submitter, small, work, 0.1F));
  }
  EXPECT_THAT(all, SizeIs(6));
}

/// Lines of a model file that hold an entry: they start with the footprint, eight hex digits.
int entries_of(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string line;
  int entries = 0;
  while (std::getline(lines, line)) {
    if (line.size() > 8 && line.find_first_not_of("0123456789abcdef") == 8) ++entries;
  }
  return entries;
}

TEST(Footprint, TwoSizesAreTwoEntriesOfTheModel) {
  const test::ScratchDirectory home;
  ASSERT_EQ(::setenv("STARPU_HOME", home.path().c_str(), 1), 0);
  ASSERT_EQ(::setenv("STARPU_CALIBRATE", "1", 1), 0);
  {
    Session session({.scheduler = "", .cpu_workers = 1});
    const Handle buffer(session, {.name = "b", .count = 1});
    const std::vector<const Handle*> buffers{&buffer};
    Submitter submitter(session);
    for (int i = 0; i < 12; ++i) {
      const Index size = i % 2 == 0 ? 100 : 200;
      submitter.submit(noting_codelet(), buffers, Args{nullptr, static_cast<float>(i)},
                       {.flops = 1, .sizes = {size}}, {});
    }
  }
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(home.path())) {
    if (!entry.path().filename().string().starts_with("dos.test_footprint.v1")) continue;
    ++models;
    EXPECT_EQ(entries_of(entry.path()), 2) << entry.path();
  }
  EXPECT_EQ(models, 1);
}

}  // namespace
}  // namespace dos::rt::footprint_test
