"""The GPT of train_bench, written as a PyTorch user would write it.

    pytorch_gpt.py SETTINGS.json

reads the first weights and the batches that train_bench wrote, then does one training step for each line on
stdin and answers with "LOSS SECONDS PEAK_BYTES".
"""

import json
import math
import os
import sys
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(c, dim=2)
        )
        if hasattr(functional, "scaled_dot_product_attention"):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(c // self.heads))
            hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = functional.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            file.seek(start + begin)
            data = numpy.frombuffer(file.read(end - begin), dtype=numpy.float32)
            yield name, torch.tensor(data).view(entry["shape"])


def load(model, path):
    """Weights are [in, out] in the file, heads a dimension of their own."""
    width = model.wte.weight.shape[1]
    tensors = dict(read_safetensors(path))

    def put(parameter, value):
        parameter.data.copy_(value.reshape(parameter.shape))

    def linear(module, weights, biases):
        # Heads are the last two dimensions of an input projection, the first two of an output projection.
        matrices = [w.reshape(width, -1) if w.shape[0] == width else w.reshape(-1, w.shape[-1]) for w in weights]
        put(module.weight, torch.cat(matrices, dim=1).t())
        put(module.bias, torch.cat([b.flatten() for b in biases]))

    def norm(module, name):
        put(module.weight, tensors.pop(name + ".weight"))
        put(module.bias, tensors.pop(name + ".bias"))

    put(model.wte.weight, tensors.pop("wte.weight"))
    put(model.wpe.weight, tensors.pop("wpe.weight"))
    norm(model.ln_f, "ln_f")
    for i, block in enumerate(model.blocks):
        def several(*names):
            return [[tensors.pop(f"h.{i}.{name}.{kind}") for name in names] for kind in ("weight", "bias")]

        norm(block.ln_1, f"h.{i}.ln_1")
        norm(block.ln_2, f"h.{i}.ln_2")
        linear(block.qkv, *several("attn.q", "attn.k", "attn.v"))
        linear(block.proj, *several("attn.c_proj"))
        linear(block.up, *several("mlp.c_fc"))
        linear(block.down, *several("mlp.c_proj"))
    if tensors:
        raise SystemExit(f"weights that this model does not have: {sorted(tensors)}")


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    # Ranks are processes, forked before there are threads; the first tells the others when to step.
    ranks, rank, commands, others = settings["ranks"], 0, sys.stdin, []
    for number in range(1, ranks):
        read_end, write_end = os.pipe()
        if os.fork() == 0:
            os.close(write_end)
            for other in others:
                other.close()
            rank, commands, others = number, os.fdopen(read_end), []
            break
        os.close(read_end)
        others.append(os.fdopen(write_end, "w"))
    torch.set_num_threads(settings["threads"])
    if ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method="file://" + settings["store"], rank=rank, world_size=ranks
        )
    model = Gpt(*(settings[key] for key in ("vocabulary", "context", "width", "layers", "heads")))
    load(model, settings["weights"])
    step_model = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    tokens = torch.from_numpy(numpy.fromfile(settings["tokens"], dtype=numpy.int32).astype(numpy.int64))
    tokens = tokens.view(-1, 2, settings["sequences"], settings["length"])

    decayed = [p for p in model.parameters() if p.dim() >= 2]
    kept = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": settings["decay"]}, {"params": kept, "weight_decay": 0}],
        lr=settings["rate"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["epsilon"],
    )
    if rank == 0:
        print(torch.__version__, flush=True)
    part = slice(rank * settings["sequences"] // ranks, (rank + 1) * settings["sequences"] // ranks)
    for number, _ in enumerate(commands):
        for other in others:
            other.write("step\n")
            other.flush()
        start = time.perf_counter()
        loss = step_model(tokens[number, 0, part], tokens[number, 1, part])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if ranks > 1:
            loss = loss.detach()
            torch.distributed.all_reduce(loss)
            loss /= ranks
        value = loss.item()
        if rank == 0:
            print(value, time.perf_counter() - start, peak_bytes(), flush=True)


main()
