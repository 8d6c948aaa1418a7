// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_cudnn_plan.hpp"

#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <unordered_map>
#include <utility>
#include <vector>

// The frontend finds cuDNN's functions in what this names (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace dos::codelets {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Sizes = std::vector<std::int64_t>;

enum Array : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLogsumexp,
  kDout,
  kDquery,
  kDkey,
  kDvalue
};

/// Sizes and strides of [sequences, heads, tokens, elements], as cuDNN wants them.
struct Layout {
  Sizes sizes, strides;
};

/// Rows of a token have `width` elements, heads contiguous inside.
Layout rows(const CudnnCall& call, Index heads, Index width) {
  return {{call.sequences, heads, call.tokens, call.head_size},
          {call.tokens * width, call.head_size, width, 1}};
}

Layout statistics(const CudnnCall& call) {
  return {{call.sequences, call.heads, call.tokens, 1},
          {call.heads * call.tokens, call.tokens, 1, 1}};
}

Tensor input(fe::graph::Graph& graph, Array array, const Layout& layout,
             fe::DataType_t type = fe::DataType_t::BFLOAT16) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(array)
                          .set_dim(layout.sizes)
                          .set_stride(layout.strides)
                          .set_data_type(type));
}

void output(const Tensor& tensor, Array array, const Layout& layout,
            fe::DataType_t type = fe::DataType_t::BFLOAT16) {
  tensor->set_output(true)
      .set_uid(array)
      .set_dim(layout.sizes)
      .set_stride(layout.strides)
      .set_data_type(type);
}

/// Token i sees those from i - window + 1 to i: cuDNN counts the token itself to the left, too.
template <class Attributes>
void show_what_is_seen(Attributes& attributes, const CudnnCall& call) {
  attributes.set_attn_scale(1.0F / std::sqrt(static_cast<float>(call.head_size)))
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  if (call.window != 0 && call.window < call.tokens)
    attributes.set_diagonal_band_left_bound(static_cast<int>(call.window));
}

void add_forward(fe::graph::Graph& graph, const CudnnCall& call) {
  const Layout queries = rows(call, call.heads, call.qkv_width);
  const Layout keys = rows(call, call.key_heads, call.qkv_width);
  fe::graph::SDPA_attributes attributes;
  attributes.set_name("attention_forward").set_generate_stats(true);
  show_what_is_seen(attributes, call);
  const auto [out, logsumexp] = graph.sdpa(input(graph, kQuery, queries), input(graph, kKey, keys),
                                           input(graph, kValue, keys), attributes);
  output(out, kOut, rows(call, call.heads, call.out_width));
  output(logsumexp, kLogsumexp, statistics(call), fe::DataType_t::FLOAT);
}

void add_backward(fe::graph::Graph& graph, const CudnnCall& call) {
  const Layout queries = rows(call, call.heads, call.qkv_width);
  const Layout keys = rows(call, call.key_heads, call.qkv_width);
  const Layout results = rows(call, call.heads, call.out_width);
  fe::graph::SDPA_backward_attributes attributes;
  attributes.set_name("attention_backward").set_deterministic_algorithm(true);
  show_what_is_seen(attributes, call);
  const auto [dquery, dkey, dvalue] = graph.sdpa_backward(
      input(graph, kQuery, queries), input(graph, kKey, keys), input(graph, kValue, keys),
      input(graph, kOut, results), input(graph, kDout, results),
      input(graph, kLogsumexp, statistics(call), fe::DataType_t::FLOAT), attributes);
  output(dquery, kDquery, queries);
  output(dkey, kDkey, keys);
  output(dvalue, kDvalue, keys);
}

/// Empty where all went well.
std::string words_of(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? std::string() : fe::detail::get_error_string(status);
}

