// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/row_blocking.hpp"
#include "base/types.hpp"
#include "codelets/operation.hpp"
#include "rt/codelet.hpp"
#include "rt/handle.hpp"
#include "rt/submitter.hpp"

/// What every codelet must do with its buffers, checked from outside. A case names the elements of
/// each buffer that are inputs and those that are outputs; everything that is no input is filled
/// with a poison before the tasks run, twice, with two different ones. Then
/// - elements that are no outputs are bit-equal to before (buffers read, and neighbours in buffers
///   that several tensors share);
/// - outputs that are no inputs do not hold the poison: they were written;
/// - outputs are bit-equal in both runs: they depend on inputs alone;
/// - outputs are bit-equal to those of the kernel called directly, or near them on a device;
/// - the codelet's access modes say what the case says.
namespace dos::test {

/// Elements first .. first + count - 1.
struct Range {
  Index first;
  Index count;
};

enum class Values {
  kUniform,   ///< in [-1, 1)
  kPositive,  ///< in [0.5, 1.5)
  kTokens,    ///< integers in [0, Buffer::vocabulary); a quarter are no targets
};

struct Buffer {
  DType type = DType::kF32;
  Index count = 0;
  std::vector<Range> inputs{};   ///< elements with valid values before the tasks run
  std::vector<Range> outputs{};  ///< elements that the tasks may change, and must if no inputs
  Values values = Values::kUniform;
  Index vocabulary = 0;
  bool scratch = false;
};

/// Buffers of `count` elements that are read, written, updated, or work space, as a whole.
Buffer reads(Index count, Values values = Values::kUniform, DType type = DType::kF32);
Buffer writes(Index count, DType type = DType::kF32);
Buffer updates(Index count, Values values = Values::kUniform, DType type = DType::kF32);
Buffer works_in(Index count);
/// Parts of a buffer.
Buffer reads_part(Index count, std::vector<Range> parts, DType type = DType::kF32);
Buffer writes_part(Index count, std::vector<Range> parts, DType type = DType::kF32);
Buffer updates_part(Index count, std::vector<Range> parts, DType type = DType::kF32);

enum class Access { kReads, kWrites, kUpdates };

/// The blocks of a matrix, one buffer each, of which the first `rows_used` rows are taken.
void add_matrix(std::vector<Buffer>& buffers, const RowBlocking& blocking, Access access,
                Index rows_used, DType type = DType::kF32);

/// The case's name for elements of type T, and gradients of parameters of type G: FP32 goes
/// without saying.
template <class T, class G = T>
std::string typed_name(const std::string& name) {
  if constexpr (std::is_same_v<T, float>) return name;
  return name + (std::is_same_v<T, G> ? "_bf16" : "_bf16_f32");
}

/// Handles of a case's buffers, by their index in the case.
class Handles {
 public:
  Handles(rt::Session& session, const std::vector<Buffer>& buffers);

  const rt::Handle& operator[](Index index) const {
    return *handles_[static_cast<std::size_t>(index)];
  }
  /// The matrix whose blocks start at buffer `first`.
  [[nodiscard]] codelets::MatrixRef matrix(const RowBlocking& blocking, Index first) const;
  [[nodiscard]] Index index_of(const rt::Handle* handle) const;

 private:
  std::vector<std::unique_ptr<rt::Handle>> handles_;
};

struct FreeAligned {
  void operator()(std::byte* memory) const;
};

/// The contents of one buffer, aligned like a handle's.
class Contents {
 public:
  explicit Contents(const Buffer& buffer);

  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] Index bytes() const { return bytes_; }

 private:
  Index bytes_;
  std::unique_ptr<std::byte, FreeAligned> memory_;
};

/// Plain memory in place of the handles, for the kernel called directly.
class Memory {
 public:
  explicit Memory(const std::vector<Contents>& contents) : contents_(contents) {}

  template <class T>
  [[nodiscard]] T* at(Index index) const {
    return contents_[static_cast<std::size_t>(index)].as<T>();
  }
  template <class T>
  [[nodiscard]] std::vector<T*> blocks(const RowBlocking& blocking, Index first) const {
    std::vector<T*> result;
    for (Index b = 0; b < blocking.count(); ++b) result.push_back(at<T>(first + b));
    return result;
  }

 private:
  const std::vector<Contents>& contents_;
};

struct Case {
  std::string name;
  const rt::Codelet* codelet;
  std::vector<Buffer> buffers;
  std::function<void(rt::Submitter&, const Handles&)> submit;
  std::function<void(const Memory&)> kernel;
};

/// Appends make.operator()<T, G>() for the types of activations and gradients of parameters.
template <class Make>
void add_gradient_cases(std::vector<Case>& cases, const Make& make) {
  for (const std::vector<Case>& made :
       {make.template operator()<float, float>(), make.template operator()<BF16, float>(),
        make.template operator()<BF16, BF16>()})
    cases.insert(cases.end(), made.begin(), made.end());
}

/// What outputs have in common with those of the kernel called directly.
enum class Likeness {
  kBits,
  kNear,  ///< all but roundings, as of sums in another order
};

/// Runs the case on CPU workers; one sentence for each thing that is wrong.
std::vector<std::string> complaints_about(const Case& c, Likeness likeness = Likeness::kBits);

/// The same on the only worker of the session, a device, in whose memory all buffers lie while the
/// tasks run. Outputs come near those of the kernel on the CPU. Pre: the device has a function of
/// the codelet.
std::vector<std::string> complaints_on_device(const Case& c, rt::Session& session);

}  // namespace dos::test
