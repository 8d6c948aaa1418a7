// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder into the parameters of a model, beside readers of its files that do nothing
// else, in turn, in one process: threads that fill new memory through the page cache, and the
// engine past the cache.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "hf/model_export.hpp"
#include "hf/model_weights.hpp"
#include "rt/host_buffer.hpp"
#include "rt/session.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "shape/model.hpp"
#include "storage/direct_file.hpp"
#include "storage/engine.hpp"
#include "storage/pages.hpp"
#include "tensor/parameter_set.hpp"
#include "train/initial_weights.hpp"
#include "transfer_readings.hpp"

namespace dos::bench {
namespace {

struct Options {
  std::filesystem::path folder = ".";
  std::string model = "gpt2-124m";
  std::string dtype = "fp32";
  Index subgroup_params = 5'000'000;
  Index threads = 4;
  int rounds = 5;
  bool is_cold = false;
  bool is_json = false;
};

/// A folder of a model with drawn weights, for as long as the object lives.
class Folder {
 public:
  Folder(const Options& options, const shape::ModelConfig& model)
      : path_(options.folder / fmt::format("import_bench.{}.tmp", ::getpid())) {
    const Philox random(1);
    const auto read = [&](const hf::TensorName& /*tensor*/, Index first, std::span<float> out) {
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(first) + i)) - 0.5F;
    };
    const DType dtype = options.dtype == "bf16" ? DType::kBF16 : DType::kF32;
    hf::export_model(path_, model, read, {.config = {.dtype = dtype}});
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::vector<InputFile> files() const {
    std::vector<InputFile> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      if (entry.path().extension() == ".safetensors") files.emplace_back(entry.path());
    return files;
  }

 private:
  std::filesystem::path path_;
};

void forget(const std::vector<InputFile>& files) {
  for (const InputFile& file : files) {
    const int error = ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0) fail_errno(file.path().string() + ": cannot leave the page cache", error);
  }
}

/// Threads that take the next block, until there is none, each to its place in `memory`, where
/// there are `widening` bytes for each of a file: of those behind a block the system is asked for
/// the pages alone.
void read_raw(const std::vector<InputFile>& files, const rt::HostBuffer& memory, Index widening,
              Index threads) {
  constexpr Index kBlock = Index{4} << 20;
  constexpr Index kPage = 4096;
  Index base = 0;
  for (const InputFile& file : files) {
    std::atomic<Index> next = 0;
    std::atomic<bool> is_short = false;
    const auto work = [&] {
      for (Index at = next.fetch_add(kBlock); at < file.size(); at = next.fetch_add(kBlock)) {
        const Index count = std::min(kBlock, file.size() - at);
        std::byte* const place = memory.data() + (base + at) * widening;
        const std::span out(place, static_cast<std::size_t>(count));
        if (file.read(at, out) != count) is_short = true;
        for (Index i = count; i < count * widening; i += kPage) place[i] = std::byte{1};
      }
    };
    {
      std::vector<std::jthread> all;
      for (Index i = 0; i < threads; ++i) all.emplace_back(work);
    }
    expect(!is_short, "{}: became shorter while it was read", file.path().string());
    base += file.size();
  }
}

/// Past the page cache, again and again into the same memory, as many reads under way as an import
/// has.
void read_past_cache(const std::vector<storage::DirectFile>& files) {
  constexpr Index kBlock = Index{2} << 20;
  constexpr Index kUnderWay = 12;
  storage::Engine engine({.depth = kUnderWay});
  std::vector<std::unique_ptr<storage::Pages>> blocks;
  std::vector<std::future<std::string>> ends(kUnderWay);
  for (Index i = 0; i < kUnderWay; ++i) blocks.push_back(std::make_unique<storage::Pages>(kBlock));
  const auto wait_for = [&](std::size_t slot) {
    if (!ends[slot].valid()) return;
    const std::string fault = ends[slot].get();
    expect(fault.empty(), "{}", fault);
  };
  std::size_t slot = 0;
  for (const storage::DirectFile& file : files)
    for (Index at = 0; at < file.size(); at += kBlock) {
      wait_for(slot);
      const auto told = std::make_shared<std::promise<std::string>>();
      ends[slot] = told->get_future();
      const Index count = std::min(kBlock, file.size() - at);
      engine.read(file, at, blocks[slot]->bytes().first(static_cast<std::size_t>(count)),
                  [told](const std::string& fault) { told->set_value(fault); });
      slot = (slot + 1) % blocks.size();
    }
  for (std::size_t i = 0; i < blocks.size(); ++i) wait_for(i);
}

