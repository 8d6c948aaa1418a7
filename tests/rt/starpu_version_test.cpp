// SPDX-License-Identifier: Apache-2.0
#include "rt/starpu_version.hpp"

#include <gmock/gmock.h>

namespace dos::rt::starpu_version_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr StarpuVersion kBuild{.major = 1, .minor = 4, .release = 7};

TEST(StarpuVersion, AnotherReleaseIsAccepted) {
  for (const int release : {0, 7, 8, 99})
    EXPECT_EQ(obstacle_to_starpu(kBuild, {1, 4, release}), "") << release;
}

TEST(StarpuVersion, AnotherMajorOrMinorIsRefused) {
  for (const StarpuVersion& loaded :
       {StarpuVersion{1, 3, 7}, StarpuVersion{1, 5, 7}, StarpuVersion{2, 4, 7},
        StarpuVersion{0, 4, 7}, StarpuVersion{1, 40, 7}, StarpuVersion{}})
    EXPECT_NE(obstacle_to_starpu(kBuild, loaded), "") << loaded.text();
}

TEST(StarpuVersion, BothAreNamedWithTheRemedy) {
  const std::string obstacle = obstacle_to_starpu(kBuild, {1, 3, 10});
  EXPECT_THAT(obstacle,
              AllOf(HasSubstr("StarPU 1.3.10 is loaded"), HasSubstr("built with StarPU 1.4.7"),
                    HasSubstr("LD_LIBRARY_PATH"), HasSubstr("build the program with 1.3")));
  EXPECT_EQ(obstacle.find('\n'), std::string::npos);
}

TEST(StarpuVersion, OfThisBuildIsAccepted) {
  EXPECT_GT(loaded_starpu().major, 0);
  EXPECT_NO_THROW(expect_starpu_of_the_build());
}

}  // namespace
}  // namespace dos::rt::starpu_version_test
