"""The clips of an evaluation: which there are, how each is made, heard and measured, and what is kept of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import soundfile

from bench.voice import pitch, quality, recipe, sound, spectra
from rtts.speech import manner
from rtts_engine.manner import TextLayout
from rtts_engine.model import Model, Threads
from rtts_engine.request import Settings, SpeechRequest

F32 = npt.NDArray[np.float32]
Record = dict[str, Any]

RATE_HZ = 24000
STREAMS = 16
"""Streams in one pass of the talker."""
Part = Literal["spoken", "measured", "mos", "heard"]
"""What a record is made of: how the clip was made, levels and clicks, opinion scores, the transcript."""
LAYOUTS = ("full", "streaming")
TEACHER, CODEC = "teacher", "codec"


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip: a row of the tables, a line of the held-out sentences, a speaker, a seed (0 for references)."""

    row: str
    """``full`` or ``streaming`` text by the model; ``teacher``; ``codec``: the teacher's codes decoded by the model."""
    line: int
    speaker: int
    seed: int = 0

    @property
    def name(self) -> str:
        """Unique among the clips of a model."""
        return f"{self.row}-{self.line}-{self.speaker}-{self.seed}"


def plan(lines: list[int], seeds: list[int], speakers: int, every_speaker: bool) -> Iterator[Clip]:
    """The model's clips, seed by seed. Speakers alternate with line and seed unless ``every_speaker``."""
    for seed in seeds:
        for line in lines:
            chosen = range(speakers) if every_speaker else [(line + seed) % speakers]
            for speaker in chosen:
                for row in LAYOUTS:
                    yield Clip(row, line, speaker, seed)


class References:
    """The teacher's clips and the codec's codes of them: ``python -m tinyvoice references`` makes the file."""

    def __init__(self, path: Path) -> None:
        self._file = np.load(path)
        names = [name.split("/")[1] for name in self._file.files if name.startswith("teacher/")]
        self.keys = sorted((int(line), int(speaker)) for line, speaker in (n.split("_") for n in names))
        """(line, speaker) of what there is."""

    def wave(self, line: int, speaker: int) -> F32:
        """(n,) samples of the teacher."""
        samples: F32 = self._file[f"teacher/{line}_{speaker}"].astype(np.float32) / np.float32(32768)
        return samples

    def codes(self, line: int, speaker: int) -> npt.NDArray[np.int32]:
        """(T, 16) codes of the same clip."""
        return np.asarray(self._file[f"codes/{line}_{speaker}"], np.int32)

    def fingerprint(self, part: Literal["teacher", "codes"]) -> str:
        """Of all clips, or of all codes: what was heard in the teacher's clips stays true whatever the codec."""
        digest = hashlib.sha256()
        for line, speaker in self.keys:
            digest.update(self._file[f"{part}/{line}_{speaker}"].tobytes())
        return digest.hexdigest()[:12]

    def clips(self, lines: list[int], every_speaker: bool) -> Iterator[Clip]:
        """Teacher and codec clips of these lines, by the speakers that the model's clips with seed 0 have."""
        speakers = 1 + max(speaker for _, speaker in self.keys)
        for line, speaker in self.keys:
            if line in lines and (every_speaker or speaker == line % speakers):
                yield Clip(TEACHER, line, speaker)
                yield Clip(CODEC, line, speaker)

    def lengths_s(self) -> dict[tuple[int, int], float]:
        """Seconds of every (line, speaker)."""
        return {key: len(self.wave(*key)) / RATE_HZ for key in self.keys}


