// SPDX-License-Identifier: Apache-2.0
#include "launch/launch_report.hpp"

#include <fmt/format.h>

#include <numeric>

#include "base/log.hpp"
#include "base/streams.hpp"
#include "base/units.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/matrix/onednn.hpp"
#include "codelets/matrix/products.hpp"
#include "platform/blas.hpp"
#include "platform/mpi.hpp"

namespace dos::launch {
namespace {

/// "" where everything is trained.
std::string describe_trained(const shape::Layout& layout) {
  const Index trained = layout.trained_count();
  if (trained == layout.parameter_count()) return "";
  return fmt::format(", {} of them trained,", trained);
}

/// Where states live, if not all are in host memory, or need not be.
void log_homes(const train::Run& run, Index workers) {
  const offload::HomePlan homes = train::plan_homes(run, workers);
  const std::string& disks = run.config.sched.disks;
  const std::string kept = offload::describe_devices(run.layout, homes);
  if (const std::string there = offload::describe_disks(run.layout, homes); !there.empty())
    log::info("on disks ({}): states of {}", disks, there);
  else if (!disks.empty())
    log::info("on disks ({}): nothing, as {} of memory hold all {}states (sched.host_memory)",
              disks, format_bytes(run.state_memory), kept.empty() ? "" : "other ");
  if (!kept.empty()) log::info("on devices for good: states of {} (sched.resident)", kept);
}

}  // namespace

std::string describe_precision(const config::TrainConfig& config) {
  const config::TrainConfig::Train& train = config.train;
  if (config.parameter_types().working == DType::kF32) return train.precision;
  return fmt::format("{} with {} gradients", train.precision, train.gradient_precision);
}

void report_start(const train::Run& run, const rt::Session& session,
                  const MessageMemory& messages) {
  const auto& [config, model, layout, share, states, disk_free, devices, ahead, spare] = run;
  log::info(
      "model {}: {} layers, width {}, {} heads, context {}, vocabulary {}: {:.1f} M parameters{} "
      "in "
      "{} subgroups, {}",
      model.architecture, model.layers, model.width, model.heads, model.context, model.vocabulary,
      static_cast<double>(layout.parameter_count()) / 1e6, describe_trained(layout),
      layout.subgroups.size(), describe_precision(config));
  log::info("StarPU {}, scheduler {}, {} CPU workers; OpenBLAS kernels: {}", rt::Session::version(),
            session.scheduler(), session.cpu_workers(), platform::blas::core_type());
  log::info("FP32 products: {} (train.products={})", codelets::fp32_products(),
            config.train.products);
  if (session.cuda_workers() > 0 && rt::has_cuda())
    log::info("attention on GPUs: {} (train.attention={})", codelets::gpu_attention(),
              config.train.attention);
  if (share.ranks > 1)
    log::info("{} ranks, dist.zero = {}; {}; {}", share.ranks, share.zero,
              platform::MpiEnvironment::library_version(), messages.words);
  log_homes(run, session.workers());
  if (!ahead.empty())
    log::info(
        "updates of {} subgroups go ahead of the norm, with second banks of {} "
        "(optim.speculate={})",
        ahead.size(), format_bytes(train::bank_bytes(run, ahead).total()), config.optim.speculate);
  if (config.parameter_types().working == DType::kBF16)
    log::info("BF16 products: {}", codelets::bf16_products());
}

void report_resumed(const train::CheckpointReader& checkpoint, const train::CheckpointRead& read) {
  log::info("after step {} of {}: {} read in {:.2f} s", checkpoint.manifest().step,
            checkpoint.folder().string(), format_bytes(read.bytes), read.seconds);
}

void report_end(const config::TrainConfig& config, const train::TrainResult& result,
                const std::filesystem::path& out) {
  const auto shown = [](const std::optional<double>& loss) {
    return loss ? fmt::format("{:.9g}", *loss) : std::string("none");
  };
  streams::print("step {}  training loss {}  validation loss {}  best {}\n", result.step,
                 shown(result.loss), shown(result.validation_loss),
                 shown(result.best_validation_loss));
  if (result.stopped_by != nullptr)
    streams::print("stopped by {} after step {} of {}; continue with --out {} --resume\n",
                   result.stopped_by, result.step, config.train.steps, out.string());
}

void report_messages(ranks::Exchange& exchange) {
  const ranks::Traffic sent = exchange.sent();
  const Index bytes = std::accumulate(sent.bytes.begin(), sent.bytes.end(), Index{0});
  log::info("rank {} has sent {}; the thread for messages used {:.1f} % of a core", exchange.rank(),
            format_bytes(bytes), 100 * exchange.processor_share());
}

}  // namespace dos::launch
