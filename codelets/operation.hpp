// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "codelets/buffers.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"
#include "rt/submitter.hpp"

/// From the description of an operation to its codelets and tasks. A description is a struct:
///
///   struct GeluForward : Operation {
///     static constexpr Symbol kSymbol{"gelu_forward", 1};
///     using Variants = ByActivation;             // one codelet for each; else a single one
///     using Args = ...;                          // trivially copyable, no pointers; else none
///     template <class As> struct Buffers {...};  // buffers.hpp
///     static rt::Work work(const Buffers<AtSubmission>& b, const Args& args);
///     template <simd::Isa kIsa> static void cpu(const auto& task);
///     static auto cuda(const CudaContext& context, const auto& task);
///   };
///
/// - work(): floating-point operations, and up to four sizes that decide the duration.
/// - cpu(), cuda(): `task` has the members of Buffers, `args` and `payload`. cuda() may be missing;
///   it keeps the contract of CUDA kernels and returns what they do (cuda/context.hpp).
/// - opencl(rt::OpenclKernel&, const auto& task): may be missing.
/// - check(const Buffers<AtSubmission>&, const Args&): what is required of the buffers beyond their
///   types; may be missing.
namespace dos::codelets {

/// "dos.<name>.<types>.v<version>" in traces and performance models. The version grows when the
/// cost changes, so that old measurements are not reused.
struct Symbol {
  const char* name;
  int version;
  DType type = DType::kF32;  ///< named where there is a single variant
};

template <class... Tasks>
struct VariantList {};
using ByActivation = VariantList<InTask<float>, InTask<BF16>>;
using ByGradient = VariantList<InTask<float, float>, InTask<BF16, float>, InTask<BF16, BF16>>;

/// What a description leaves out.
struct Operation {
  using Variants = VariantList<InTask<>>;
  struct Args {};
  static void check(const auto& /*buffers*/, const auto& /*args*/) {}
};

/// The work of `flops` operations on each of `count` elements.
inline rt::Work work_of(double flops, Index count) {
  return {flops * static_cast<double>(count), {count}};
}

/// What an implementation sees; valid during the task only.
template <class Op, class As>
struct Task : Op::template Buffers<As> {
  const typename Op::Args& args;
  std::span<const std::byte> payload;  ///< bytes submitted beside the arguments
};

namespace detail {

struct Anything {
  template <class T>
  operator T() const;
};
/// No member has a default: just their number of values makes a B.
template <class B, class... Values>
constexpr int member_count() {
  if constexpr (requires { B{Values{}...}; })
    return sizeof...(Values);
  else
    return member_count<B, Values..., Anything>();
}

/// References to the members of a struct of buffers.
template <class B>
constexpr auto members(B& b) {
  constexpr int kCount = member_count<std::remove_const_t<B>>();
  static_assert(kCount <= 6, "an operation has at most 6 members of buffers");
  if constexpr (kCount == 0) {
    return std::tie();
  } else if constexpr (kCount == 1) {
    auto& [m1] = b;
    return std::tie(m1);
  } else if constexpr (kCount == 2) {
    auto& [m1, m2] = b;
    return std::tie(m1, m2);
  } else if constexpr (kCount == 3) {
    auto& [m1, m2, m3] = b;
    return std::tie(m1, m2, m3);
  } else if constexpr (kCount == 4) {
    auto& [m1, m2, m3, m4] = b;
    return std::tie(m1, m2, m3, m4);
  } else if constexpr (kCount == 5) {
    auto& [m1, m2, m3, m4, m5] = b;
    return std::tie(m1, m2, m3, m4, m5);
  } else {
    auto& [m1, m2, m3, m4, m5, m6] = b;
    return std::tie(m1, m2, m3, m4, m5, m6);
  }
}

/// What one member sends; a base class a member, as std::tuple need not be trivially copyable.
template <std::size_t kMember, class Kind>
struct Sent {
  typename Kind::Sent value;
};

/// The kinds of an operation's buffers, with their places.
template <class... Entries>
struct KindList {
  struct SentByAll : Entries... {};
};
template <class Indices, class Tuple>
struct KindsOf;
template <std::size_t... kMembers, class... Kinds>
struct KindsOf<std::index_sequence<kMembers...>, std::tuple<Kinds&...>> {
  using List = KindList<Sent<kMembers, Kinds>...>;
};
template <class Op>
using Given = typename Op::template Buffers<AtSubmission>;
template <class Op>
using Kinds = typename KindsOf<std::make_index_sequence<member_count<Given<Op>>()>,
                               decltype(members(std::declval<Given<Op>&>()))>::List;

template <class Op>
struct Arguments {
  typename Op::Args args;
  typename Kinds<Op>::SentByAll sent;
};

/// The member whose buffers begin at `next`, which becomes the next one's.
template <class As, class Kind>
Buffer<As, Kind> member_of(const rt::TaskView& view, Index& next, const typename Kind::Sent& sent) {
  const Index first = std::exchange(next, next + Kind::handles_in(sent));
  return buffers::Member<As, Kind>::of(view, first, sent);
}

template <class Op, class As, std::size_t... kMembers, class... Each>
Task<Op, As> read_task(const rt::TaskView& view, KindList<Sent<kMembers, Each>...> /*kinds*/) {
  const auto& [args, sent] = view.args<Arguments<Op>>();
  [[maybe_unused]] Index next = 0;
  return {
      {member_of<As, Each>(view, next, static_cast<const Sent<kMembers, Each>&>(sent).value)...},
      args,
      view.payload()};
}

template <class Op, class As>
Task<Op, As> read_task(const rt::TaskView& view) {
  return read_task<Op, As>(view, Kinds<Op>{});
}

template <class Op, class Variant>
void run_cpu(const rt::TaskView& view) {
  const auto task = read_task<Op, Variant>(view);
  simd::dispatch([&]<simd::Isa kIsa>() { Op::template cpu<kIsa>(task); });
}

template <class Op>
void run_opencl(const rt::TaskView& view, rt::OpenclKernel& kernel) {
  Op::opencl(kernel, read_task<Op, InOpencl>(view));
}

/// The context of the running CUDA worker.
CudaContext cuda_context(rt::CudaStream stream);
/// Throws Error unless a kernel's answer is null.
void expect_started(const char* fault);

template <class Op, class Variant>
void run_cuda(const rt::TaskView& view, rt::CudaStream stream) {
  expect_started(Op::cuda(cuda_context(stream), read_task<Op, Variant>(view)));
}

template <class Op>
constexpr rt::OpenclTask opencl_task() {
  if constexpr (requires(rt::OpenclKernel & k, const Task<Op, InOpencl>& t) { Op::opencl(k, t); })
    return &run_opencl<Op>;
  else
    return nullptr;
}

/// A cuda() is compiled here, as its return type is deduced, also where no CUDA kernels run.
template <class Op, class Variant>
constexpr rt::CudaTask cuda_task() {
  using TaskOf = Task<Op, Variant>;
  if constexpr (requires(const CudaContext& c, const TaskOf& t) { Op::cuda(c, t); }) {
    using Answer = decltype(Op::cuda(std::declval<CudaContext>(), std::declval<TaskOf>()));
    static_assert(std::is_same_v<Answer, const char*>, "cuda() returns what its kernel does");
    if constexpr (kRunsCudaKernels) return &run_cuda<Op, Variant>;
  }
  return nullptr;
}

/// `list_sizes`: handles of each list where they are the same in every task; else one list ends
/// the buffers, or several of one mode.
template <std::size_t... kMembers, class... Each>
void add_modes(rt::CodeletSpec& spec, std::span<const Index> list_sizes,
               KindList<Sent<kMembers, Each>...> /*kinds*/) {
  [[maybe_unused]] const auto add = [&](rt::Mode mode, bool is_list) {
    if (is_list && list_sizes.empty()) {
      require(!spec.tail || *spec.tail == mode, "lists of buffers of one mode");
      spec.tail = mode;
      return;
    }
    require(!spec.tail, "lists of buffers come last");
    spec.modes.insert(spec.modes.end(), is_list ? static_cast<std::size_t>(list_sizes[0]) : 1,
                      mode);
    if (is_list) list_sizes = list_sizes.subspan(1);
  };
  (add(Each::kMode, Each::kIsList), ...);
}

std::string symbol_of(const Symbol& symbol, std::span<const DType> types);

template <class Op, class T, class G>
std::string symbol_for(InTask<T, G>* /*variant*/) {
  if constexpr (std::is_void_v<T>)
    return symbol_of(Op::kSymbol, std::array{Op::kSymbol.type});
  else if constexpr (std::is_void_v<G> || std::is_same_v<T, G>)
    return symbol_of(Op::kSymbol, std::array{kTypeOf<T>});
  else
    return symbol_of(Op::kSymbol, std::array{kTypeOf<T>, kTypeOf<G>});
}

}  // namespace detail

/// One codelet of an operation, for those that choose among more than variants themselves.
template <class Op, class Variant>
rt::Codelet make_codelet(std::string symbol, std::span<const Index> list_sizes = {},
                         rt::OpenclSource opencl = {}) {
  rt::CodeletSpec spec{
      .symbol = std::move(symbol), .modes = {}, .tail = {}, .opencl = std::move(opencl)};
  detail::add_modes(spec, list_sizes, detail::Kinds<Op>{});
  return rt::make_codelet<&detail::run_cpu<Op, Variant>, detail::opencl_task<Op>(),
                          detail::cuda_task<Op, Variant>()>(std::move(spec));
}

/// The codelets of an operation, one a variant, in their order.
template <class Op>
std::span<const rt::Codelet> codelets_of() {
  return []<class... Variants>(VariantList<Variants...>) -> std::span<const rt::Codelet> {
    static const rt::Codelet all[] = {
        make_codelet<Op, Variants>(detail::symbol_for<Op>(static_cast<Variants*>(nullptr)))...};
    return all;
  }(typename Op::Variants{});
}

/// The codelet for these types: codelet_of<GeluForward, BF16>().
template <class Op, class... Types>
const rt::Codelet& codelet_of() {
  return []<class... Variants>(VariantList<Variants...>) -> const rt::Codelet& {
    static_assert((std::is_same_v<InTask<Types...>, Variants> || ...), "a variant");
    std::size_t before = 0;
    (void)((std::is_same_v<InTask<Types...>, Variants> || (++before, false)) || ...);
    return codelets_of<Op>()[before];
  }(typename Op::Variants{});
}

namespace detail {

template <class Op, class T, class G>
bool fits(const Given<Op>& given, InTask<T, G>* /*variant*/) {
  const auto has_type = []<class Kind>(const Kind& member) {
    return std::ranges::all_of(member.handles(), [](const rt::Handle* handle) {
      return handle->type() == kTypeOf<typename Kind::template Element<T, G>>;
    });
  };
  return std::apply([&](const auto&... member) { return (has_type(member) && ...); },
                    members(given));
}

/// Throws ContractViolation with the types of the members' handles.
[[noreturn]] void refuse(const Symbol& symbol, std::initializer_list<buffers::Handles> members);

/// The codelet whose element types the handles have.
template <class Op, class... Variants>
const rt::Codelet& codelet_for(const Given<Op>& given, VariantList<Variants...> /*all*/) {
  std::size_t before = 0;
  const bool found =
      ((fits<Op>(given, static_cast<Variants*>(nullptr)) || (++before, false)) || ...);
  if (!found)
    std::apply([](const auto&... member) { refuse(Op::kSymbol, {member.handles()...}); },
               members(given));
  return codelets_of<Op>()[before];
}

}  // namespace detail

/// Submits a task of a codelet that make_codelet() made for the operation.
template <class Op>
void submit_to(rt::Submitter& submitter, const rt::Codelet& codelet,
               const detail::Given<Op>& buffers, const typename Op::Args& args,
               const rt::TaskOptions& options, std::span<const std::byte> payload = {}) {
  std::apply(
      [&](const auto&... member) {
        std::vector<const rt::Handle*> handles;
        (handles.insert(handles.end(), member.handles().begin(), member.handles().end()), ...);
        submitter.submit(codelet, handles, detail::Arguments<Op>{args, {{member.sent()}...}},
                         Op::work(buffers, args), options, payload);
      },
      detail::members(buffers));
}

/// Submits the operation's task, or one a block if a buffer is a Block:
///
///   submit<GeluForward>(submitter, {.x = x, .y = y}, options);
///   submit<SwigluForward>(submitter, {.x = x, .out = out}, shape, options);
///
/// Buffers of other types than one of the operation's variants are a broken contract
/// (dos::require). `payload` travels inside the task.
template <class Op>
void submit(rt::Submitter& submitter, detail::Given<Op> buffers, const typename Op::Args& args,
            const rt::TaskOptions& options, std::span<const std::byte> payload = {}) {
  const Index tasks =
      std::apply([](const auto&... member) { return (Index{1} * ... * member.tasks()); },
                 detail::members(buffers));
  if (tasks == 0) return;
  const rt::Codelet& codelet = detail::codelet_for<Op>(buffers, typename Op::Variants{});
  Op::check(buffers, args);
  for (Index task = 0; task < tasks; ++task) {
    std::apply([&](auto&... member) { (member.select(task), ...); }, detail::members(buffers));
    submit_to<Op>(submitter, codelet, buffers, args, options, payload);
  }
}

template <class Op>
requires std::is_empty_v<typename Op::Args>
void submit(rt::Submitter& submitter, const detail::Given<Op>& buffers,
            const rt::TaskOptions& options) {
  submit<Op>(submitter, buffers, {}, options);
}

}  // namespace dos::codelets
