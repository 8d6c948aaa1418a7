// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/types.hpp"
#include "data/dataset.hpp"
#include "data/sources.hpp"

namespace dos::data {

/// Reads the validation split and its mask from end to end. Throws Error unless their checksums are
/// what the manifest says; does nothing where it says none.
void expect_validation_split(const Dataset& dataset);

/// Reads data sets from end to end on a thread of its own, at the lowest priority, and compares
/// them with what their manifests say: every token lies in the vocabulary, and the checksums of
/// tokens and masks are right.
class Verification {
 public:
  /// Starts to read. `vocabulary`: the model's. Throws Error when a token file cannot be opened.
  Verification(const Sources& sources, Index vocabulary);
  Verification(const Verification&) = delete;
  Verification& operator=(const Verification&) = delete;
  /// Ends the thread, wherever it is.
  ~Verification();

  /// Waits until all is read or something wrong is found, at most `patience`. Whether it is over.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds patience) const;

  /// What is wrong with the data, in one line; nullopt while nothing was found.
  [[nodiscard]] std::optional<std::string> fault() const;

 private:
  friend void expect_validation_split(const Dataset& dataset);
  /// A split of a data set, and what its manifest says of it.
  struct Part;
  void verify(const std::stop_token& stop);
  void finish(std::optional<std::string> fault);

  Index vocabulary_;
  std::vector<Part> parts_;
  mutable std::mutex mutex_;
  mutable std::condition_variable over_;
  bool is_over_ = false;
  std::optional<std::string> fault_;
  std::jthread thread_;
};

}  // namespace dos::data
