// SPDX-License-Identifier: Apache-2.0
// Files of a checkpoint ask for buffers in the order in which the next updates need them, and name
// every element of the model once.
#include "checkpoint/contents.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "optim/optimizer.hpp"
#include "rt/handle.hpp"
#include "rt/session.hpp"
#include "rt/submitter.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "tensor/parameter_listener.hpp"

namespace dos::checkpoint::contents_test {
namespace {

/// A model whose second block is frozen.
shape::Layout layout(Index subgroup_params) {
  auto parameters = shape::find_family("gpt2").parameters({"gpt2", 3, 24, 2, 8, 61});
  for (shape::ParameterSpec& spec : parameters) spec.trained = !spec.name.starts_with("blocks.1.");
  return shape::cut_into_subgroups(parameters, subgroup_params, {});
}

/// Notes in which order subgroups are updated.
class Updates final : public tensor::ParameterListener {
 public:
  void before_forward(Index /*depth*/) override {}
  void before_backward(Index /*depth*/) override {}
  void after_backward(Index /*depth*/) override {}
  void share_sums(std::span<const rt::Handle* const> /*sums*/) override {}
  void updated(Index subgroup) override { order.push_back(subgroup); }

  std::vector<Index> order;
};

struct Model {
  explicit Model(Index subgroup_params)
      : parameters(session, layout(subgroup_params)),
        optimizer(optim::make_optimizer(session, parameters, {.rule = "adamw", .clip = 1})) {}

  std::vector<Index> order_of_updates() {
    rt::Submitter submitter(session);
    const rt::Handle norm(session, {.name = "norm", .type = DType::kF64, .count = 1});
    for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i) {
      if (!parameters.layout().subgroups[static_cast<std::size_t>(i)].trained) continue;
      const rt::HostAccess access(parameters.gradients()[i], rt::Mode::kWrite);
      for (float& value : access.as<float>()) value = 1;
    }
    Updates updates;
    optimizer->set_listener(&updates);
    optimizer->submit_step(submitter, 1, 1e-3, norm);
    session.wait_all();
    optimizer->set_listener(nullptr);
    return updates.order;
  }

  rt::Session session{{.scheduler = "", .cpu_workers = 2}};
  tensor::ParameterSet parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
};

TEST(Contents, ComeInTheOrderOfTheNextUpdates) {
  for (const Index subgroup_params : {100, 1000, 1'000'000}) {
    SCOPED_TRACE(subgroup_params);
    Model model(subgroup_params);
    const std::vector<Index> updates = model.order_of_updates();
    ASSERT_GE(updates.size(), 4U);
    for (const FileContents& file : written_contents(model.parameters, *model.optimizer)) {
      SCOPED_TRACE(file.name);
      std::map<Index, std::vector<Index>> by_array;
      Index turn = 0;
      for (const Part& part : file.parts) {
        EXPECT_GE(part.turn, turn);
        turn = part.turn;
        by_array[part.array].push_back(part.subgroup);
      }
      if (file.is_constant) {
        EXPECT_EQ(file.parts.front().turn, std::numeric_limits<Index>::max()) << "no update";
        continue;
      }
      EXPECT_EQ(by_array.size(), file.name == kModelFile ? 1U : 2U);
      for (const auto& [array, subgroups] : by_array) EXPECT_EQ(subgroups, updates) << array;
    }
  }
}

TEST(Contents, HaveEachByteOnce) {
  for (const Index subgroup_params : {100, 1000, 1'000'000}) {
    SCOPED_TRACE(subgroup_params);
    Model model(subgroup_params);
    for (const FileContents& file : written_contents(model.parameters, *model.optimizer)) {
      SCOPED_TRACE(file.name);
      std::map<std::size_t, std::map<Index, Index>> ends;  // of extents, by tensor and beginning
      for (const Part& part : file.parts)
        for (const Extent& extent : part.extents)
          EXPECT_TRUE(ends[extent.tensor]
                          .emplace(extent.tensor_offset, extent.tensor_offset + extent.bytes)
                          .second);
      for (std::size_t i = 0; i < file.tensors.size(); ++i) {
        Index reached = 0;
        for (const auto& [begin, end] : ends[i]) {
          EXPECT_EQ(begin, reached) << file.tensors[i].name;
          reached = end;
        }
        EXPECT_EQ(reached, io::byte_size(file.tensors[i].dtype, file.tensors[i].shape).value());
      }
    }
  }
}

}  // namespace
}  // namespace dos::checkpoint::contents_test
