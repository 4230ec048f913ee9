#!/usr/bin/env python3
"""Trains the models of cuda_bench with PyTorch: the peer in bench/cuda/run.

steps:  bf16 autocast over f32 weights, torch.compile, fused AdamW, causal attention by scaled_dot_product_attention;
        prints the step's time, tokens/s and MFU by 6N + 12LCT.
losses: 200 steps in f32 or bf16 from the weights and tokens that `cuda_bench --losses FOLDER` wrote; prints both curves
        and fails if they differ by more than 1e-4 (f32) or 0.02 (bf16).
"""
import argparse
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

PEAK = 989.5e12  # dense bf16 of an H100 or H200, on paper
SHAPES = {
    "gpt2-small": dict(layers=12, width=768, heads=12, groups=12, hidden=3072, vocabulary=50257, llama=False),
    "gpt2-xl": dict(layers=48, width=1600, heads=25, groups=25, hidden=6400, vocabulary=50257, llama=False),
    "llama-1b": dict(layers=16, width=2048, heads=32, groups=8, hidden=8192, vocabulary=128256, llama=True),
    "losses": dict(layers=4, width=256, heads=4, groups=4, hidden=1024, vocabulary=8192, llama=False),
}


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads, self.groups, self.head = s["heads"], s["groups"], s["width"] // s["heads"]
        self.llama = s["llama"]
        self.qkv = nn.Linear(s["width"], (self.heads + 2 * self.groups) * self.head, bias=not self.llama)
        self.proj = nn.Linear(s["width"], s["width"], bias=not self.llama)

    def forward(self, x, rope):
        b, t, c = x.shape
        sizes = [self.heads * self.head, self.groups * self.head, self.groups * self.head]
        q, k, v = (part.view(b, t, -1, self.head).transpose(1, 2) for part in self.qkv(x).split(sizes, dim=-1))
        if rope is not None:
            q, k = rotate(q, *rope), rotate(k, *rope)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups != self.heads)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class FeedForward(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.llama = s["llama"]
        self.up = nn.Linear(s["width"], s["hidden"] * (2 if self.llama else 1), bias=not self.llama)
        self.down = nn.Linear(s["hidden"], s["width"], bias=not self.llama)

    def forward(self, x):
        h = self.up(x)
        if self.llama:
            gate, h = h.chunk(2, dim=-1)
            return self.down(F.silu(gate) * h)
        return self.down(F.gelu(h, approximate="tanh"))


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        norm = (lambda: nn.RMSNorm(s["width"], eps=1e-5)) if s["llama"] else (lambda: nn.LayerNorm(s["width"]))
        self.ln_1, self.ln_2 = norm(), norm()
        self.attn, self.mlp = Attention(s), FeedForward(s)

    def forward(self, x, rope):
        x = x + self.attn(self.ln_1(x), rope)
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, s, length, padded):
        super().__init__()
        self.shape, self.length = s, length
        self.vocabulary = (s["vocabulary"] + 127) // 128 * 128 if padded else s["vocabulary"]
        self.wte = nn.Embedding(self.vocabulary, s["width"])
        self.wpe = None if s["llama"] else nn.Embedding(length, s["width"])
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.ln_f = nn.RMSNorm(s["width"], eps=1e-5) if s["llama"] else nn.LayerNorm(s["width"])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def rope(self, device):
        if not self.shape["llama"]:
            return None
        half = self.shape["width"] // self.shape["heads"] // 2
        angles = torch.arange(self.length, device=device)[:, None] * 500000.0 ** (
            -torch.arange(half, device=device) / half)
        return angles.cos(), angles.sin()

    def forward(self, tokens, targets, rope):
        x = self.wte(tokens)
        if self.wpe is not None:
            x = x + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, rope)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.float().view(-1, self.vocabulary), targets.reshape(-1))


def optimizer_of(model):
    groups = [
        dict(params=[p for p in model.parameters() if p.dim() > 1], weight_decay=0.1),
        dict(params=[p for p in model.parameters() if p.dim() == 1], weight_decay=0.0),
    ]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)


