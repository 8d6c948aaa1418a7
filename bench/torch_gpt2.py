# SPDX-License-Identifier: Apache-2.0
"""GPT-2 as a user of PyTorch who wants speed would write it: what the peers train in compare_pytorch.py and
compare_deepspeed.py."""

# Shapes of the presets in src/shape/model.cpp.
PRESETS = {
    "tiny": {"layers": 2, "width": 64, "heads": 2, "context": 64, "vocab": 257},
    "small-11m": {"layers": 6, "width": 384, "heads": 6, "context": 256, "vocab": 257},
    "gpt2-124m": {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocab": 50257},
    "gpt2-355m": {"layers": 24, "width": 1024, "heads": 16, "context": 1024, "vocab": 50257},
    "gpt3-1.3b": {"layers": 24, "width": 2048, "heads": 16, "context": 2048, "vocab": 50257},
}


def make_model(shape):
    """A module that takes inputs and targets [sequences, context] and gives the mean loss. Attention is
    scaled_dot_product_attention, biases are inside the products, and the vocabulary is filled up to 64 rows."""
    import torch.nn.functional as functional
    from torch import nn

    width, heads, context = shape["width"], shape["heads"], shape["context"]
    rows = -(-shape["vocab"] // 64) * 64

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch = x.shape[0]
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (part.view(batch, context, heads, -1).transpose(1, 2) for part in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(mixed.transpose(1, 2).reshape(batch, context, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(rows, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm = nn.LayerNorm(width)
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, inputs, targets):
            x = self.tokens(inputs) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.tokens.weight)
            return functional.cross_entropy(logits.view(-1, rows), targets.view(-1))

    return Gpt2()
