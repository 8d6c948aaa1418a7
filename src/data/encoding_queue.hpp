// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/types.hpp"
#include "data/token_file.hpp"

namespace dos::data {

/// Encodes texts on several threads and writes the tokens in the order in which the texts came: the
/// files do not depend on the number of threads.
class EncodingQueue {
 public:
  /// Appends the tokens of a text. The first argument is how many bytes of it belong to tokens of
  /// the job before; returns that number for the next job (Tokenizer::encode_part). Called from any
  /// thread, and again with another number where 0 was wrong.
  using Encode = std::function<std::size_t(std::size_t taken, std::vector<std::int32_t>& tokens)>;

  /// `threads` 0: one a core. Pre: threads >= 0.
  explicit EncodingQueue(Index threads);

  /// Adds a job of about `bytes` bytes, whose tokens go to `writer`. What the job and the writer
  /// refer to must live until it is written: until `written` is called or finish() returns. May do
  /// the work of earlier jobs first. Throws what jobs and writers throw.
  void add(Index bytes, TokenSink& writer, Encode encode);
  /// Calls `written` when the tokens of all jobs so far are with their writers.
  void then(std::function<void()> written);
  /// Does what is left.
  void finish();

 private:
  struct Job {
    TokenSink* writer = nullptr;
    Encode encode{};
    std::function<void()> written{};
    std::vector<std::int32_t> tokens{};
    std::size_t passed = 0;
  };

  void encode_all();

  Index threads_;
  Index batch_bytes_;
  Index waiting_bytes_ = 0;
  std::size_t taken_ = 0;  ///< of the next job, by the last one written
  std::vector<Job> jobs_;
};

}  // namespace dos::data
