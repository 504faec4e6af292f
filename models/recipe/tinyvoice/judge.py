"""Word error rate of spoken held-out sentences during the training; `python -m bench.voice` judges a finished voice."""

import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import corpus
from .config import Config
from .heldout import expand
from .recogniser import Recogniser
from .wer import errors

log = logging.getLogger(__name__)


def run(
    folder: Path, heldout: Path, cfg: Config, what: list[str], every: int, show: bool
) -> dict[str, float]:
    """Judge `spoken_waves.npz` (`teacher.npz` for "teacher", resynthesis for "codec"); returns the error rates."""
    texts = corpus.read_heldout(heldout)
    clips: dict[str, npt.NDArray[np.float32]] = {}
    if "teacher" in what:
        clips |= {f"teacher/{k}": expand(v) for k, v in np.load(folder / "teacher.npz").items()}
    if "codec" in what:
        clips |= _resynthesis(folder, cfg, every)
    trials = [w for w in what if w not in ("teacher", "codec")]
    if trials or not what:
        stored = np.load(folder / "spoken_waves.npz")
        clips |= {k: expand(stored[k]) for k in stored.files if not trials or k.split("/")[0] in trials}
    recogniser = Recogniser(threads=2)
    tally: dict[str, list[int]] = {}
    for name in sorted(clips, key=lambda k: (k.split("/")[0], int(k.split("/")[1].split("_")[0]))):
        trial, rest = name.split("/")
        line, speaker = (int(v) for v in rest.split("_"))
        if line % every:
            continue
        kind, text = texts[line]
        heard = recogniser.hear(clips[name]) if len(clips[name]) > 2400 else ""
        wrong, total = errors(text, heard)
        if show and wrong:
            log.info("%s %d: %s | %s", name, wrong, text, heard)
        for group in (trial, f"{trial} {cfg.teacher.speakers[speaker]}", f"{trial} {kind}"):
            t = tally.setdefault(group, [0, 0, 0])
            t[0] += wrong
            t[1] += total
            t[2] += 1
    rates = {k: v[0] / v[1] for k, v in tally.items()}
    for k in sorted(rates):
        log.info("WER %-28s %.3f (%d clips)", k, rates[k], tally[k][2])
    return rates


def _resynthesis(folder: Path, cfg: Config, every: int) -> dict[str, npt.NDArray[np.float32]]:
    import torch

    from .codec import CodecDecoder
    from .heldout import decode
    from .rows import TokenSet

    decoder = CodecDecoder(cfg.codec).eval()
    decoder.load_state_dict(
        {k: v.float() for k, v in torch.load(folder / "codec.pt", map_location="cpu")["decoder"].items()}
    )
    part = np.load(folder / "tokens0.npz")
    tokens = TokenSet(
        *(part[k] for k in ("codes", "phones", "places")),
        *(part[k].astype(int) for k in ("lines", "speakers", "frames")),
    )
    starts = np.concatenate([[0], np.cumsum(tokens.frames)])
    device = torch.device("cpu")
    return {
        f"codec/{-1 - tokens.lines[u]}_{tokens.speakers[u]}": decode(
            decoder, tokens.codes[starts[u] : starts[u + 1]], device
        ).numpy()
        for u in np.flatnonzero((tokens.lines < 0) & ((-1 - tokens.lines) % every == 0))
    }
