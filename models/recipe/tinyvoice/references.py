"""References of the evaluation: the teacher's speech of the held-out sentences, and the codec's codes of it."""

import dataclasses
import logging
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from . import corpus, speech, teacher
from .codec import CodecDecoder, FrontEnd, encode
from .config import Config

log = logging.getLogger(__name__)
LONGEST_FRAMES = 400
Waves = dict[str, npt.NDArray[np.int16]]


def make(inputs: Path, codec: Path, path: Path, cfg: Config, device: torch.device) -> None:
    """Write `path`: `teacher/{line}_{speaker}` int16 at 24 kHz, whole codec frames, and `codes/...` (T, books) uint8.

    Speech that `path` already holds is kept; its codes are made anew with `codec`, a `codec.pt` of stage A or later.
    """
    waves = _stored(path) if path.exists() else _spoken(inputs, cfg, device)
    state = torch.load(codec, map_location=device)
    front, decoder = FrontEnd(cfg.codec).to(device), CodecDecoder(cfg.codec).to(device)
    for part, module in (("front", front), ("decoder", decoder)):
        module.load_state_dict({n: v.float() for n, v in state[part].items()})
    front.eval()
    out: dict[str, npt.NDArray[np.generic]] = {}
    with torch.no_grad():
        for name, wave in waves.items():
            frames = torch.from_numpy(wave).to(device).view(-1, speech.FRAME)
            codes = encode(front, decoder.quantizer, speech.mel_of(frames)[None].float())[0]
            out[f"teacher/{name}"] = wave
            out[f"codes/{name}"] = codes.t().to(torch.uint8).cpu().numpy()
    np.savez_compressed(path, **out)  # type: ignore[arg-type]
    log.info("%d utterances, %.0f s", len(waves), sum(map(len, waves.values())) / 24000)


def _stored(path: Path) -> Waves:
    stored = np.load(path)
    return {k.removeprefix("teacher/"): stored[k] for k in stored.files if k.startswith("teacher/")}


def _spoken(inputs: Path, cfg: Config, device: torch.device) -> Waves:
    """The held-out sentences by every voice, `{line}_{speaker}`."""
    torch.manual_seed(cfg.seed)
    speaker = teacher.load(inputs, inputs, device)
    heldout = corpus.Corpus([], corpus.load(inputs / "corpus.xz").heldout)
    waves: Waves = {}
    for number, voice in enumerate(cfg.teacher.voices):
        alone = dataclasses.replace(
            cfg.teacher, gains=(cfg.teacher.gains[number],), batch=4, longest_frames=LONGEST_FRAMES
        )
        style = teacher.load_voice(inputs / f"{voice}.bin", device)
        said = speech.speak(speaker, [style], heldout, alone, math.inf, cfg.seed, "no")
        starts = said.starts
        for u, line in enumerate(said.lines):
            waves[f"{-1 - line}_{number}"] = said.wave[starts[u] : starts[u + 1]].reshape(-1).cpu().numpy()
    return waves