/// What `action` returns, or the words of what it throws: the frontend does where it lacks a
/// library, or a function of it.
template <class Action>
std::string fault_of(Action&& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

const std::string& load_cudnn() {
  static const std::string fault = [] {
    // Of several runtime libraries of CUDA the frontend would take the oldest.
    ::setenv("CUDNN_FRONTEND_CUDART_LIB_NAME",
             fmt::format("libcudart.so.{}", CUDART_VERSION / 1000).c_str(), /*overwrite=*/0);
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (fe::cudnn_dlhandle != nullptr) return std::string();
    const char* why = dlerror();
    return std::string(why == nullptr ? "libcudnn.so.9 cannot be loaded" : why);
  }();
  return fault;
}

std::string cudnn_version() {
  return fault_of([] {
    const std::size_t version = fe::detail::get_backend_version();
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  });
}

CudnnHandle::CudnnHandle() {
  fault_ = fault_of([&] { return words_of(fe::detail::create_handle(&handle_)); });
  if (!fault_.empty()) handle_ = nullptr;
}

CudnnHandle::~CudnnHandle() {
  if (handle_ != nullptr)
    static_cast<void>(fault_of([&] { return words_of(fe::detail::destroy_handle(handle_)); }));
}

std::string CudnnHandle::use(CUstream_st* stream) const {
  return fault_of([&] { return words_of(fe::detail::set_stream(handle_, stream)); });
}

struct CudnnPlan::Graph : fe::graph::Graph {
  /// Parts of the graph take what they know of the GPU from it when they are added.
  explicit Graph(const CudnnCall& call, int capability = 0, int multiprocessors = 0) {
    if (capability != 0) set_sm_version(capability).set_sm_count(multiprocessors);
    set_io_data_type(fe::DataType_t::BFLOAT16);
    set_intermediate_data_type(fe::DataType_t::FLOAT);
    set_compute_data_type(fe::DataType_t::FLOAT);
    if (call.backward)
      add_backward(*this, call);
    else
      add_forward(*this, call);
  }
};

CudnnPlan::CudnnPlan(const CudnnCall& call, const CudnnHandle& handle) {
  obstacle_ = fault_of([&] {
    graph_ = std::make_unique<Graph>(call);
    return make(handle.get());
  });
}

CudnnPlan::CudnnPlan(const CudnnCall& call, const std::string& device, int capability,
                     int multiprocessors) {
  obstacle_ = fault_of([&] {
    graph_ = std::make_unique<Graph>(call, capability, multiprocessors);
    const auto properties = std::make_shared<fe::DeviceProperties>();
    fe::error_t status = properties->deserialize({device.begin(), device.end()});
    if (status.is_bad()) return status.get_message();
    graph_->set_device_properties(properties);
    return make(nullptr);
  });
}

CudnnPlan::CudnnPlan(CudnnPlan&&) noexcept = default;
CudnnPlan& CudnnPlan::operator=(CudnnPlan&&) noexcept = default;
CudnnPlan::~CudnnPlan() = default;

std::string CudnnPlan::make(cudnnContext* handle) {
  fe::graph::Graph& graph = *graph_;
  std::string fault;
  const auto good = [&fault](fe::error_t status) {
    if (status.is_good()) return true;
    fault = status.get_message();
    if (fault.empty()) fault = "cuDNN does not say why";
    return false;
  };
  std::int64_t bytes = 0;
  if (good(graph.validate()) &&
      good(handle != nullptr ? graph.build_operation_graph(handle)
                             : graph.build_operation_graph()) &&
      good(graph.create_execution_plans({fe::HeurMode_t::A})) && good(graph.check_support()) &&
      good(graph.build_plans()) && good(graph.get_workspace_size(bytes)))
    workspace_bytes_ = bytes;
  return fault;
}

std::string CudnnPlan::run(const CudnnHandle& handle, const CudnnArrays& arrays,
                           void* workspace) const {
  const auto pointer = [](const void* array) { return const_cast<void*>(array); };
  std::unordered_map<std::int64_t, void*> pointers{{kQuery, pointer(arrays.query)},
                                                   {kKey, pointer(arrays.key)},
                                                   {kValue, pointer(arrays.value)},
                                                   {kOut, pointer(arrays.out)},
                                                   {kLogsumexp, pointer(arrays.logsumexp)}};
  if (arrays.dout != nullptr) {
    pointers.insert({{kDout, pointer(arrays.dout)},
                     {kDquery, arrays.dquery},
                     {kDkey, arrays.dkey},
                     {kDvalue, arrays.dvalue}});
  }
  return fault_of([&] {
    fe::error_t status = graph_->execute(handle.get(), pointers, workspace);
    return status.is_good() ? std::string() : status.get_message();
  });
}

}  // namespace dos::codelets
