// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "io/byte_pattern.hpp"
#include "json_mutations.hpp"
#include "scratch_directory.hpp"

namespace dos::io::safetensors_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::string length_field(std::uint64_t length) {
  std::string field;
  for (int i = 0; i < 8; ++i) field += static_cast<char>((length >> (8 * i)) & 0xFF);
  return field;
}

std::string file_text(const std::string& header, std::size_t data_bytes) {
  return length_field(header.size()) + header + std::string(data_bytes, 'd');
}

TEST(SafetensorsFile, ListsTensorsInFileOrder) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a", file_text(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
                                         R"("z":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                         R"("m":{"dtype":"F64","shape":[0],"data_offsets":[4,4]},)"
                                         R"("__metadata__":{"k":"v"},)"
                                         R"("e":{"dtype":"I32","shape":[2,0],"data_offsets":[7,7],)"
                                         R"("extra":1}}   )",
                                         7));
  const SafetensorsFile file(scratch / "a");
  std::vector<std::string> names;
  for (const MappedTensor& tensor : file.tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("z", "m", "a", "e"));
  EXPECT_EQ(file.at("a").bytes.size(), 3U);
  EXPECT_TRUE(file.at("z").shape.empty());
  EXPECT_THAT(file.at("e").shape, ElementsAre(2, 0));
  EXPECT_EQ(file.metadata().at("k"), "v");
}

TEST(SafetensorsFile, StandsDamage) {
  const test::ScratchDirectory scratch;
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
                             R"("z":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("__metadata__":{"k":"v"}})";
  test::expect_stands_damage(header, 2000, [&](const std::string& text) {
    std::ofstream(scratch / "a") << file_text(text, 7);
    const SafetensorsFile file(scratch / "a");
  });
}

/// Quadratic time would be hours.
TEST(SafetensorsFile, HasAsManyTensorsAsOneWants) {
  const test::ScratchDirectory scratch;
  constexpr std::size_t kTensors = 200'000;
  std::string header = "{";
  for (std::size_t i = 0; i < kTensors; ++i)
    header +=
        fmt::format(R"("t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}},)", i, i, i + 1);
  header.back() = '}';
  write_durably(scratch / "a", file_text(header, kTensors));
  EXPECT_EQ(SafetensorsFile(scratch / "a").tensors().size(), kTensors);
}

TEST(SafetensorsFile, StaysValidWhenMoved) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a",
                file_text(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  SafetensorsFile first(scratch / "a");
  const SafetensorsFile second(std::move(first));
  EXPECT_EQ(second.at("a").bytes[0], std::byte{'d'});
}

TEST(SafetensorsFile, SuggestsTheNearestName) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "a",
                file_text(R"({"weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  const SafetensorsFile file(scratch / "a");
  EXPECT_EQ(file.find("wieght"), nullptr);
  EXPECT_THAT([&] { return file.at("wieght"); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("tensor 'wieght'"), HasSubstr("did you mean 'weight'"))));
}

struct Damage {
  const char* what;
  std::string content;
  const char* message;
};

std::string one_tensor(const std::string& entry, std::size_t data_bytes = 8) {
  return file_text(R"({"x":)" + entry + "}", data_bytes);
}

std::string two_tensors(const std::string& first, const std::string& second) {
  const auto entry = [](const std::string& offsets) {
    return R"({"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}";
  };
  return file_text(R"({"x":)" + entry(first) + R"(,"y":)" + entry(second) + "}", 8);
}

