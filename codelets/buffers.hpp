// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bf16.hpp"
#include "base/types.hpp"
#include "codelets/matrix/refs.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "rt/task_view.hpp"

/// The buffers of an operation, by name: each a member that states access mode and element type.
///
///   template <class As>
///   struct Buffers {
///     Reads<As, Activation> x;
///     Writes<As, Activation> y;
///   };
///
/// Buffers<AtSubmission> refers to what the caller gives, which must live until submit() returns;
/// Buffers<InTask<T, G>> holds what a task works on, pointers and sizes; Buffers<InOpencl> which
/// buffers of the task they are. A mode says what rt::Mode says; the lists (Each, Matrix) come
/// last, unless make_codelet() is told their sizes.
namespace dos::codelets {

/// Stand for an element type that differs between the codelets of an operation.
struct Activation;  ///< of activations, and of the working parameters that meet them
struct Gradient;    ///< of the gradients of parameters

struct AtSubmission;
/// T stands for Activation, G for Gradient.
template <class T = void, class G = void>
struct InTask;
struct InOpencl;

template <class T>
inline constexpr DType kTypeOf = DType::kF32;
template <class T>
inline constexpr DType kTypeOf<const T> = kTypeOf<T>;
template <>
inline constexpr DType kTypeOf<BF16> = DType::kBF16;
template <>
inline constexpr DType kTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kTypeOf<std::int32_t> = DType::kI32;

/// The type of a span's elements.
template <class T>
constexpr DType type_of(const std::span<T>& /*elements*/) {
  return kTypeOf<T>;
}

namespace buffers {

using Handles = std::span<const rt::Handle* const>;

template <class E, class T, class G>
using ElementOf = std::conditional_t<std::is_same_v<E, Activation>, T,
                                     std::conditional_t<std::is_same_v<E, Gradient>, G, E>>;
/// Elements as the task may touch them.
template <rt::Mode kAccess, class E, class T, class G>
using Touched =
    std::conditional_t<kAccess == rt::Mode::kRead, const ElementOf<E, T, G>, ElementOf<E, T, G>>;

template <class T>
std::span<T> elements_of(const rt::TaskView& task, Index buffer) {
  return {task.pointer<T>(buffer), static_cast<std::size_t>(task.count(buffer))};
}

/// What buffers of every kind have. Each kind adds
/// - a constructor from what the caller gives,
/// - handles(), those of a task,
/// - Sent, what travels to the task beside them, sent(), a value of it, and handles_in(sent),
/// - View<T, G>, what the task sees, and view(task, first, sent), which makes one of the task's
///   buffers from `first` on.
template <rt::Mode kAccess, class E>
struct Kind {
  static constexpr rt::Mode kMode = kAccess;
  static constexpr bool kIsList = false;
  template <class T, class G>
  using Element = ElementOf<E, T, G>;

  /// How many tasks a submission makes; select() names the one meant from then on.
  [[nodiscard]] Index tasks() const { return 1; }
  void select(Index /*task*/) {}
};

/// A handle; the task sees all its elements.
template <rt::Mode kAccess, class E>
class Whole : public Kind<kAccess, E> {
 public:
  struct Sent {};
  template <class T, class G>
  using View = std::span<Touched<kAccess, E, T, G>>;

  Whole(const rt::Handle& handle) : handle_(&handle) {}
  [[nodiscard]] Index count() const { return handle_->count(); }

  [[nodiscard]] Sent sent() const { return {}; }
  [[nodiscard]] Handles handles() const { return {&handle_, 1}; }
  static Index handles_in(const Sent& /*sent*/) { return 1; }
  template <class T, class G>
  static View<T, G> view(const rt::TaskView& task, Index first, const Sent& /*sent*/) {
    return elements_of<Touched<kAccess, E, T, G>>(task, first);
  }

 private:
  const rt::Handle* handle_;
};

/// A vector inside a handle; the task sees it, and what lies behind it.
template <rt::Mode kAccess, class E>
class Slice : public Kind<kAccess, E> {
 public:
  struct Sent {
    Index offset;
  };
  template <class T, class G>
  using View = std::span<Touched<kAccess, E, T, G>>;

  Slice(const SliceRef& slice) : slice_(slice) {}

  [[nodiscard]] Sent sent() const { return {slice_.offset}; }
  [[nodiscard]] Handles handles() const { return {&slice_.handle, 1}; }
  static Index handles_in(const Sent& /*sent*/) { return 1; }
  template <class T, class G>
  static View<T, G> view(const rt::TaskView& task, Index first, const Sent& sent) {
    return elements_of<Touched<kAccess, E, T, G>>(task, first)
        .subspan(static_cast<std::size_t>(sent.offset));
  }

 private:
  SliceRef slice_;
};

/// Any number of handles; the task sees a pointer to the first element of each.
template <rt::Mode kAccess, class E>
class Each : public Kind<kAccess, E> {
 public:
  static constexpr bool kIsList = true;
  struct Sent {
    Index count;
  };
  template <class T, class G>
  using View = std::vector<Touched<kAccess, E, T, G>*>;

  template <std::ranges::contiguous_range R>
  Each(const R& handles) : handles_(handles) {}
  [[nodiscard]] Index count() const { return std::ssize(handles_); }

  [[nodiscard]] Sent sent() const { return {count()}; }
  [[nodiscard]] Handles handles() const { return handles_; }
  static Index handles_in(const Sent& sent) { return sent.count; }
  template <class T, class G>
  static View<T, G> view(const rt::TaskView& task, Index first, const Sent& sent) {
    View<T, G> all;
    for (Index i = 0; i < sent.count; ++i)
      all.push_back(task.pointer<Touched<kAccess, E, T, G>>(first + i));
    return all;
  }

