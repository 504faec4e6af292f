"""From a reference clip to a voice: x-vector, and with a transcript the codes for ICL cloning."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rtts_engine.clip import checked_clip
from rtts_engine.codec_encoder import CodecEncoder
from rtts_engine.errors import UnfitVoiceError
from rtts_engine.graph import codec_encoder as encoder_graph
from rtts_engine.manifest import CODEC_ENCODER, SPEAKER_ENCODER, Manifest
from rtts_engine.manner import CloneVoice
from rtts_engine.runtime import Net
from rtts_engine.speaker import SpeakerEncoder
from rtts_engine.tensors import TensorSource
from rtts_engine.tokenizer import check_text
from rtts_engine.voice import Voice, voice_key

F32 = npt.NDArray[np.float32]


MAX_KEPT = 64
"""Voices that are kept by the hash of what they were made from: a server clones the same clip again and again."""


class VoiceCloner:
    """The two encoders of a Base model. Threads may share it."""

    def __init__(self, manifest: Manifest, tables: TensorSource, load: Callable[[str], Net]) -> None:
        """``load`` opens a graph of the model's directory by its stem, as fp32.

        Raises:
            VoiceError: the model is not a Base model, so that it cannot speak with a cloned voice.
        """
        self._source_sha256 = manifest.source_sha256
        config = manifest.config
        if config.speaker_encoder is None:
            raise UnfitVoiceError(
                f"{manifest.name} is a {manifest.kind} model and cannot clone; use a Base model"
            )
        self._speaker = SpeakerEncoder(load(SPEAKER_ENCODER), config.speaker_encoder)
        self._encoder = None
        if manifest.has(CODEC_ENCODER):
            encoder_tables = tables.with_prefix(encoder_graph.PREFIX)
            self._encoder = CodecEncoder(load(CODEC_ENCODER), config.codec, encoder_tables)
        self._kept: OrderedDict[str, CloneVoice] = OrderedDict()
        self._lock = threading.Lock()

    def clone(self, samples: F32, transcript: str | None, name: str) -> Voice:
        """A voice from a clip (n,) of mono float32 samples at 24 kHz.

        Args:
            samples: 3 to 20 s of clean speech serve best.
            transcript: what the clip says; None makes an x-vector voice.
            name: the voice's name.

        Raises:
            AudioError: the clip is too short or too long, or holds NaN or infinity.
            TextError: the transcript is no text, or holds a lone surrogate.
            VoiceError: a transcript was given, but it is empty or the model has no codec encoder.
        """
        if transcript is not None:
            check_text(transcript)
            if not transcript.strip():
                raise UnfitVoiceError("the transcript is empty; give what the clip says, or leave it out")
            if self._encoder is None:
                raise UnfitVoiceError(
                    "this model's codec has no encoder, so it clones without a transcript only"
                )
        clip = checked_clip(samples, self._speaker.minimum_samples)
        # After the checks: a kept voice must not hide that these arguments make none.
        key = voice_key(clip, transcript, self._source_sha256)
        with self._lock:
            prompt = self._kept.get(key)
        if prompt is None:
            codes = (
                self._encoder.encode(clip) if self._encoder is not None and transcript is not None else None
            )
            prompt = CloneVoice(self._speaker.embed(clip), codes, transcript)
        with self._lock:
            self._kept[key] = prompt
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return Voice(name, prompt, self._source_sha256, key)