const Damage kDamages[] = {
    {"empty file", "", "0 bytes are too few for a header"},
    {"seven bytes", "1234567", "7 bytes are too few for a header"},
    {"no header", length_field(0), "header: not JSON"},
    {"header beyond the end", length_field(3) + "{}", "claims 3 bytes, but only 2 follow"},
    {"absurd length", length_field(100'000'001), "claims 100000001 bytes, more than the 100000000"},
    {"length of all ones", length_field(~std::uint64_t{0}), "more than the 100000000"},
    {"not JSON", file_text("{\"x\n", 0), "header: not JSON"},
    {"not UTF-8", file_text("{\"\xff\":1}", 0), "header: not JSON"},
    {"not an object", file_text("[1]", 0), "header: not a JSON object"},
    {"number out of range", file_text(R"({"x":1e999})", 0), "header: not JSON"},
    {"name twice",
     file_text(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
               0),
     "the name 'x' occurs twice"},
    {"field twice", one_tensor(R"({"dtype":"U8","dtype":"F32","shape":[8],"data_offsets":[0,8]})"),
     "the name 'dtype' occurs twice"},
    {"entry is no object", one_tensor("[]"), "tensor 'x': must be an object"},
    {"no dtype", one_tensor(R"({"shape":[8],"data_offsets":[0,8]})"),
     "tensor 'x': field 'dtype' is missing"},
    {"dtype is a number", one_tensor(R"({"dtype":1,"shape":[8],"data_offsets":[0,8]})"),
     "tensor 'x': field 'dtype' must be a string"},
    {"unknown dtype", one_tensor(R"({"dtype":"F128","shape":[4],"data_offsets":[0,8]})"),
     "tensor 'x': unknown dtype 'F128', known are F64, F32, BF16, I32, U8, F16, I64, "},
    {"half a byte", one_tensor(R"({"dtype":"F4","shape":[15],"data_offsets":[0,8]})"),
     "tensor 'x': F4 of shape [15] fills no whole bytes"},
    {"header of 2^63 bytes", length_field(std::uint64_t{1} << 63),
     "claims 9223372036854775808 bytes, more than the 100000000"},
    {"deep header", file_text(std::string(100'000, '['), 0), "header: more than 64 objects"},
    {"no shape", one_tensor(R"({"dtype":"U8","data_offsets":[0,8]})"),
     "tensor 'x': field 'shape' is missing"},
    {"shape is a number", one_tensor(R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})"),
     "tensor 'x': field 'shape' must be an array"},
    {"negative extent", one_tensor(R"({"dtype":"U8","shape":[2,-4],"data_offsets":[0,8]})"),
     "tensor 'x': field 'shape[1]' must be an integer of at least 0"},
    {"fractional extent", one_tensor(R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})"),
     "field 'shape[0]' must be an integer"},
    {"extent of 2^63",
     one_tensor(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]})"),
     "field 'shape[0]' must be less than 2^63"},
    {"extent of 2^64",
     one_tensor(R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,8]})"),
     "field 'shape[0]' must be an integer"},
    // 2^32 * 2^32 wraps to 0 in 64 bits, 2^61 * 8 bytes too: both would look like an empty tensor.
    {"product overflows",
     one_tensor(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
     "tensor 'x': U8 of shape [4294967296, 4294967296] overflows"},
    {"bytes overflow",
     one_tensor(R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})", 0),
     "overflows"},
    {"no offsets", one_tensor(R"({"dtype":"U8","shape":[8]})"),
     "tensor 'x': field 'data_offsets' is missing"},
    {"three offsets", one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8,9]})"),
     "tensor 'x': field 'data_offsets' must hold two numbers"},
    {"offsets backwards", one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})"),
     "tensor 'x': field 'data_offsets' must not end before it begins"},
    {"too few bytes", one_tensor(R"({"dtype":"F32","shape":[1,3],"data_offsets":[0,8]})"),
     "tensor 'x': F32 of shape [1, 3] needs 12 bytes, but its offsets [0, 8] hold 8"},
    {"too many bytes", one_tensor(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})"),
     "tensor 'x': F32 of shape [] needs 4 bytes"},
    {"truncated data", one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})", 7),
     "tensor 'x': its offsets [0, 8] lie outside the 7 data bytes: the file is truncated"},
    {"offset outside",
     one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[4611686018427387904,)"
                R"(4611686018427387912]})"),
     "lie outside the 8 data bytes"},
    {"trailing bytes", one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})", 11),
     "3 bytes follow the last tensor"},
    {"data without tensors", file_text("{}", 1), "1 bytes follow the last tensor"},
    {"first offset outside", two_tensors("[1000,1004]", "[4,8]"),
     "tensor 'x': its offsets [1000, 1004] lie outside the 8 data bytes"},
    {"overlap", two_tensors("[0,4]", "[2,6]"),
     "tensor 'y': its offsets [2, 6] overlap the tensor before it"},
    {"same place", two_tensors("[0,4]", "[0,4]"), "overlap the tensor before it"},
    {"gap at the start", two_tensors("[1,5]", "[4,8]"),
     "tensor 'x': bytes 0 to 1 before it belong to no tensor"},
    {"metadata is a list", file_text(R"({"__metadata__":[]})", 0),
     "__metadata__: must be an object"},
    {"metadata holds a number", file_text(R"({"__metadata__":{"k":1}})", 0),
     "__metadata__: field 'k' must be a string"},
    {"name with a line break",
     file_text(R"({"a\nb":{"dtype":"X","shape":[],"data_offsets":[0,0]}})", 0), R"(tensor 'a\nb')"},
};