struct Readings {
  Index bytes = 0;
  TransferReadings import;
  TransferReadings raw;
  TransferReadings filled;  ///< as raw, with as much new memory as the parameters take
  TransferReadings direct;  ///< past the page cache, if cold
};

Readings measure(const Options& options) {
  const shape::ModelConfig model =
      shape::find_preset(options.model, "model", shape::preset_names());
  const Folder folder(options, model);
  const std::vector<InputFile> files = folder.files();
  Readings readings;
  for (const InputFile& file : files) readings.bytes += file.size();
  rt::Session session({.scheduler = ""});
  const shape::Layout layout = shape::cut_into_subgroups(
      shape::find_family(model.architecture).parameters(model), options.subgroup_params, {});
  const hf::ModelWeights weights(folder.path(), model);
  const auto read = [&](TransferReadings& way, Index widening) {
    const rt::HostBuffer memory(readings.bytes * widening);
    way.measure(readings.bytes, [&] { read_raw(files, memory, widening, options.threads); });
  };
  const auto load = [&] {
    const tensor::ParameterSet parameters(session, layout);
    readings.import.measure(readings.bytes, [&] { train::load_weights(weights, parameters); });
  };
  std::vector<storage::DirectFile> direct_files;
  for (const InputFile& file : files)
    direct_files.push_back(storage::DirectFile::open(file.path()));
  std::vector<std::function<void()>> ways{
      load, [&] { read(readings.raw, 1); },
      [&] { read(readings.filled, options.dtype == "bf16" ? 2 : 1); }};
  if (options.is_cold)
    ways.emplace_back(
        [&] { readings.direct.measure(readings.bytes, [&] { read_past_cache(direct_files); }); });
  // Each finds the memory that another has given back, and each is the first one in turn.
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (options.is_cold) forget(files);
      ways[(static_cast<std::size_t>(round) + i) % ways.size()]();
    }
  }
  return readings;
}

void print(const Options& options) {
  const Readings readings = measure(options);
  nlohmann::json json = comparison(readings.import, readings.raw);
  const nlohmann::json filled = comparison(readings.import, readings.filled);
  const nlohmann::json direct =
      options.is_cold ? comparison(readings.import, readings.direct) : nlohmann::json();
  const std::string words = in_words(json);
  json.update({{"filled", filled},
               {"direct", direct},
               {"model", options.model},
               {"dtype", options.dtype},
               {"cold", options.is_cold},
               {"bytes", readings.bytes}});
  if (options.is_json) {
    std::cout << json.dump() << '\n';
    return;
  }
  fmt::print("{} {} {}, {} rounds: {}\n", options.model, options.dtype,
             options.is_cold ? "from the disk" : "from the page cache", options.rounds, words);
  fmt::print("  with memory for all parameters: {}\n", in_words(filled));
  if (options.is_cold) fmt::print("  past the page cache: {}\n", in_words(direct));
}

}  // namespace
}  // namespace dos::bench

int main(int argc, char** argv) {
  dos::bench::Options options;
  dos::apps::Parser app(
      "Reads a Hugging Face folder of drawn weights into a model, and by threads that do nothing "
      "else.");
  app.add_option("--folder", options.folder, "where the model's folder is made, and removed")
      .capture_default_str();
  app.add_option("--model", options.model, "a preset").capture_default_str();
  app.add_option("--dtype", options.dtype, "of the folder: fp32 or bf16")
      .check(dos::apps::one_of({"fp32", "bf16"}))
      .capture_default_str();
  app.add_option("--subgroup-params", options.subgroup_params, "sched.subgroup_params")
      .check(dos::apps::positive())
      .capture_default_str();
  app.add_option("--threads", options.threads, "that read and do nothing else")
      .check(dos::apps::within(dos::Index{1}, dos::Index{64}))
      .capture_default_str();
  app.add_option("--rounds", options.rounds, "of each, in turn")
      .check(dos::apps::positive())
      .capture_default_str();
  app.add_flag("--cold", options.is_cold, "take the files out of the page cache before each");
  app.add_flag("--json", options.is_json, "one JSON object");
  if (const auto status = app.parse("import", argc, argv)) return *status;
  try {
    dos::bench::print(options);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("import", error);
  }
}