 private:
  Handles handles_;
};

/// Row blocks of any type, for kernels that take it as a value.
struct UntypedBlocks {
  RowBlocking blocking;
  std::vector<const void*> blocks;

  operator RowBlocks<const void>() const { return {blocking, blocks.data()}; }
};

/// A matrix in row blocks, all of them.
template <rt::Mode kAccess, class E>
class Matrix : public Kind<kAccess, E> {
 public:
  static constexpr bool kIsList = true;
  using Sent = RowBlocking;
  template <class T>
  struct Blocks {
    RowBlocking blocking;
    std::vector<T*> blocks;

    [[nodiscard]] RowBlocks<T> rows() const { return {blocking, blocks.data()}; }
    [[nodiscard]] UntypedBlocks untyped() const {
      return {blocking, {blocks.begin(), blocks.end()}};
    }
  };
  template <class T, class G>
  using View = Blocks<Touched<kAccess, E, T, G>>;

  Matrix(const MatrixRef& matrix) : matrix_(&matrix) {}
  [[nodiscard]] const RowBlocking& blocking() const { return matrix_->blocking; }

  [[nodiscard]] Sent sent() const { return blocking(); }
  [[nodiscard]] Handles handles() const { return matrix_->blocks; }
  static Index handles_in(const Sent& sent) { return sent.count(); }
  template <class T, class G>
  static View<T, G> view(const rt::TaskView& task, Index first, const Sent& sent) {
    return {sent, Each<kAccess, E>::template view<T, G>(task, first, {sent.count()})};
  }

 private:
  const MatrixRef* matrix_;
};

/// A matrix in row blocks, one task a block: each sees its own.
template <rt::Mode kAccess, class E>
class Block : public Kind<kAccess, E> {
 public:
  struct Sent {
    Index first_row;
    Index rows;
    Index columns;
  };
  template <class T>
  struct OneBlock : Sent {
    T* elements;
    static constexpr DType type() { return kTypeOf<T>; }
  };
  template <class T, class G>
  using View = OneBlock<Touched<kAccess, E, T, G>>;

  Block(const MatrixRef& matrix) : matrix_(&matrix) {}
  [[nodiscard]] const MatrixRef& matrix() const { return *matrix_; }
  [[nodiscard]] Index tasks() const { return matrix_->blocking.count(); }
  void select(Index task) { block_ = static_cast<std::size_t>(task); }

  [[nodiscard]] Sent sent() const {
    const RowBlocking& blocking = matrix_->blocking;
    const auto block = static_cast<Index>(block_);
    return {blocking.first_row(block), blocking.rows_of(block), blocking.columns};
  }
  [[nodiscard]] Handles handles() const { return {&matrix_->blocks[block_], 1}; }
  static Index handles_in(const Sent& /*sent*/) { return 1; }
  template <class T, class G>
  static View<T, G> view(const rt::TaskView& task, Index first, const Sent& sent) {
    return {sent, task.pointer<Touched<kAccess, E, T, G>>(first)};
  }

 private:
  const MatrixRef* matrix_;
  std::size_t block_ = 0;
};

/// Which buffers of a task a member is, and the elements of the first.
struct Places {
  Index first;
  Index count;
  Index elements;
};

template <class As, class K>
struct Member;
template <class K>
struct Member<AtSubmission, K> {
  using Type = K;
};
template <class T, class G, class K>
struct Member<InTask<T, G>, K> {
  using Type = typename K::template View<T, G>;
  static Type of(const rt::TaskView& task, Index first, const typename K::Sent& sent) {
    return K::template view<T, G>(task, first, sent);
  }
};
template <class K>
struct Member<InOpencl, K> {
  using Type = Places;
  static Type of(const rt::TaskView& task, Index first, const typename K::Sent& sent) {
    const Index count = K::handles_in(sent);
    return {first, count, count == 0 ? 0 : task.count(first)};
  }
};

}  // namespace buffers

/// A member of any kind.
template <class As, class Kind>
using Buffer = typename buffers::Member<As, Kind>::Type;

template <class As, class E>
using Reads = Buffer<As, buffers::Whole<rt::Mode::kRead, E>>;
template <class As, class E>
using Writes = Buffer<As, buffers::Whole<rt::Mode::kWrite, E>>;
template <class As, class E>
using Updates = Buffer<As, buffers::Whole<rt::Mode::kReadWrite, E>>;
template <class As, class E>
using WorkSpace = Buffer<As, buffers::Whole<rt::Mode::kScratch, E>>;

template <class As, class E>
using ReadsSlice = Buffer<As, buffers::Slice<rt::Mode::kRead, E>>;
template <class As, class E>
using UpdatesSlice = Buffer<As, buffers::Slice<rt::Mode::kReadWrite, E>>;

template <class As, class E>
using ReadsEach = Buffer<As, buffers::Each<rt::Mode::kRead, E>>;
template <class As, class E>
using WritesEach = Buffer<As, buffers::Each<rt::Mode::kWrite, E>>;
template <class As, class E>
using UpdatesEach = Buffer<As, buffers::Each<rt::Mode::kReadWrite, E>>;

template <class As, class E>
using ReadsMatrix = Buffer<As, buffers::Matrix<rt::Mode::kRead, E>>;

/// What a sum overwrites when it begins and adds to when it goes on.
inline constexpr rt::Mode sum_mode(bool accumulates) {
  return accumulates ? rt::Mode::kReadWrite : rt::Mode::kWrite;
}
template <class As, bool kAccumulates, class E>
using Sums = Buffer<As, buffers::Whole<sum_mode(kAccumulates), E>>;
template <class As, bool kAccumulates, class E>
using SumsBlock = Buffer<As, buffers::Block<sum_mode(kAccumulates), E>>;

}  // namespace dos::codelets