TEST(SafetensorsFile, NamesEveryDamageInOneLine) {
  const test::ScratchDirectory scratch;
  for (const Damage& damage : kDamages) {
    write_durably(scratch / "bad.safetensors", damage.content);
    EXPECT_THAT(
        [&] { SafetensorsFile{scratch / "bad.safetensors"}; },
        ThrowsMessage<Error>(AllOf(HasSubstr("bad.safetensors: "), HasSubstr(damage.message),
                                   HasSubstr(";"), Not(HasSubstr("\n")))))
        << damage.what;
  }
}

TEST(SafetensorsFile, RefusesEveryTruncation) {
  const test::ScratchDirectory scratch;
  const std::string whole = one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_durably(scratch / "a", std::string_view(whole).substr(0, size));
    EXPECT_THROW(SafetensorsFile{scratch / "a"}, Error) << size;
  }
  write_durably(scratch / "a", whole);
  EXPECT_EQ(SafetensorsFile(scratch / "a").tensors().size(), 1U);
}

TEST(ByteSize, CountsElements) {
  EXPECT_EQ(byte_size(DType::kF32, {}), 4);
  EXPECT_EQ(byte_size(DType::kBF16, std::vector<Index>{3, 5}), 30);
  EXPECT_EQ(byte_size(kF16, std::vector<Index>{3, 5}), 30);
  EXPECT_EQ(byte_size(DType::kF64, std::vector<Index>{3, 0}), 0);
  EXPECT_EQ(byte_size(DType::kU8, std::vector<Index>{-1}), std::nullopt);
  EXPECT_EQ(byte_size(DType::kF64, std::vector<Index>{Index{1} << 60}), std::nullopt);
  const FileDType nibble = parse_file_dtype("F4").value();
  EXPECT_EQ(byte_size(nibble, std::vector<Index>{3, 4}), 6);
  EXPECT_EQ(byte_size(nibble, std::vector<Index>{3}), std::nullopt);
}

TEST(FileDType, RoundTrips) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI32, DType::kU8}) {
    EXPECT_EQ(parse_file_dtype(file_dtype(dtype)), dtype);
    EXPECT_EQ(parse_file_dtype(file_dtype(dtype))->dtype(), dtype);
  }
  EXPECT_EQ(parse_file_dtype("f32"), std::nullopt);
}

