"""Teacher speech cut into utterances of whole codec frames, kept on the GPU with labels per frame."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from .config import TeacherConfig
from .corpus import Corpus, Line
from .features import FRAME, SUB, causal_mel
from .teacher import FRAME as TEACHER_FRAME
from .teacher import MARKS, SPACE, STOP, Teacher

log = logging.getLogger(__name__)
Array = npt.NDArray[np.int64]

LABEL_LAG = 900
"""Samples by which the teacher's durations trail its audio (measured at onsets: 35 to 40 ms)."""
LEAD = 2400
"""Samples of quiet before the first sound (100 ms): with streaming text, two text ids are known when it starts."""
TAIL = 1920
"""Samples kept after the last sound (80 ms)."""
LOUD = 0.008
"""Amplitude that counts as sound."""
FADE = 240
LABELS = 4
"""Phone labels in one codec frame (every 20 ms)."""


@dataclass(frozen=True)
class Pass:
    """Several sentences that the teacher speaks in one go."""

    speaker: int
    lines: tuple[int, ...]
    """Line numbers; held-out lines count -1, -2, ..."""
    spans: tuple[tuple[int, int], ...]
    """Phones [start, end) of each line in `phones`."""
    phones: tuple[int, ...]
    places: tuple[int, ...]


@dataclass
class Speech:
    """Utterances back to back; NF codec frames in all."""

    wave: Tensor
    """int16 (NF, 1920) at 24 kHz."""
    mel: Tensor
    """float16 (NF, 8, 80) of `features.causal_mel`."""
    phones: Tensor
    """uint8 (NF, 4)."""
    places: Tensor
    """uint8 (NF,): character of the line that is being spoken."""
    lines: Array
    """(U,) line numbers; held-out lines are negative."""
    speakers: Array
    """(U,)"""
    frames: Array
    """(U,) length of each utterance."""

    @property
    def starts(self) -> Array:
        """(U + 1,) first frame of each utterance, and the total."""
        return np.concatenate([[0], np.cumsum(self.frames)])


@dataclass
class _Parts:
    wave: list[Tensor] = field(default_factory=list)
    phones: list[Tensor] = field(default_factory=list)
    places: list[Tensor] = field(default_factory=list)
    meta: list[tuple[int, int, int]] = field(default_factory=list)
    bad: int = 0


def passes(lines: Sequence[tuple[int, Line]], speaker: int, room: int, pace: float) -> Iterator[Pass]:
    """Greedy groups whose estimated length is at most `room` teacher frames, at `pace` frames a phone."""
    chosen: list[int] = []
    spans: list[tuple[int, int]] = []
    phones: list[int] = [0]
    places: list[int] = [0]
    for number, line in lines:
        own = line.phones.tolist()
        where = line.places.tolist()
        if own[-1] not in MARKS:
            own, where = [*own, STOP], [*where, where[-1]]
        if chosen and (len(phones) + len(own) + 2) * pace + 30 > room:
            yield Pass(speaker, tuple(chosen), tuple(spans), (*phones, 0), (*places, 0))
            chosen, spans, phones, places = [], [], [0], [0]
        if chosen:
            phones.append(SPACE)
            places.append(0)
        spans.append((len(phones), len(phones) + len(own)))
        chosen.append(number)
        phones += own
        places += where
    if chosen:
        yield Pass(speaker, tuple(chosen), tuple(spans), (*phones, 0), (*places, 0))


def _collate(group: Sequence[Pass], room: int) -> tuple[Tensor, Tensor, Tensor]:
    lengths = torch.tensor([len(p.phones) for p in group])
    phones = torch.zeros(len(group), room, dtype=torch.long)
    places = torch.zeros(len(group), room, dtype=torch.uint8)
    for row, p in enumerate(group):
        phones[row, : len(p.phones)] = torch.tensor(p.phones)
        places[row, : len(p.places)] = torch.tensor(p.places, dtype=torch.uint8)
    return phones, places, lengths


@dataclass(frozen=True)
class _Cut:
    row: int
    first: int
    last: int
    begin: int
    """Sample of the pass at which the first frame starts (may lie before `first`)."""
    frames: int
    span: tuple[int, int]


