// SPDX-License-Identifier: Apache-2.0
// Codelets with one fault each: the conformance checks must find them all.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "codelets/conformance/harness.hpp"

namespace dos::test::conformance_harness_test {
namespace {

using rt::Mode;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Index kCount = 6;

void copy_cpu(const float* x, float* y, Index count) {
  std::copy_n(x, count, y);
}

void copy_task(const rt::TaskView& task) {
  copy_cpu(task.pointer<float>(0), task.pointer<float>(1), kCount);
}

void short_copy_task(const rt::TaskView& task) {
  copy_cpu(task.pointer<float>(0), task.pointer<float>(1), kCount - 1);
}

void wrong_copy_task(const rt::TaskView& task) {
  copy_task(task);
  task.pointer<float>(1)[2] += 1;
}

void rounded_copy_task(const rt::TaskView& task) {
  copy_task(task);
  float& y = task.pointer<float>(1)[2];
  y = std::nextafter(y, 2.0F);
}

void copy_and_change_task(const rt::TaskView& task) {
  copy_task(task);
  task.pointer<float>(0)[3] = 0;
}

void accumulate_task(const rt::TaskView& task) {
  for (Index i = 0; i < kCount; ++i) task.pointer<float>(1)[i] += task.pointer<float>(0)[i];
}

void scratch_task(const rt::TaskView& task) {
  copy_task(task);
  task.pointer<float>(1)[0] += task.pointer<float>(2)[0];
}

/// A case of a copy of kCount elements, checked with another codelet in its place.
Case copy_case(const rt::Codelet& codelet, std::vector<Buffer> buffers) {
  const rt::Codelet* address = &codelet;
  return {.name = "copy",
          .codelet = address,
          .buffers = std::move(buffers),
          .submit =
              [address](rt::Submitter& submitter, const Handles& h) {
                std::vector<const rt::Handle*> all;
                for (std::size_t i = 0; i < address->spec().modes.size(); ++i) {
                  all.push_back(&h[static_cast<Index>(i)]);
                }
                submitter.submit(*address, all, 0, {}, {});
              },
          .kernel = [](const Memory& m) { copy_cpu(m.at<float>(0), m.at<float>(1), kCount); }};
}

template <void (*kCpu)(const rt::TaskView&)>
std::vector<std::string> complaints(std::vector<Mode> modes, std::vector<Buffer> buffers,
                                    Likeness likeness = Likeness::kBits) {
  // Codelets live as long as the program.
  static std::vector<std::unique_ptr<rt::Codelet>> codelets;
  codelets.emplace_back(new rt::Codelet(rt::make_codelet<kCpu>(
      {.symbol = "dos.test_faulty.v1", .modes = std::move(modes), .tail = {}})));
  return complaints_about(copy_case(*codelets.back(), std::move(buffers)), likeness);
}

const std::vector<Mode> kReadThenWrite{Mode::kRead, Mode::kWrite};

TEST(ConformanceHarness, GoodCodeletPasses) {
  EXPECT_THAT(complaints<copy_task>(kReadThenWrite, {reads(kCount), writes(kCount)}), IsEmpty());
}

TEST(ConformanceHarness, FindsAnOutputThatIsNotWritten) {
  EXPECT_THAT(complaints<short_copy_task>(kReadThenWrite, {reads(kCount), writes(kCount)}),
              Contains(HasSubstr("buffer 1, element 5: not written")));
}

TEST(ConformanceHarness, FindsAResultThatIsNotTheKernels) {
  EXPECT_THAT(complaints<wrong_copy_task>(kReadThenWrite, {reads(kCount), writes(kCount)}),
              Contains(HasSubstr("buffer 1, element 2: differs from the kernel")));
}

TEST(ConformanceHarness, NearResultsMayDifferByRoundings) {
  const std::vector<Buffer> buffers{reads(kCount), writes(kCount)};
  EXPECT_THAT(complaints<rounded_copy_task>(kReadThenWrite, buffers),
              Contains(HasSubstr("buffer 1, element 2: differs from the kernel")));
  EXPECT_THAT(complaints<rounded_copy_task>(kReadThenWrite, buffers, Likeness::kNear), IsEmpty());
  EXPECT_THAT(complaints<wrong_copy_task>(kReadThenWrite, buffers, Likeness::kNear),
              Contains(HasSubstr("buffer 1, element 2: differs from the kernel")));
  EXPECT_THAT(complaints<short_copy_task>(kReadThenWrite, buffers, Likeness::kNear),
              Contains(HasSubstr("buffer 1, element 5: not written")));
}

TEST(ConformanceHarness, FindsAChangedInput) {
  EXPECT_THAT(complaints<copy_and_change_task>(kReadThenWrite, {reads(kCount), writes(kCount)}),
              Contains(HasSubstr("buffer 0, element 3: changed, but is no output")));
}

TEST(ConformanceHarness, FindsAChangedNeighbour) {
  EXPECT_THAT(complaints<copy_task>({Mode::kRead, Mode::kReadWrite},
                                    {reads(kCount), writes_part(kCount, {{0, 4}})}),
              Contains(HasSubstr("buffer 1, element 4: changed, but is no output")));
}

TEST(ConformanceHarness, FindsADependenceOnOldContents) {
  EXPECT_THAT(complaints<accumulate_task>(kReadThenWrite, {reads(kCount), writes(kCount)}),
              Contains(HasSubstr("buffer 1, element 0: depends on what is no input")));
}

TEST(ConformanceHarness, FindsADependenceOnUnreadElements) {
  EXPECT_THAT(complaints<copy_task>(kReadThenWrite, {reads_part(kCount, {{0, 5}}), writes(kCount)}),
              Contains(HasSubstr("buffer 1, element 5: depends on what is no input")));
}

TEST(ConformanceHarness, FindsADependenceOnWorkSpace) {
  EXPECT_THAT(complaints<scratch_task>({Mode::kRead, Mode::kWrite, Mode::kScratch},
                                       {reads(kCount), writes(kCount), works_in(1)}),
              Contains(HasSubstr("buffer 1, element 0: depends on what is no input")));
}

TEST(ConformanceHarness, FindsAWrongAccessMode) {
  EXPECT_THAT(complaints<copy_task>({Mode::kRead, Mode::kRead}, {reads(kCount), writes(kCount)}),
              Contains(HasSubstr("buffer 1 is declared kRead but changed")));
}

TEST(ConformanceHarness, FindsAPartThatIsDeclaredAsTheWhole) {
  EXPECT_THAT(
      complaints<short_copy_task>(kReadThenWrite, {reads(kCount), writes_part(kCount, {{0, 5}})}),
      Contains(HasSubstr("buffer 1 is declared kWrite but not wholly overwritten")));
}

}  // namespace
}  // namespace dos::test::conformance_harness_test
