// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/types.hpp"
#include "shape/adapters.hpp"

namespace dos::config {

/// The number behind the word "auto", where a key has it.
inline constexpr Index kAuto = -1;

/// The values of a training, with their defaults. The key "section.name" is the member
/// section.name; kOptions (options.hpp) says all else of it.
struct Keys {
  struct Model {
    std::string preset = "small-3m";
    Index layers = 0;
    Index width = 0;
    Index heads = 0;
    Index context = 0;
    Index vocab = 0;
    Index positions = 0;
    Index kv_heads = 0;
    Index ffn = 0;
    Index head_dim = 0;
    double rope_theta = 0;
    double rope_factor = 0;
    double rope_low_freq = 0;
    double rope_high_freq = 0;
    Index rope_context = 0;
    double norm_eps = 0;
    Index window = 0;
    std::string tied_head = "preset";
    std::string qkv_bias = "preset";
    std::string qk_norm = "preset";
  } model;
  shape::AdapterChoice lora;
  struct Data {
    std::string path;
    std::string sources;
  } data;
  struct Train {
    Index steps = 1000;
    Index stop_after = 0;
    Index batch = 8;
    Index accumulate = 1;
    Index lanes = 0;
    Index workers = 0;
    Index opencl_devices = 0;
    Index cuda_devices = -1;
    double gpu_memory = 0;
    double host_memory = 0;
    std::string fit = "error";
    double stall_timeout_s = 60;
    Index seed = 1337;
    std::string precision = "fp32";
    std::string gradient_precision = "fp32";
    std::string products = "auto";
    std::string attention = "auto";
    bool recompute = false;
    std::string activations = "keep";
    std::string activation_disks;
    Index logits_rows = 0;
    Index run_ahead = 2;
    Index validate_every = 100;
    Index validate_batches = 8;
    Index checkpoint_every = 0;
    double mtbf_hours = 24;
    double checkpoint_memory = 0;
    Index keep = 1;
    double keep_every_hours = 0;
    std::string checkpoint_local;
    Index checkpoint_copy_every = 10;
    double checkpoint_copy_rate = 0;
    Index log_every = 10;
  } train;
  struct Optim {
    std::string rule = "adamw";
    double lr = 6e-4;
    double final_lr_ratio = 0.1;
    Index warmup = 50;
    std::string schedule = "cosine";
    double weight_decay = 0.1;
    bool decay_vectors = false;
    bool decay_embeddings = false;
    std::string no_decay;
    std::string freeze;
    std::string lr_factors;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double momentum = 0.9;
    double eps = 1e-8;
    double clip = 1.0;
    std::string speculate = "off";
  } optim;
  struct Sched {
    Index subgroup_params = 5'000'000;
    Index stride = 0;
    double share = -1;
    Index window = 0;
    bool resident = true;
    bool fallback = true;
    std::string disks;
    double host_memory = kAuto;
  } sched;
  struct Dist {
    Index zero = 1;
    std::string weights;
    std::string gpu_messages = "auto";
    double timeout_s = 60;
  } dist;
};

}  // namespace dos::config
