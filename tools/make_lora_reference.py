#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what PEFT computes of tiny models with adapters of low rank: into a folder `lora` of each model
that make_hf_reference.py wrote, the adapters as PEFT's
save_pretrained() writes them, with tokens, logits, gradients and the losses of AdamW steps beside it.

Everything is computed in float64 from numbers rounded to float32, as make_hf_reference.py does. Both
matrices of a pair are random: where the second one is zero, half of the gradients are, too.
With --check, no file is written: folders that `export` made are compared with each other.

    make_lora_reference.py --output tests/reference/hf_tiny
    make_lora_reference.py --check MODEL ADAPTERS MERGED
"""

import argparse
import json
import random
import warnings
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from make_hf_reference import (BATCH, BETAS, CLIP, EPS_ADAM, SEED, WEIGHT_DECAY, InDouble, context_of,
                               described_optimizer, forward, in_double, make_tokens)

STEPS, LEARNING_RATE, DEVIATION = 40, 5e-3, 0.2

# Parts of fused matrices, all of one, none of others; ranks that no vector length divides.
ADAPTERS = {
    "gpt2": {"r": 3, "lora_alpha": 7, "target_modules": "all-linear", "fan_in_fan_out": True},
    "llama3": {"r": 4, "lora_alpha": 8},
    "mistral": {"r": 2, "lora_alpha": 5.5, "target_modules": "all-linear"},
    "qwen2": {
        "r": 5,
        "lora_alpha": 6,
        "use_rslora": True,
        "target_modules": ["k_proj", "o_proj", "up_proj", "down_proj"],
    },
    "qwen3": {"r": 3, "lora_alpha": 3, "target_modules": ["q_proj", "v_proj", "gate_proj"]},
}


def base_of(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=dtype
    )
    return model.to(dtype)


def draw(model, rng):
    """Random adapters, rounded to float32."""
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            values = [rng.gauss(0, DEVIATION) for _ in range(parameter.numel())]
            parameter.data = torch.tensor(values, dtype=torch.float32).reshape(parameter.shape)


class Reference:
    """The model with its adapters, every number of which is float64."""

    def __init__(self, folder, choices, adapters):
        self.config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
        self.weights = load_file(folder / "model.safetensors")
        self.choices = choices
        self.adapters = load_file(adapters / "adapter_model.safetensors")

    def model(self):
        config = peft.LoraConfig(task_type="CAUSAL_LM", **self.choices)
        model = peft.get_peft_model(in_double(self.config, self.weights), config).double()
        left = {name: tensor.double() for name, tensor in self.adapters.items()}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.data = left.pop(stored_name(name))
        assert not left
        return model.eval()


def train(model, tokens):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=LEARNING_RATE, betas=BETAS, eps=EPS_ADAM, weight_decay=WEIGHT_DECAY
    )
    losses, norms = [], []
    for batch in tokens:
        optimizer.zero_grad()
        loss, _ = forward(model, batch)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, CLIP)))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, norms


def stored_name(name):
    return name.replace(".default.", ".")


def write(folder):
    output = folder / "lora"
    rng = random.Random(f"{SEED} lora {folder.name}")
    config = peft.LoraConfig(task_type="CAUSAL_LM", **ADAPTERS[folder.name])
    plain = peft.get_peft_model(base_of(folder, torch.float32), config)
    draw(plain, rng)
    plain.save_pretrained(output)
    (output / "README.md").unlink(missing_ok=True)
    described = json.loads((output / "adapter_config.json").read_text())
    described["target_modules"] = (
        described["target_modules"]
        if isinstance(described["target_modules"], str)
        else sorted(described["target_modules"])
    )
    described["base_model_name_or_path"] = folder.name
    (output / "adapter_config.json").write_text(json.dumps(described, indent=1) + "\n")
    tokens = make_tokens(rng, context_of(plain.config))[:STEPS]
    reference = Reference(folder, ADAPTERS[folder.name], output)
    with InDouble():
        model = reference.model()
        loss, logits = forward(model, tokens[0])
        loss.backward()
        assert logits.dtype == torch.float64
        with model.disable_adapter():
            without, _ = forward(model, tokens[0])
        losses, norms = train(reference.model(), tokens)
    tensors = {"tokens": tokens.contiguous(), "logits": logits.detach().to(torch.float32)}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            tensors[f"gradient.{stored_name(name)}"] = parameter.grad.to(torch.float32).contiguous()
    save_file(tensors, output / "reference.safetensors")
    expected = {
        "optimizer": described_optimizer(LEARNING_RATE),
        "loss": float(loss.detach()),
        "loss_without": float(without.detach()),
        "losses": losses,
        "gradient_norms": norms,
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "peft": peft.__version__,
        },
    }
    (output / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(f"{folder.name}: loss {expected['loss']:.6f} (without {expected['loss_without']:.6f}) -> {losses[-1]:.6f}")


def check(folder, adapters, merged):
    """The distances of the logits of a model with adapters, and merged, over their norm."""
    warnings.simplefilter("error")
    # PEFT asks transformers for it, whatever the adapters are.
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing")
    vocabulary = transformers.AutoConfig.from_pretrained(folder).vocab_size
    tokens = torch.tensor([[random.Random(SEED).randrange(vocabulary) for _ in range(16)] for _ in range(BATCH)])
    with torch.no_grad():
        base = base_of(folder, torch.float32).eval()
        plain = base(tokens).logits
        adapted = peft.PeftModel.from_pretrained(base, adapters).eval()(tokens).logits
        whole = base_of(merged, torch.float32).eval()(tokens).logits
        own = peft.PeftModel.from_pretrained(base_of(folder, torch.float32), adapters).merge_and_unload()
    norm = adapted.norm()
    stored = load_file(merged / "model.safetensors")
    theirs = {n: t for n, t in own.state_dict().items() if n in stored}
    largest = max(float((stored[n].float() - t).abs().max()) for n, t in theirs.items())
    print(
        f"adapters change the logits by {float((adapted - plain).norm() / norm):.1e}; merged by export: "
        f"{float((whole - adapted).norm() / norm):.1e}; {len(theirs)} tensors differ from PEFT's own "
        f"merge by at most {largest:.1e}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--check", type=Path, nargs=3, metavar=("MODEL", "ADAPTERS", "MERGED"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.check:
        check(*arguments.check)
        return
    for name in ADAPTERS:
        write(arguments.output / name)


if __name__ == "__main__":
    main()
