// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <array>
#include <random>
#include <string>

#include "base/error.hpp"

namespace dos::test {

/// Damages a JSON text, one to three times, as a fault of a disk or a hand at an editor would:
/// the same damage for the same generator.
class JsonMutations {
 public:
  explicit JsonMutations(unsigned seed) : generator_(seed) {}

  std::string of(std::string text) {
    for (std::size_t changes = below(3) + 1; changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(generator_);
  }

  void change(std::string& text) {
    const std::size_t place = below(text.size() + 1);
    const std::size_t length = below(20);
    switch (below(5)) {
      case 0:
        if (place < text.size()) text[place] = static_cast<char>(text[place] ^ (1 << below(8)));
        break;
      case 1:
        text.erase(place, length);
        break;
      case 2:
        text.insert(place, std::string(text, below(text.size() + 1), length));
        break;
      case 3:
        text.insert(place, piece());
        break;
      default:
        text.resize(place);
    }
  }

  std::string piece() {
    static const std::array pieces{std::string(100'000, '['),
                                   std::string(400, '9'),
                                   std::string("1e999"),
                                   std::string("-1"),
                                   std::string("18446744073709551615"),
                                   std::string("0.5"),
                                   std::string("1e308"),
                                   std::string("null"),
                                   std::string("{}"),
                                   std::string("[]"),
                                   std::string("\"\""),
                                   std::string("\"\\ud800\""),
                                   std::string("\xFF"),
                                   std::string(1, '\0'),
                                   std::string("\n"),
                                   std::string(",")};
    return pieces[below(pieces.size())];
  }

  std::mt19937 generator_;
};

/// `read` takes each damaged text, or throws Error of one line, and nothing else.
template <class Read>
void expect_stands_damage(const std::string& good, int attempts, Read&& read) {
  JsonMutations mutations(1);
  int refused = 0;
  for (int i = 0; i < attempts; ++i) {
    const std::string text = mutations.of(good);
    try {
      read(text);
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n"))) << text.substr(0, 500);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << ": " << text.substr(0, 500);
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace dos::test
