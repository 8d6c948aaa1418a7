#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT-2 shape on random tokens with DeepSpeed under one of its ways to offload the optimizer's states, and
prints versions, times of the steps that count, and peak GPU memory as one JSON object: what compare_deepspeed.py
starts. All that libraries print goes to the standard error.

The model is that of torch_gpt2.py, weights and activations in BF16. Nothing is recomputed. Parameters stay on the GPU
whole: of stage 3 only the states are offloaded."""

import argparse
import json
import os
import socket
import statistics
import sys
import time

from torch_gpt2 import PRESETS, make_model

# ZeRO-Offload as stage 3 has it and as stage 2 has it; the same with subgroups that SuperOffload updates in a process
# beside; with a part of the subgroups on the GPU (Twin-Flow).
MODES = ("zero3", "superoffload", "zero2", "twinflow")
# Of the updates, on the CPU, with SuperOffload (DeepSpeed's examples have 0.8 and 0.9).
SUPEROFFLOAD_RATIO = 0.9
# Parameters: a ratio takes whole subgroups.
SUBGROUP = 100_000_000


def zero_optimization(mode, ratio):
    """DeepSpeed's section of that name. A single GPU has nobody to share parameters with: all of them persist."""
    offload = {"device": "cpu", "pin_memory": True}
    if mode == "zero2":
        return {"stage": 2, "offload_optimizer": offload, "contiguous_gradients": True, "overlap_comm": True}
    if mode == "superoffload":
        offload |= {"super_offload": True, "ratio": SUPEROFFLOAD_RATIO, "cpuadam_cores_perc": 0.9}
    if mode == "twinflow":
        offload |= {"ratio": ratio}
    return {"stage": 3, "offload_optimizer": offload, "contiguous_gradients": True, "sub_group_size": SUBGROUP,
            # As DeepSpeed's examples for SuperOffload have it.
            "overlap_comm": mode != "superoffload", "stage3_param_persistence_threshold": 10**12,
            "stage3_max_live_parameters": 10**12}


def configuration(options):
    return {"train_micro_batch_size_per_gpu": options.batch, "gradient_accumulation_steps": options.accumulate,
            "bf16": {"enabled": True}, "gradient_clipping": 1.0, "steps_per_print": 10**9,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8,
                                                      "weight_decay": 0.1}},
            "zero_optimization": zero_optimization(options.mode, options.ratio)}


def make_engine(options, shape):
    import deepspeed
    import torch

    torch.manual_seed(1)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(options.device):
        model = make_model(shape)
    torch.set_default_dtype(before)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=configuration(options))
    if options.compile:
        engine.compile()
    return engine


def step_times(engine, options, shape, synchronize):
    """(milliseconds of each counted step, of its updates, the last loss)."""
    import torch

    steps, updates, loss = [], [], None
    for step in range(options.warmup + options.steps):
        batches = [torch.randint(shape["vocab"], (options.batch, shape["context"] + 1), device=options.device)
                   for _ in range(options.accumulate)]
        synchronize()
        start = time.perf_counter()
        for number, batch in enumerate(batches, start=1):
            loss = engine(batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
            engine.backward(loss)
            if number == options.accumulate:
                synchronize()
                passes = time.perf_counter()
            engine.step()
        synchronize()
        end = time.perf_counter()
        print(f"step {step}: {1e3 * (end - start):.1f} ms", flush=True)
        if step >= options.warmup:
            steps.append(1e3 * (end - start))
            updates.append(1e3 * (end - passes))
    return steps, updates, loss.detach().item()


def measure(options):
    import deepspeed
    import torch

    is_cuda = options.device == "cuda"
    shape = PRESETS[options.model]
    if options.context:
        shape = shape | {"context": options.context}
    engine = make_engine(options, shape)
    steps, updates, loss = step_times(engine, options, shape, torch.cuda.synchronize if is_cuda else lambda: None)
    free, total = torch.cuda.mem_get_info() if is_cuda else (0, 0)
    return {"mode": options.mode, "deepspeed": deepspeed.__version__, "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name() if is_cuda else "none",
            "ratio": options.ratio if options.mode == "twinflow" else None,
            "parameters": sum(getattr(each, "ds_numel", each.numel()) for each in engine.module.parameters()),
            "gradient_type": str(engine.get_data_types()[1]), "compiled": options.compile,
            "ms_step": statistics.median(steps), "ms_step_min": min(steps), "ms_step_max": max(steps),
            "ms_update": statistics.median(updates), "loss": loss,
            # What the GPU cannot give others any more, kernels' code and the context included.
            "gpu_gb": (total - free) / 1e9,
            "peak_gpu_gb": torch.cuda.max_memory_allocated() / 1e9 if is_cuda else 0.0}


def build_extension():
    """The CPU's optimizer: once, of which later processes take what torch keeps."""
    from deepspeed.ops.op_builder import CPUAdamBuilder

    start = time.perf_counter()
    CPUAdamBuilder().load()
    return {"extension": CPUAdamBuilder.NAME, "seconds": time.perf_counter() - start}


def environment(device):
    """DeepSpeed's, for one process, which asks nobody who else there is."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"DS_ACCELERATOR": device, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_SOCKET_IFNAME": "lo",
            "GLOO_SOCKET_IFNAME": "lo",
            # Of DeepSpeed's extensions, only the CPU's optimizer is compiled: another release of nvcc than torch has
            # does it no harm.
            "DS_SKIP_CUDA_CHECK": "1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--model", choices=PRESETS, default="gpt3-1.3b")
    parser.add_argument("--batch", type=int, default=8, help="sequences of a micro-batch")
    parser.add_argument("--accumulate", type=int, default=6, help="micro-batches a step")
    parser.add_argument("--context", type=int, default=0, help="tokens a sequence; 0: the preset's")
    parser.add_argument("--steps", type=int, default=3, help="steps that count")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them")
    parser.add_argument("--ratio", type=float, default=0.85, help="of the updates, on the CPU, with twinflow")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try this without a GPU")
    parser.add_argument("--extension", action="store_true", help="only compile DeepSpeed's optimizer for the CPU")
    parser.add_argument("--compile", action="store_true", help="compile the model")
    options = parser.parse_args()
    os.environ.update(environment(options.device))
    # Libraries print where the result is to be.
    result = os.dup(1)
    os.dup2(2, 1)
    line = json.dumps(build_extension() if options.extension else measure(options)) + "\n"
    os.write(result, line.encode())


if __name__ == "__main__":
    main()