def train_step(run, model, optimizer, tokens, targets, rope, narrow):
    with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
        loss = run(tokens, targets, rope)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def steps(o):
    torch.set_float32_matmul_precision("high")
    shape = SHAPES[o.model]
    model = Model(shape, o.length, padded=True).cuda()
    run = torch.compile(model)
    optimizer = optimizer_of(model)
    ids = torch.randint(shape["vocabulary"], (2, o.batch, o.length), device="cuda")
    rope = model.rope("cuda")
    times = []
    for step in range(o.warmup + o.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = train_step(run, model, optimizer, ids[0], ids[1], rope, narrow=True)
        torch.cuda.synchronize()
        if step >= o.warmup:
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    tokens = o.batch * o.length
    # Positions are looked up, not multiplied; the tied embedding is the output layer.
    weights = sum(p.numel() for name, p in model.named_parameters() if not name.startswith("wpe"))
    flops = tokens * (6 * weights + 12 * shape["layers"] * shape["width"] * o.length)
    row = f"| {o.model}, {o.batch} x {o.length} | {median * 1e3:.2f} | {tokens / median:.0f} | {100 * flops / median / PEAK:.2f} |"
    print(f"PyTorch {torch.__version__}, compiled, loss {loss.item():.4f}, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB\n{row}", flush=True)
    if o.table:
        with open(o.table, "a", encoding="utf-8") as table:
            table.write(row + "\n")
    return 0


def read_weights(folder):
    data = torch.frombuffer(bytearray(open(folder + "/weights.bin", "rb").read()), dtype=torch.float32)
    weights, at = {}, 0
    for line in open(folder + "/weights.txt", encoding="utf-8"):
        name, *dims = line.split()
        dims = [int(d) for d in dims]
        weights[name] = data[at:at + math.prod(dims)].view(dims)
        at += math.prod(dims)
    return weights


def load(model, weights):
    width = model.shape["width"]

    def put(parameter, value):
        assert parameter.shape == value.shape, (parameter.shape, value.shape)
        with torch.no_grad():
            parameter.copy_(value)

    put(model.wte.weight, weights["wte.weight"])
    put(model.wpe.weight, weights["wpe.weight"])
    put(model.ln_f.weight, weights["ln_f.weight"])
    put(model.ln_f.bias, weights["ln_f.bias"])
    for i, block in enumerate(model.blocks):
        own = {name[len(f"h.{i}."):]: w for name, w in weights.items() if name.startswith(f"h.{i}.")}
        for norm in ("ln_1", "ln_2"):
            put(getattr(block, norm).weight, own[norm + ".weight"])
            put(getattr(block, norm).bias, own[norm + ".bias"])
        qkv = [own[f"attn.{which}.weight"].reshape(width, width).T for which in "qkv"]
        put(block.attn.qkv.weight, torch.cat(qkv))
        put(block.attn.qkv.bias, torch.cat([own[f"attn.{which}.bias"].reshape(width) for which in "qkv"]))
        put(block.attn.proj.weight, own["attn.c_proj.weight"].reshape(width, width).T)
        put(block.attn.proj.bias, own["attn.c_proj.bias"])
        put(block.mlp.up.weight, own["mlp.c_fc.weight"].T)
        put(block.mlp.up.bias, own["mlp.c_fc.bias"])
        put(block.mlp.down.weight, own["mlp.c_proj.weight"].T)
        put(block.mlp.down.bias, own["mlp.c_proj.bias"])


def losses(o):
    torch.backends.cuda.matmul.allow_tf32 = False
    ours = [float(line) for line in open(o.folder + "/losses.txt", encoding="utf-8")]
    ids = torch.frombuffer(bytearray(open(o.folder + "/tokens.bin", "rb").read()), dtype=torch.int32)
    ids = ids.view(len(ours), 8, 257).long().cuda()
    model = Model(SHAPES["losses"], 256, padded=False)
    load(model, read_weights(o.folder))
    model = model.cuda()
    optimizer = optimizer_of(model)
    theirs = [
        train_step(model, model, optimizer, batch[:, :-1], batch[:, 1:], None, narrow=o.dtype == "bf16").item()
        for batch in ids
    ]
    for step in range(0, len(ours), 20):
        print(f"{o.dtype} step {step + 1:3}: {ours[step]:.6f} here, {theirs[step]:.6f} PyTorch")
    largest = max(abs(a - b) for a, b in zip(ours, theirs))
    bar = 0.02 if o.dtype == "bf16" else 1e-4
    good = largest <= bar
    print(f"{o.dtype}: the largest difference of {len(ours)} steps is {largest:.2e}, at most {bar} allowed"
          f"{'' if good else ': FAILED'}", flush=True)
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steps", "losses"))
    parser.add_argument("--model", choices=SHAPES, default="gpt2-small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--table", help="a file to which a row is added")
    parser.add_argument("--folder", help="what cuda_bench --losses wrote")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
    o = parser.parse_args()
    return steps(o) if o.what == "steps" else losses(o)


if __name__ == "__main__":
    sys.exit(main())
