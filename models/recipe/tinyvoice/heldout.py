"""Speech for the held-out sentences, by the model and by the teacher, in compact files for the judge."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .codec import CodecDecoder
from .generate import Sampling, generate
from .ids import CodecIds, prompt
from .speech import Speech
from .talker import Talker
from .tokenizer import VoiceTokenizer

log = logging.getLogger(__name__)


def compress(x: Tensor) -> npt.NDArray[np.uint8]:
    """Samples in [-1, 1] to 8-bit mu-law."""
    y = x.clamp(-1, 1)
    y = y.sign() * torch.log1p(255 * y.abs()) / np.log(256)
    out: npt.NDArray[np.uint8] = ((y + 1) * 127.5).round().to(torch.uint8).cpu().numpy()
    return out


def expand(x: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """What `compress` made, as float samples."""
    y = x.astype(np.float32) / 127.5 - 1
    out: npt.NDArray[np.float32] = (np.sign(y) * (np.power(256.0, np.abs(y)) - 1) / 255).astype(np.float32)
    return out


@dataclass(frozen=True)
class Trial:
    """One way of speaking all sentences."""

    name: str
    streaming: bool
    english: bool
    sampling: Sampling
    seed: int


@torch.no_grad()
def synthesise(
    net: Talker,
    decoder: CodecDecoder,
    tokenizer: VoiceTokenizer,
    texts: Sequence[str],
    trials: Sequence[Trial],
    speakers: int,
    longest: int,
    every: int = 1,
    batch: int = 400,
) -> tuple[dict[str, npt.NDArray[np.uint8]], dict[str, dict[str, float]]]:
    """Codes `{trial}/{line}_{speaker}` of every n-th text, and figures per trial."""
    net.eval()
    device = net.codec_head.weight.device
    ids, codec = tokenizer.text_ids, CodecIds(net.codes)
    spoken = [own for own, _ in tokenizer.encode(texts)]
    codes: dict[str, npt.NDArray[np.uint8]] = {}
    figures: dict[str, dict[str, float]] = {}
    for trial in trials:
        jobs = [(line, speaker) for speaker in range(speakers) for line in range(0, len(texts), every)]
        unfinished = frames = 0
        for i in range(0, len(jobs), batch):
            part = jobs[i : i + batch]
            prompts = [prompt(codec, ids, spoken[n], s, trial.english, trial.streaming) for n, s in part]
            out, ended = generate(net, prompts, ids.pad, longest, trial.sampling, trial.seed)
            unfinished += ended.count(False)
            for (n, s), frame_codes in zip(part, out, strict=True):
                codes[f"{trial.name}/{n}_{s}"] = frame_codes.numpy().astype(np.uint8)
                frames += len(frame_codes)
        figures[trial.name] = dict(sentences=len(jobs), unfinished=unfinished, seconds=frames * 0.08)
        log.info("%s on %s: %s", trial.name, device, figures[trial.name])
    return codes, figures


@torch.no_grad()
def decode(decoder: CodecDecoder, codes: npt.NDArray[np.uint8], device: torch.device) -> Tensor:
    """Codes (T, books) -> samples (T * 1920)."""
    if not len(codes):
        return torch.zeros(0)
    out: Tensor = decoder(torch.from_numpy(codes.astype(np.int64)).to(device).t()[None])[0]
    return out


def save_teacher(speech: Speech, path: Path, lines: Sequence[int]) -> None:
    """The teacher's held-out utterances of some lines as mu-law `{line}_{speaker}`."""
    waves = {}
    for u in np.flatnonzero(np.isin(-1 - speech.lines, lines)):
        a, b = speech.starts[u : u + 2]
        waves[f"{-1 - speech.lines[u]}_{speech.speakers[u]}"] = compress(
            speech.wave[a:b].reshape(-1).float() / 32768
        )
    np.savez(path, **waves)  # type: ignore[arg-type]
