// SPDX-License-Identifier: Apache-2.0
#include "trace/report/palette.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <string>

#include "rt/memory_ledger.hpp"
#include "trace/report/analysis.hpp"

namespace dos::trace::palette_test {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

constexpr Matrix kNormal{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
// Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
constexpr Matrix kProtanopia{{{0.152286, 1.052583, -0.204868},
                              {0.114503, 0.786281, 0.099216},
                              {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranopia{{{0.367322, 0.860646, -0.227968},
                                {0.280085, 0.672501, 0.047413},
                                {-0.011820, 0.042940, 0.968881}}};
// Ottosson (2020): linear RGB to cones, and their cube roots to OKLab.
constexpr Matrix kToCones{{{0.4122214708, 0.5363325363, 0.0514459929},
                           {0.2119034982, 0.6806995451, 0.1073969566},
                           {0.0883024619, 0.2817188376, 0.6299787005}}};
constexpr Matrix kToOklab{{{0.2104542553, 0.7936177850, -0.0040720468},
                           {1.9779984951, -2.4285922050, 0.4505937099},
                           {0.0259040371, 0.7827717662, -0.8086757660}}};

Triple product(const Matrix& matrix, const Triple& vector) {
  Triple result{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) result[i] += matrix[i][j] * vector[j];
  return result;
}

Triple linear(const std::string& colour) {
  Triple rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double value = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

Triple seen(const std::string& colour, const Matrix& eyes) {
  Triple cones = product(kToCones, product(eyes, linear(colour)));
  for (double& each : cones) each = std::cbrt(each);
  return product(kToOklab, cones);
}

/// In hundredths of the way from black to white; people begin to see one at about 2.
double difference(const std::string& a, const std::string& b) {
  double least = 1e9;
  for (const Matrix& eyes : {kNormal, kProtanopia, kDeuteranopia}) {
    const Triple first = seen(a, eyes);
    const Triple second = seen(b, eyes);
    least = std::min(
        least, 100 * std::hypot(first[0] - second[0], first[1] - second[1], first[2] - second[2]));
  }
  return least;
}

TEST(Palette, TheMeasureTellsWhatEyesCannot) {
  EXPECT_NEAR(difference("#000000", "#FFFFFF"), 100, 0.1);
  EXPECT_LT(difference("#999999", "#CC79A7"), 2) << "one to deuteranopes";
  EXPECT_GT(difference("#0072B2", "#E69F00"), 20);
}

TEST(Palette, NoTwoMeaningsLookAlike) {
  for (std::size_t i = 0; i < palette().size(); ++i) {
    const Colour& a = palette()[i];
    EXPECT_GT(difference(a.value, kNeutral), 5) << a.name;
    EXPECT_GT(difference(a.value, kBackground), 5) << a.name;
    for (std::size_t j = i + 1; j < palette().size(); ++j) {
      const Colour& b = palette()[j];
      EXPECT_GT(difference(a.value, b.value), a.family == b.family ? 6 : 5)
          << a.name << ' ' << b.name;
      EXPECT_NE(fill_of(a.family, a.name), fill_of(b.family, b.name));
    }
  }
}

TEST(Palette, EverythingThatIsDrawnHasAColour) {
  const std::string none = fill_of(ColorFamily::kRun, "no such thing");
  for (const char* phase : {"forward", "backward", "reduce", "update", "validation", "checkpoint",
                            "wait", "message", "flush"})
    EXPECT_NE(fill_of(ColorFamily::kRun, phase), none) << phase;
  for (const MemoryCategory category : kBufferCategories)
    EXPECT_NE(fill_of(ColorFamily::kMemory, name_of(category)), none) << name_of(category);
  for (const Use use : {Use::kDram, Use::kData, Use::kDevice, Use::kHeldBack, Use::kRanks})
    EXPECT_NE(fill_of(ColorFamily::kWait, name_of(use)), none) << name_of(use);
}

TEST(Palette, TexturesAreDefined) {
  const std::string definitions = pattern_definitions();
  for (const Colour& each : palette()) {
    const std::string fill = fill_of(each.family, each.name);
    if (each.family == ColorFamily::kRun) {
      EXPECT_EQ(fill, each.value);
      continue;
    }
    EXPECT_THAT(definitions, testing::HasSubstr("id=\"" + fill.substr(5, fill.size() - 6) + "\""));
  }
}

TEST(Palette, LegendsNameWhatAppears) {
  EXPECT_EQ(legend(ColorFamily::kRun, {}), "");
  const std::string text = legend(ColorFamily::kRun, {"update", "forward", "nonsense"});
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr(">forward<"), testing::HasSubstr(">update<"),
                                   testing::Not(testing::HasSubstr("backward"))));
}

}  // namespace
}  // namespace dos::trace::palette_test