class Studio:
    """Makes, hears and measures clips. One per process."""

    def __init__(self, model: Path, references: Path | None) -> None:
        self._model = Model.load(model, threads=Threads(ar=1, codec=1))
        self._references = References(references) if references else None
        self._recogniser: recipe.Recogniser | None = None
        self._mos = quality.Mos()
        self._texts = recipe.sentences()

    def talk(self, clips: Sequence[Clip], folder: Path) -> list[tuple[Clip, Record]]:
        """Codes of many of the model's clips, several streams in one pass, kept as ``<name>.npz`` in ``folder``.

        Returns the part ``spoken`` of each. Codes are those that the clip has when it is spoken alone.
        """
        frames: dict[int, list[npt.NDArray[np.int32]]] = {row: [] for row in range(len(clips))}
        records = []
        for event in self._model.batch((self.request(clip) for clip in clips), STREAMS):
            if event.codes is not None:
                frames[event.row].append(event.codes)
                continue
            if event.error is not None:
                raise event.error
            clip, codes = clips[event.row], np.array(frames.pop(event.row), np.int32).reshape(-1, 16)
            np.savez_compressed(folder / f"{clip.name}.npz", codes=codes, stop=str(event.stop_reason))
            records.append((clip, {"spoken": {"frames": len(codes), "stop": event.stop_reason}}))
        return records

    def work(self, clip: Clip, path: Path, parts: Collection[Part]) -> Record:
        """Parts of a clip's record; its sound is kept at ``path``, and made if ``spoken`` is among the parts."""
        record: Record = {}
        if "spoken" in parts:
            samples, record["spoken"] = self._make(clip, path.with_suffix(".npz"))
            soundfile.write(path, samples, RATE_HZ, subtype="PCM_16")
        samples = soundfile.read(path, dtype="float32")[0]
        if "measured" in parts:
            record["measured"] = self._measure(clip, samples)
        if "mos" in parts:
            record["mos"] = self._mos(samples, RATE_HZ)
        if "heard" in parts:
            self._recogniser = self._recogniser or recipe.Recogniser(threads=1)
            record["heard"] = self._recogniser.hear(samples) if len(samples) > RATE_HZ // 10 else ""
        return record

    def _make(self, clip: Clip, talked: Path) -> tuple[F32, Record]:
        if clip.row in LAYOUTS and talked.exists():
            stored = np.load(talked)
            codes, reason = stored["codes"], stored["stop"].item()
        elif clip.row in LAYOUTS:
            frames = self._model.frames(self.request(clip))
            codes = np.array(list(frames), np.int32).reshape(-1, 16)
            reason = frames.stop_reason
        else:
            assert self._references is not None
            reason = "eos"
            if clip.row == TEACHER:
                wave = self._references.wave(clip.line, clip.speaker)
                return wave, {"frames": len(wave) // sound.FRAME, "stop": reason}
            codes = self._references.codes(clip.line, clip.speaker)
        state = self._model.codec_state()
        samples = self._model.codec.decode(state, codes) if len(codes) else np.zeros(0, np.float32)
        return samples, {"frames": len(codes), "stop": reason}

    def request(self, clip: Clip) -> SpeechRequest:
        """The clip's request: default sampling, no language tag, as ``rtts say`` and sessions make it."""
        speaker = self._model.manifest.speakers[clip.speaker]
        layout: TextLayout = "streaming" if clip.row == "streaming" else "full"
        settings = Settings(text_layout=layout, seed=clip.seed)
        return SpeechRequest(self._texts[clip.line][1], manner(speaker), settings)

    def _measure(self, clip: Clip, samples: F32) -> Record:
        joins, controls = sound.joins(samples), sound.controls(samples)
        measured: Record = {
            **asdict(sound.levels(samples)),
            **{f"pitch_{key}": value for key, value in asdict(pitch.describe(samples, RATE_HZ)).items()},
            "rolloff_hz": spectra.rolloff_hz(samples) if len(samples) > spectra.FFT else 0.0,
            "start_peak": sound.start_peak(samples),
            "end_step": sound.end_step(samples),
            "joins": len(joins),
            "join_clicks": sound.clicks(samples, joins),
            "controls": len(controls),
            "control_clicks": sound.clicks(samples, controls),
        }
        if clip.row == CODEC:
            assert self._references is not None
            original = self._references.wave(clip.line, clip.speaker)
            measured["mel_error_db"] = spectra.error_db(samples, original)
            measured |= quality.intelligibility(original, samples, RATE_HZ)
        return {key: round(v, 6) if isinstance(v, float) else v for key, v in measured.items()}
