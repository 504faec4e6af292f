"""Batched generation with cached keys, by the official rules (penalty, suppression, top-k, at least two frames)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .ids import Prompt
from .talker import Talker


@dataclass(frozen=True)
class Sampling:
    """Settings of `generation_config.json`; temperature 0 is greedy."""

    temperature: float = 0.7
    top_k: int = 50
    sub_temperature: float = 0.7
    sub_top_k: int = 50
    repetition_penalty: float = 1.0


def _choose(logits: Tensor, temperature: float, top_k: int, random: torch.Generator) -> Tensor:
    if temperature <= 0:
        return logits.argmax(-1)
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        floor = logits.topk(top_k, -1).values[..., -1:]
        logits = logits.masked_fill(logits < floor, float("-inf"))
    return torch.multinomial(logits.softmax(-1), 1, generator=random).squeeze(-1)


@torch.inference_mode()
def generate(
    net: Talker, prompts: Sequence[Prompt], pad: int, longest: int, sampling: Sampling, seed: int
) -> tuple[list[Tensor], list[bool]]:
    """Codes (T, 16) of each prompt, and whether it ended by itself within `longest` frames."""
    device = net.codec_head.weight.device
    random = torch.Generator(device).manual_seed(seed)
    n = len(prompts)
    starts = torch.tensor([len(p.text) for p in prompts], device=device)
    longest_prompt = int(starts.max())
    room = longest_prompt + longest
    text = torch.full((n, longest_prompt), pad, device=device)
    codec = torch.full((n, longest_prompt), -1, device=device)
    trailing = torch.full((n, longest + 1), pad, device=device)
    for row, p in enumerate(prompts):
        text[row, : len(p.text)] = torch.tensor(p.text)
        codec[row, : len(p.codec)] = torch.tensor(p.codec)
        length = min(len(p.trailing), longest + 1)
        trailing[row, :length] = torch.tensor(p.trailing[:length], dtype=torch.long)
    words = net.text_projection(net.model.text_embedding.weight)
    tables = net.code_predictor.tables()
    books = net.books
    none = torch.zeros(n, longest_prompt, books - 1, dtype=torch.long, device=device)
    x = net.embed(text, codec, none, torch.zeros_like(text, dtype=torch.bool), torch.float32)
    cache = net.model.cache(n, room, x)
    at = torch.arange(longest_prompt, device=device).expand(n, -1)
    slots = torch.arange(room, device=device)
    bias = torch.where(slots <= at[..., None], 0.0, -1e9)[:, None, None]
    h = net.model.step(x, at, cache, bias)
    h = h[torch.arange(n), starts - 1]
    ids = net.ids
    frames = torch.zeros(n, longest, books, dtype=torch.long, device=device)
    lengths = torch.full((n,), longest, device=device)
    seen = torch.zeros(n, ids.vocab, dtype=torch.bool, device=device)
    for k in range(longest):
        logits = net.codec_head(h).float()
        if sampling.repetition_penalty != 1.0:
            scaled = torch.where(
                logits < 0, logits * sampling.repetition_penalty, logits / sampling.repetition_penalty
            )
            logits = torch.where(seen, scaled, logits)
        ending = logits[:, ids.eos].clone()
        logits[:, ids.vocab - 1024 :] = float("-inf")
        if k >= 2:
            logits[:, ids.eos] = ending
        first = _choose(logits, sampling.temperature, sampling.top_k, random)
        seen.scatter_(1, first[:, None], True)
        lengths = torch.where((first == ids.eos) & (lengths == longest), k, lengths)
        if bool((lengths < longest).all()):
            break
        first = first.clamp(max=net.codes - 1)
        frames[:, k, 0] = first
        frames[:, k] = _rest(net, h, first, sampling, random)
        x = net.model.codec_embedding.weight[first] + words[trailing[:, k]]
        for b in range(books - 1):
            x = x + tables[b][frames[:, k, b + 1]]
        position = (starts + k)[:, None]
        bias = torch.where(slots <= position[..., None], 0.0, -1e9)[:, None, None]
        h = net.model.step(x[:, None], position, cache, bias)[:, 0]
    ended = (lengths < longest).tolist()
    return [frames[row, : int(lengths[row])].cpu() for row in range(n)], ended


def _rest(net: Talker, h: Tensor, first: Tensor, sampling: Sampling, random: torch.Generator) -> Tensor:
    """One frame's codes (N, 16) given its first code."""
    model = net.code_predictor.model
    n = len(h)
    out = [first]
    cache = model.cache(n, net.books, h)
    slots = torch.arange(net.books, device=h.device)
    x = torch.stack([h, net.model.codec_embedding.weight[first]], 1)
    at = torch.arange(2, device=h.device).expand(n, -1)
    for b in range(net.books - 1):
        bias = torch.where(slots <= at[..., None], 0.0, -1e9)[:, None, None]
        y = model.step(x, at, cache, bias)[:, -1]
        logits = net.code_predictor.lm_head[b](y).float()
        out.append(_choose(logits, sampling.sub_temperature, sampling.sub_top_k, random))
        if b < net.books - 2:
            table = model.codec_embedding[b]
            x = table(out[-1])[:, None]
            at = at[:, -1:] + 1
    return torch.stack(out, 1)
