"""Joint training of talker and code predictor on packed rows.

Two helpers that the export drops make the model find its place in the text: the phones of the next frame are read from
the talker's state, and one head of two layers is taught to look at the text being spoken.
"""

import logging
import math
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Config
from .corpus import Line
from .graphs import Step
from .ids import CodecIds
from .rows import FIELDS, Packed, RowBuilder, TokenSet, spellings
from .speech import LABELS
from .talker import Rows, Talker
from .tokenizer import VoiceTokenizer

log = logging.getLogger(__name__)
PHONES = 178
BOOK_WEIGHTS = (2.0, 2.0, 2.0, 1.2, 1.2, 1.2, 1.2, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7)
"""Weights of the predictor's books 1 to 15: intelligibility is in the first ones."""
VALIDATION_ROWS = 32


def new_talker(cfg: Config) -> Talker:
    """A talker of the configured size with random weights."""
    return Talker(
        cfg.talker, cfg.predictor, cfg.codec.codebook_size, cfg.codec.num_quantizers, cfg.text_vocab_size
    )


class Helpers(nn.Module):
    """Training-only read-outs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.phones = nn.Linear(width, LABELS * PHONES)


@dataclass
class Batch:
    """What the loss needs, of fixed shapes."""

    rows: Rows
    codes: Tensor
    """Input codes with noise (B, L, 16)."""
    spoken: Tensor
    """(B, L): positions whose codes are fed."""
    first: Tensor
    """Code 0 to predict, end of speech, or -100 (B, L)."""
    chosen: Tensor
    """Flat positions for the predictor (N,)."""
    deep: Tensor
    """All codes of the frames to predict there (N, 16)."""
    given: Tensor
    """The same with noise, as fed to the predictor."""
    phones: Tensor
    """(N, 4)"""
    weights: Tensor
    """Weight of each code-0 id in the loss (codec vocabulary,)."""


def losses(
    net: Talker, helpers: Helpers, batch: Batch, cfg: Config, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(code 0, books 1 to 15 (15,), phones, attention)."""
    t = cfg.talker_training
    rows = batch.rows
    h, watched = net.encode_rows(rows, batch.codes, batch.spoken, dtype, t.attention_layers)
    logits = net.codec_head(h).float()
    first = F.cross_entropy(
        logits.flatten(0, 1), batch.first.flatten(), batch.weights, label_smoothing=t.label_smoothing
    )
    states = h.flatten(0, 1)[batch.chosen]
    deep_logits = net.predict(states, batch.deep, batch.given, dtype).float()
    deep = F.cross_entropy(deep_logits.flatten(0, 1), batch.deep[:, 1:].flatten(), reduction="none")
    deep = deep.view(-1, net.books - 1).mean(0)
    phones = F.cross_entropy(helpers.phones(states).float().view(-1, PHONES), batch.phones.flatten())
    at = torch.arange(rows.text.shape[1], device=h.device)
    wanted = (at >= rows.low[..., None]) & (at <= rows.high[..., None]) & (at <= at[:, None])
    counted = ((rows.low >= 0) & (rows.low <= at)).float()
    attention = torch.zeros((), device=h.device)
    for scores in watched:
        inside = torch.where(wanted, scores, -1e4).logsumexp(-1)
        missed = (scores.logsumexp(-1) - inside).clamp(max=20.0)
        attention = attention + (missed * counted).sum() / counted.sum().clamp(min=1) / len(watched)
    return first, deep, phones, attention


