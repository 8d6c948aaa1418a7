// SPDX-License-Identifier: Apache-2.0
#include "codelets/embedding/embedding_codelet.hpp"

#include "codelets/by_type.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct ForwardArgs {
  EmbeddingShape shape;
  RowBlocking token_table;
  RowBlocking position_table;
};

struct BackwardArgs {
  EmbeddingShape shape;
  TableBlock block;
  bool accumulate;
};

template <class T>
void forward_task(const rt::TaskView& task) {
  const auto& args = task.args<ForwardArgs>();
  const auto blocks = task.pointers_from<const T>(2);
  simd::dispatch([&]<simd::Isa kIsa>() {
    embedding_forward_cpu<kIsa>(
        args.shape, task.pointer<const std::int32_t>(0), {args.token_table, blocks.data()},
        {args.position_table, blocks.data() + args.token_table.count()}, task.pointer<T>(1));
  });
}

template <class T, class G>
void backward_token_task(const rt::TaskView& task) {
  const auto& args = task.args<BackwardArgs>();
  simd::dispatch([&]<simd::Isa kIsa>() {
    embedding_backward_token_cpu<kIsa>(args.shape, args.block, task.pointer<const std::int32_t>(0),
                                       task.pointer<const T>(1), task.pointer<G>(2));
  });
}

template <class T, class G>
void backward_position_task(const rt::TaskView& task) {
  const auto& args = task.args<BackwardArgs>();
  simd::dispatch([&]<simd::Isa kIsa>() {
    embedding_backward_position_cpu<kIsa>(args.shape, args.block, task.pointer<const T>(0),
                                          args.accumulate, task.pointer<G>(1));
  });
}

rt::Work table_work(const EmbeddingShape& shape, Index rows) {
  const double elements = static_cast<double>(shape.sequences) *
                          static_cast<double>(shape.context) * static_cast<double>(shape.width);
  return {elements, {shape.sequences, shape.context, shape.width, rows}};
}

}  // namespace

const rt::Codelet& embedding_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>>({.symbol = symbol_of<T>("embedding_forward", 1),
                                              .modes = {Mode::kRead, Mode::kWrite},
                                              .tail = Mode::kRead});
  });
  return codelets[type];
}

const rt::Codelet& embedding_backward_token_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<backward_token_task<T, G>>(
        {.symbol = symbol_of<T, G>("embedding_backward_token", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[types];
}

const rt::Codelet& embedding_backward_position_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<backward_position_task<T, G>>(
        {.symbol = symbol_of<T, G>("embedding_backward_position", 1),
         .modes = {Mode::kRead, Mode::kWrite},
         .tail = {}});
  });
  return codelets[types];
}

const rt::Codelet& embedding_accumulate_position_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<backward_position_task<T, G>>(
        {.symbol = symbol_of<T, G>("embedding_accumulate_position", 1),
         .modes = {Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[types];
}

void submit_embedding_forward(rt::Submitter& submitter, const EmbeddingShape& shape,
                              const rt::Handle& tokens, const MatrixRef& token_table,
                              const MatrixRef& position_table, const rt::Handle& y,
                              const rt::TaskOptions& options) {
  submitter.submit(embedding_forward_codelet(y.type()),
                   buffer_list({&tokens, &y}, token_table, position_table),
                   ForwardArgs{shape, token_table.blocking, position_table.blocking},
                   table_work(shape, token_table.blocking.rows), options);
}

void submit_embedding_backward_token(rt::Submitter& submitter, const EmbeddingShape& shape,
                                     const rt::Handle& tokens, const rt::Handle& dy,
                                     const MatrixRef& gradient, const rt::TaskOptions& options) {
  const RowBlocking& blocking = gradient.blocking;
  for (Index b = 0; b < blocking.count(); ++b) {
    const BackwardArgs args{shape, {blocking.first_row(b), blocking.rows_of(b)}, true};
    const rt::Handle* block = gradient.blocks[static_cast<std::size_t>(b)];
    submitter.submit(embedding_backward_token_codelet({dy.type(), block->type()}),
                     buffer_list({&tokens, &dy, block}), args, table_work(shape, args.block.rows),
                     options);
  }
}

void submit_embedding_backward_position(rt::Submitter& submitter, const EmbeddingShape& shape,
                                        const rt::Handle& dy, bool accumulate,
                                        const MatrixRef& gradient, const rt::TaskOptions& options) {
  const RowBlocking& blocking = gradient.blocking;
  for (Index b = 0; b < blocking.count(); ++b) {
    const BackwardArgs args{shape, {blocking.first_row(b), blocking.rows_of(b)}, accumulate};
    const rt::Handle* block = gradient.blocks[static_cast<std::size_t>(b)];
    const GradientTypes types{dy.type(), block->type()};
    submitter.submit(accumulate ? embedding_accumulate_position_codelet(types)
                                : embedding_backward_position_codelet(types),
                     buffer_list({&dy, block}), args, table_work(shape, args.block.rows), options);
  }
}

}  // namespace dos::codelets