def _cuts(
    group: Sequence[Pass],
    ends: Array,
    level: npt.NDArray[np.float32],
    peak: npt.NDArray[np.float32],
    room: int,
    longest: int,
) -> Iterator[tuple[Pass, int, _Cut | None]]:
    """Where each sentence lies: cut at the quietest 20 ms of the pauses around it, then trimmed to its sound."""

    def quietest(row: int, start: int, stop: int) -> int:
        if stop - start < 960:
            return (start + stop) // 2
        here = level[row, start // 60 : max(start // 60 + 1, (stop - 480) // 60)]
        return start + int(here.argmin()) * 60 + 240

    samples = ends * TEACHER_FRAME
    for row, p in enumerate(group):
        for q, (number, (start, end)) in enumerate(zip(p.lines, p.spans, strict=True)):
            if samples[row, end] > (room - 4) * TEACHER_FRAME:
                yield p, number, None
                continue
            low = 0 if q == 0 else quietest(row, int(samples[row, start - 3]), int(samples[row, start - 1]))
            high = quietest(row, int(samples[row, end - 2]), int(samples[row, end]))
            loud = np.flatnonzero(peak[row, low // 240 : high // 240] > LOUD)
            if len(loud) < 4:
                yield p, number, None
                continue
            onset = (low // 240 + int(loud[0])) * 240
            last = min(high, (low // 240 + int(loud[-1]) + 1) * 240 + TAIL)
            frames = -(-(last - (onset - LEAD) + 480) // FRAME)
            good = 5 <= frames <= longest
            yield (
                p,
                number,
                _Cut(row, max(low, onset - LEAD), last, onset - LEAD, frames, (start, end)) if good else None,
            )


def _gather(
    audio: Tensor, ends: Tensor, phones: Tensor, places: Tensor, cuts: Sequence[_Cut], gain: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Frames of all `cuts`: int16 waves (N, 1920), phone labels (N, 4), characters (N,)."""
    device = audio.device
    columns = np.array([(c.row, c.first, c.last, c.begin, c.frames, *c.span) for c in cuts])
    index = np.repeat(np.arange(len(cuts)), columns[:, 4])
    within = np.arange(len(index)) - np.repeat(np.cumsum(columns[:, 4]) - columns[:, 4], columns[:, 4])
    per = torch.from_numpy(columns[index]).to(device)
    row, first, last, start, stop = (
        per[:, 0, None],
        per[:, 1, None],
        per[:, 2, None],
        per[:, 5, None],
        per[:, 6, None],
    )
    origin = per[:, 3, None] + torch.from_numpy(within).to(device)[:, None] * FRAME
    at = origin + torch.arange(FRAME, device=device)
    edge = torch.minimum(at - first, last - 1 - at).clamp(0, FADE).float() / FADE
    wave = audio[row, at.clamp(0, audio.shape[1] - 1)] * gain[row] * edge
    wave = (wave.clamp(-1, 1) * 32767).round().to(torch.int16)

    def labels(points: Tensor) -> Tensor:
        frame = ((points + LABEL_LAG) // TEACHER_FRAME).clamp(min=0)
        return torch.searchsorted(ends[row[:, 0]], frame, right=True)

    points = origin + ((torch.arange(LABELS, device=device) + 0.5) * (FRAME // LABELS)).long()
    token = labels(points)
    inside = (token >= start) & (token < stop) & (points < last)
    width = phones.shape[1] - 1
    phone = torch.where(inside, phones[row, token.clamp(max=width)], 0).to(torch.uint8)
    middle = labels(origin + FRAME // 2)
    middle = torch.minimum(torch.maximum(middle, start), stop - 1)
    return wave, phone, places[row, middle][:, 0]


def speak(
    teacher: Teacher,
    voices: Sequence[Tensor],
    corpus: Corpus,
    cfg: TeacherConfig,
    seconds: float,
    seed: int,
    half: str,
    skip: int = 0,
) -> Speech:
    """Teacher speech of the corpus, by all voices in turn, until `seconds` have passed. Held-out lines come first.

    Every line is spoken once, by one voice; a second round swaps the voices. `half` (float16) is "no", "yes" or
    "check"; `skip` lines of each voice are left out because an earlier run with the same seed has spoken them.
    """
    device = voices[0].device
    rnd = random.Random(seed)
    parts = _Parts()
    gains = torch.tensor(cfg.gains, device=device)
    room = cfg.pass_frames
    pace = [2.75] * len(voices)
    ratio = [(0.0, 0.0)] * len(voices)
    queues: list[list[tuple[int, Line]]] = [[] for _ in voices]
    for speaker in range(len(voices)):
        queues[speaker] += [(-1 - i, line) for i, line in enumerate(corpus.heldout)]
    for swap in range(len(voices)):
        order = list(range(len(corpus.lines)))
        rnd.shuffle(order)
        for i in order:
            queues[(i + swap) % len(voices)].append((i, corpus.lines[i]))
    queues = [q[: len(corpus.heldout)] + q[len(corpus.heldout) + skip :] for q in queues]
    cursor = [0] * len(voices)
    began = time.monotonic()
    batches = 0
    while time.monotonic() - began < seconds and all(c < len(q) for c, q in zip(cursor, queues, strict=True)):
        group: list[Pass] = []
        for speaker, queue in enumerate(queues):
            wanted = cfg.batch // len(voices)
            ahead = queue[cursor[speaker] : cursor[speaker] + wanted * 40]
            for p in list(passes(ahead, speaker, room, pace[speaker]))[:wanted]:
                group.append(p)
                cursor[speaker] += len(p.lines)
        phones, places, lengths = (t.to(device) for t in _collate(group, min(room, 480)))
        styles = torch.stack([voices[p.speaker][min(len(p.phones) - 3, 509)] for p in group])
        if batches == 0 and half == "yes":
            teacher.float16 = device.type == "cuda"
        elif batches == 0 and half == "check":
            error = teacher.half_error(phones, lengths.cpu(), styles, room)
            teacher.float16 = error < 0.7
            log.info(
                "teacher: float16 differs by %.2f dB, %s", error, "used" if teacher.float16 else "not used"
            )
        audio, ends = teacher(phones, lengths.cpu(), styles, room)
        magnitude = audio.abs()
        level = F.avg_pool1d(magnitude[:, None], 480, 60)[:, 0].cpu().numpy()
        peak = F.max_pool1d(magnitude[:, None], 240, 240)[:, 0].cpu().numpy()
        cpu_ends = ends.cpu().numpy()
        kept = []
        for p, number, cut in _cuts(group, cpu_ends, level, peak, room, cfg.longest_frames):
            if cut is None:
                parts.bad += 1
            else:
                kept.append(cut)
                parts.meta.append((number, p.speaker, cut.frames))
        gain = gains[torch.tensor([p.speaker for p in group], device=device)]
        for store, value in zip(
            (parts.wave, parts.phones, parts.places),
            _gather(audio, ends, phones, places, kept, gain),
            strict=True,
        ):
            store.append(value)
        for row, p in enumerate(group):
            a, b = ratio[p.speaker]
            ratio[p.speaker] = (a + float(cpu_ends[row, len(p.phones) - 1]), b + len(p.phones))
        pace = [a / b * 1.06 for a, b in ratio]
        batches += 1
        if batches % 10 == 1:
            hours = sum(m[2] for m in parts.meta) * 0.08 / 3600
            log.info(
                "teacher: batch %d, %.2f h, %.1f s, pace %s",
                batches,
                hours,
                time.monotonic() - began,
                np.round(pace, 2),
            )
    wave = torch.cat(parts.wave)
    meta = np.array(parts.meta, np.int64)
    took = time.monotonic() - began
    log.info(
        "teacher: %d utterances, %.2f h, %d dropped, %.1f s, %.0f x real time",
        len(meta), len(wave) * 0.08 / 3600, parts.bad, took, len(wave) * 0.08 / took,
    )  # fmt: skip
    return Speech(
        wave,
        mel_of(wave),
        torch.cat(parts.phones),
        torch.cat(parts.places),
        meta[:, 0],
        meta[:, 1],
        meta[:, 2],
    )


def mel_of(wave: Tensor, block: int = 4000) -> Tensor:
    """float16 (NF, 8, 80) log-mel patches of int16 frames (NF, 1920)."""
    mel = torch.empty(len(wave), SUB, 80, device=wave.device, dtype=torch.float16)
    for i in range(0, len(wave), block):
        before = max(0, i - 1)
        x = wave[before : i + block].reshape(1, -1).float() / 32768
        mel[i : i + block] = causal_mel(x)[0, i - before :].half()
    return mel


def write_wave(path: Path, samples: Tensor) -> None:
    """16-bit mono file at 24 kHz from float samples in [-1, 1]."""
    import wave as wavefile

    with wavefile.open(str(path), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(24000)
        f.writeframes((samples.clamp(-1, 1) * 32767).round().to(torch.int16).cpu().numpy().tobytes())
