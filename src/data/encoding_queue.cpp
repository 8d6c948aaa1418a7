// SPDX-License-Identifier: Apache-2.0
#include "data/encoding_queue.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace dos::data {
namespace {

/// What a thread does between two starts: enough for its start not to count.
constexpr Index kBytesAThread = Index{4} << 20;

Index threads_for(Index wanted) {
  require(wanted >= 0, "a number of threads");
  return wanted > 0 ? wanted : std::max(Index{1}, Index{std::thread::hardware_concurrency()});
}

}  // namespace

EncodingQueue::EncodingQueue(Index threads)
    : threads_(threads_for(threads)), batch_bytes_(threads_ * kBytesAThread) {}

void EncodingQueue::add(Index bytes, TokenSink& writer, Encode encode) {
  if (waiting_bytes_ >= batch_bytes_) finish();
  waiting_bytes_ += bytes;
  jobs_.push_back({.writer = &writer, .encode = std::move(encode)});
}

void EncodingQueue::then(std::function<void()> written) {
  jobs_.push_back({.written = std::move(written)});
}

void EncodingQueue::encode_all() {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> errors(jobs_.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs_.size(); i = next++) {
      if (!jobs_[i].encode) continue;
      try {
        jobs_[i].passed = jobs_[i].encode(0, jobs_[i].tokens);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const Index useful = std::min(threads_, std::ssize(jobs_));
    for (Index i = 1; i < useful; ++i) helpers.emplace_back(work);
    work();
  }
  // The first one in the order of the texts, whichever came first in time.
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void EncodingQueue::finish() {
  encode_all();
  for (Job& job : jobs_) {
    if (job.written) job.written();
    if (!job.encode) continue;
    if (taken_ != 0) {
      job.tokens.clear();
      job.passed = job.encode(taken_, job.tokens);
    }
    taken_ = job.passed;
    job.writer->append(job.tokens);
  }
  jobs_.clear();
  waiting_bytes_ = 0;
}

}  // namespace dos::data