/// The names of the format's own library, with the bits of an element.
TEST(FileDType, KnowsEveryNameOfTheFormat) {
  const std::map<std::string, Index> names{
      {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
      {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
      {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  for (const auto& [name, bits] : names) {
    ASSERT_TRUE(parse_file_dtype(name).has_value()) << name;
    EXPECT_EQ(parse_file_dtype(name)->bits(), bits) << name;
    EXPECT_EQ(file_dtype(*parse_file_dtype(name)), name);
  }
}

/// An independent reading of half precision: sign, 5 bits of exponent, 10 of fraction.
float half_value(unsigned bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = static_cast<int>((bits >> 10U) & 0x1FU);
  const auto fraction = static_cast<float>(bits & 0x3FFU);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024.0F + fraction, exponent - 25);
}

TEST(Widen, ReadsEveryHalf) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    float value = 0;
    const bool is_finite = widen(kF16, std::as_bytes(std::span(&half, 1)), std::span(&value, 1));
    EXPECT_EQ(is_finite, (bits & 0x7C00U) != 0x7C00U);
    if (is_finite) {
      ASSERT_EQ(value, half_value(bits)) << bits;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    } else {
      ASSERT_EQ(std::isnan(value), (bits & 0x3FFU) != 0) << bits;
    }
  }
}

TEST(Widen, KeepsTheBitsOfTheOthersAndSeesWhatIsNotFinite) {
  const std::array<float, 3> numbers{1.5F, -0.0F, 3e38F};
  std::array<float, 3> out{};
  EXPECT_TRUE(widen(DType::kF32, std::as_bytes(std::span(numbers)), out));
  EXPECT_EQ(std::memcmp(out.data(), numbers.data(), sizeof out), 0);
  const std::array<BF16, 3> narrow{to_bf16(1.5F), to_bf16(-0.0F), {0x7F80}};
  EXPECT_FALSE(widen(DType::kBF16, std::as_bytes(std::span(narrow)), out));
  EXPECT_EQ(out[0], 1.5F);
  EXPECT_TRUE(std::signbit(out[1]));
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_FALSE(widens_to_float(DType::kF64));
  EXPECT_FALSE(widens_to_float(DType::kI32));
  EXPECT_THROW(widen(DType::kF32, std::as_bytes(std::span(numbers)), std::span(out).first(2)),
               ContractViolation);
}

TEST(Round, IsToTheNearestAndSeesWhatIsNotFiniteBeforeOrAfter) {
  // Halves of the last bit: to the even neighbour.
  const std::array<float, 4> numbers{1.0F + 0x1p-8F, 1.0F + 0x3p-8F, -0.0F, 1.0F + 0x1.8p-8F};
  std::array<BF16, 4> out{};
  EXPECT_TRUE(round(DType::kF32, std::as_bytes(std::span(numbers)), out));
  EXPECT_EQ(to_float(out[0]), 1.0F);
  EXPECT_EQ(to_float(out[1]), 1.0F + 0x1p-6F);
  EXPECT_TRUE(std::signbit(to_float(out[2])));
  EXPECT_EQ(to_float(out[3]), 1.0F + 0x1p-7F);
  const std::span<BF16> one = std::span(out).first(1);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::nanf(""), std::numeric_limits<float>::max()})
    EXPECT_FALSE(round(DType::kF32, std::as_bytes(std::span(&bad, 1)), one)) << bad;
  const BF16 narrow = to_bf16(-3e38F);
  EXPECT_TRUE(round(DType::kBF16, std::as_bytes(std::span(&narrow, 1)), one));
  EXPECT_EQ(out[0], narrow);
  const std::uint16_t half = 0x3C01;  // 1 + 2^-10
  EXPECT_TRUE(round(kF16, std::as_bytes(std::span(&half, 1)), one));
  EXPECT_EQ(to_float(out[0]), 1.0F);
  const std::array<BF16, 2> some{to_bf16(1.0F), {0x7F80}};
  EXPECT_FALSE(all_finite(std::span(some)));
  EXPECT_TRUE(all_finite(std::span(some).first(1)));
}

}  // namespace
}  // namespace dos::io::safetensors_test