class TalkerTrainer:
    """Networks, optimiser and the recorded step."""

    def __init__(self, cfg: Config, device: torch.device, room: int, compiled: bool) -> None:
        self.cfg, self.t, self.device = cfg, cfg.talker_training, device
        self.cuda = device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        torch.manual_seed(cfg.seed)
        self.net = new_talker(cfg).to(device)
        self.helpers = Helpers(cfg.talker.hidden_size).to(device)
        self.average = {k: v.detach().clone() for k, v in self.net.state_dict().items()}
        self.rate = torch.tensor(0.0, device=device)
        params = [*self.net.parameters(), *self.helpers.parameters()]
        groups: list[dict[str, Any]] = [
            dict(params=[p for p in params if p.dim() > 1], weight_decay=self.t.weight_decay),
            dict(params=[p for p in params if p.dim() <= 1], weight_decay=0.0),
        ]
        self.optimiser = torch.optim.AdamW(
            groups,
            lr=self.rate if self.cuda else self.t.rate,
            betas=(0.9, 0.98),
            capturable=self.cuda,
            fused=self.cuda,
        )
        self.codes = torch.zeros(room, cfg.codec.num_quantizers, dtype=torch.uint8, device=device)
        self.phones = torch.zeros(room, LABELS, dtype=torch.uint8, device=device)
        shape = (self.t.rows, self.t.row_length)
        self.inputs = {name: torch.full(shape, -1, dtype=torch.int32, device=device) for name in FIELDS}
        self.log = torch.zeros(8, device=device)
        self.book_weights = torch.tensor(BOOK_WEIGHTS[: cfg.codec.num_quantizers - 1], device=device)
        self.book_weights /= self.book_weights.sum()
        self.loss: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = losses
        if compiled:
            self.loss = torch.compile(losses, dynamic=False)
        ids = CodecIds(cfg.codec.codebook_size)
        self.even = torch.ones(ids.vocab, device=device)
        self.weights = self.even.clone()
        self.weights[ids.eos] = self.t.end_weight
        self.step = Step(self._step, lambda: self.optimiser.zero_grad(set_to_none=True), device)

    def batch(self, fields: dict[str, Tensor], noise: float, drop: float, weights: Tensor) -> Batch:
        """Fixed-shape inputs of the loss from packed rows, with noise on the codes fed."""
        dev, ids = self.device, CodecIds(self.cfg.codec.codebook_size)
        rows = Rows(**fields)
        spoken = rows.frame >= 0
        codes = self.codes[rows.frame.clamp(min=0)].long()
        wrong = torch.rand(codes.shape, device=dev) < noise
        codes = torch.where(wrong, torch.randint(0, ids.codes, codes.shape, device=dev), codes)
        spoken = spoken & (torch.rand(spoken.shape, device=dev) >= drop)
        ahead = rows.target >= 0
        target = self.codes[rows.target.clamp(min=0)]
        first = torch.where(ahead, target[..., 0].long(), -100)
        first = torch.where(rows.target == -2, ids.eos, first)
        order = torch.rand(ahead.shape, device=dev).masked_fill(~ahead, -1.0)
        chosen = order.flatten().topk(min(self.t.predictor_frames, order.numel()), sorted=False).indices
        deep = target.flatten(0, 1)[chosen].long()
        wrong = torch.rand(deep.shape, device=dev) < noise / 2
        given = torch.where(wrong, torch.randint(0, ids.codes, deep.shape, device=dev), deep)
        phones = self.phones[rows.target.flatten()[chosen].clamp(min=0)].long()
        return Batch(rows, codes, spoken, first, chosen, deep, given, phones, weights)

    def _step(self) -> None:
        batch = self.batch(self.inputs, self.t.code_noise, self.t.frame_noise, self.weights)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.cuda, cache_enabled=False):
            first, deep, phones, attention = self.loss(self.net, self.helpers, batch, self.cfg, self.dtype)
        weighted = (deep * self.book_weights).sum()
        total = first + self.t.predictor_weight * weighted + self.t.phone_weight * phones
        total = total + self.t.attention_weight * attention
        total.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, foreach=True)
        self.optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.values()),
                [v.detach() for v in self.net.state_dict().values()],
                1 - self.t.average,
            )
            parts = (first, deep[0], deep[1], deep[2], deep[3:].mean(), phones, attention, norm)
            self.log.lerp_(torch.stack([p.detach().float() for p in parts]), 0.02)

    def warm_up(self) -> None:
        """Compile and record the step on made-up rows, then forget what that did to the weights."""
        before = [p.detach().clone() for p in (*self.net.parameters(), *self.helpers.parameters())]
        shape = self.inputs["text"].shape
        at = torch.arange(shape[1], device=self.device).expand(shape)
        made_up = dict(
            text=at % 7, codec=torch.full(shape, -1), frame=at - 12, target=torch.where(at >= 11, at - 11, -1),
            segment=torch.zeros(shape), position=at, low=(at - 5).clamp(min=-1), high=(at - 4).clamp(min=-1),
        )  # fmt: skip
        for name, value in made_up.items():
            self.inputs[name].copy_(value)
        self.net.train()
        self.step()
        with torch.no_grad():
            for p, old in zip((*self.net.parameters(), *self.helpers.parameters()), before, strict=True):
                p.copy_(old)
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()
        self.log.zero_()
        self._reset_average()

    @torch.no_grad()
    def _reset_average(self) -> None:
        for name, value in self.net.state_dict().items():
            self.average[name].copy_(value)

    def resume(self, files: list[Path]) -> None:
        """Start from saved weights (the optimiser starts anew)."""
        state = {k: v.float() for f in files for k, v in torch.load(f, map_location=self.device).items()}
        helpers = {k[8:]: state.pop(k) for k in list(state) if k.startswith("helpers.")}
        self.net.load_state_dict(state)
        if helpers:
            self.helpers.load_state_dict(helpers)
        self._reset_average()

    def save(self, folder: Path, name: str = "talker") -> None:
        """Averaged weights in float16: `talker.pt` and `talker_predictor.pt`."""
        state = {k: v.half().cpu().clone() for k, v in self.average.items()}
        deep = {k: state.pop(k) for k in list(state) if k.startswith("code_predictor")}
        state |= {f"helpers.{k}": v.half().cpu().clone() for k, v in self.helpers.state_dict().items()}
        for file, part in ((f"{name}.pt", state), (f"{name}_predictor.pt", deep)):
            torch.save(part, folder / "unfinished")
            (folder / "unfinished").replace(folder / file)

    def use_tokens(self, tokens: TokenSet) -> None:
        """Put codes and phones on the device."""
        n = len(tokens.codes)
        if n > len(self.codes):
            raise ValueError(f"{n} frames, but room for {len(self.codes)}")
        self.codes[:n].copy_(torch.from_numpy(tokens.codes))
        self.phones[:n].copy_(torch.from_numpy(tokens.phones))

    @torch.no_grad()
    def validate(self, rows: Packed) -> dict[str, float]:
        """Losses of the averaged weights on rows that are not trained on."""
        now = {k: v.detach().clone() for k, v in self.net.state_dict().items()}
        self.net.load_state_dict(self.average)
        self.net.eval()
        found = []
        for i in range(0, min(len(rows["text"]), 4 * VALIDATION_ROWS), VALIDATION_ROWS):
            fields = {
                k: torch.from_numpy(v[i : i + VALIDATION_ROWS]).to(self.device) for k, v in rows.items()
            }
            batch = self.batch(fields, 0.0, 0.0, self.even)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.cuda):
                first, deep, phones, attention = losses(self.net, self.helpers, batch, self.cfg, self.dtype)
            found.append(
                [float(v) for v in (first, deep[0], deep[1], deep[2], deep[3:].mean(), phones, attention)]
            )
        self.net.load_state_dict(now)
        self.net.train()
        return dict(
            zip(("c0", "c1", "c2", "c3", "c4-15", "phones", "attention"), np.mean(found, 0), strict=True)
        )

    def train(
        self, builder: "EpochSource", seconds: float, out: Path, steps: int | None = None, warm: int = 500
    ) -> list[dict[str, float]]:
        """Run until `seconds` have passed (or `steps` are done); returns the validation history."""
        history: list[dict[str, float]] = []
        began = saved = time.monotonic()
        n = epoch = 0
        self.net.train()
        self.net.set_dropout(self.t.dropout)
        fields = builder.next(self.device)
        order = np.random.default_rng(self.cfg.seed).permutation(len(fields["text"]))
        at = 0
        check_every = 1000 if self.cuda else 20
        while True:
            if n % 20 == 0:
                if self.cuda:
                    torch.cuda.synchronize()
                done = n / steps if steps else (time.monotonic() - began) / seconds
                if done >= 1:
                    break
                fall = self.t.rate_end + (1 - self.t.rate_end) * 0.5 * (1 + math.cos(math.pi * done))
                now = self.t.rate * min(1.0, (n + 1) / warm) * fall
                self.rate.fill_(now)
                if not self.cuda:
                    for group in self.optimiser.param_groups:
                        group["lr"] = now
            if at + self.t.rows > len(order):
                epoch += 1
                if builder.ready():
                    fields = builder.next(self.device)
                order = np.random.default_rng(self.cfg.seed + epoch).permutation(len(fields["text"]))
                at = 0
            pick = torch.from_numpy(order[at : at + self.t.rows]).to(self.device)
            for name in FIELDS:
                self.inputs[name].copy_(fields[name][pick])
            self.step()
            at += self.t.rows
            n += 1
            if n % check_every == 0:
                figures = self.validate(builder.check)
                figures |= {"step": n, "seconds": time.monotonic() - began, "epoch": epoch}
                figures |= {
                    "train_c0": float(self.log[0]),
                    "train_c1": float(self.log[1]),
                    "norm": float(self.log[7]),
                }
                history.append(figures)
                log.info("talker %s", " ".join(f"{k} {v:.3f}" for k, v in figures.items()))
                if time.monotonic() - saved > 60:
                    self.save(out)
                    saved = time.monotonic()
        took = time.monotonic() - began
        log.info(
            "talker: %d steps, %d epochs, %.1f s, %.2f ms a step", n, epoch, took, took / max(n, 1) * 1000
        )
        self.save(out)
        return history


_builder: RowBuilder | None = None


def _start_worker(build: Callable[[], RowBuilder]) -> None:
    global _builder
    _builder = build()


def _epoch(seed: int, share: float, path: str) -> str:
    assert _builder is not None
    packed = _builder.epoch(seed, share)
    np.save(path, np.stack([packed[name] for name in FIELDS]))
    return path


class EpochSource:
    """Epochs of rows, prepared by other processes."""

    def __init__(self, build: Callable[[], RowBuilder], cfg: Config, scratch: Path, workers: int) -> None:
        self._pool = None
        if workers:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, _start_worker, (build,))
        self._waiting: list[Future[str]] = []
        self._share, self._seed, self._scratch = cfg.talker_training.streaming_share, cfg.seed * 1000, scratch
        for _ in range(workers + 1 if workers else 0):
            self._order()
        own = build()
        self.check = own.rows(
            own.check,
            np.zeros(len(own.check), np.int64),
            np.arange(len(own.check)) % 2 == 0,
            np.ones(len(own.check), bool),
        )
        log.info("%d training utterances, %d for validation", len(own.train), len(own.check))
        self._own = own if workers == 0 else None

    def _order(self) -> None:
        assert self._pool is not None
        self._seed += 1
        path = str(self._scratch / f"rows{self._seed}.npy")
        self._waiting.append(self._pool.submit(_epoch, self._seed, self._share, path))

    def ready(self) -> bool:
        """Whether `next` returns at once."""
        return self._own is not None or self._waiting[0].done()

    def next(self, device: torch.device) -> dict[str, Tensor]:
        """Fields (rows, L) of a fresh epoch."""
        if self._own is not None:
            self._seed += 1
            packed = self._own.epoch(self._seed, self._share)
            return {name: torch.from_numpy(packed[name]).to(device) for name in FIELDS}
        path = self._waiting.pop(0).result()
        self._order()
        stacked = torch.from_numpy(np.load(path)).to(device)
        Path(path).unlink()
        return dict(zip(FIELDS, stacked, strict=True))

    def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class BuilderSpec:
    """Makes the same `RowBuilder` in any process; waits for the tokens if they are still being made."""

    lines: list[Line]
    tokens: Path
    tokenizer: Path
    codes: int
    length: int
    bpe_dropout: float

    def __call__(self) -> RowBuilder:
        tokenizer = VoiceTokenizer(self.tokenizer)
        variants = spellings(self.lines, tokenizer, self.bpe_dropout)
        wait_for_tokens(self.tokens)
        return RowBuilder(TokenSet.load(self.tokens), variants, tokenizer.text_ids, self.codes, self.length)


def wait_for_tokens(folder: Path) -> None:
    """Return once the codec stage has written `tokens.ready`."""
    while not (folder / "tokens.ready").exists():
        time.sleep(0.1)
