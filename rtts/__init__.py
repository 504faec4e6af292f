"""Realtime text to speech: Qwen3-TTS on ncnn.

The names here are imported on first use, so that ``import rtts`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtts import barge_in as barge_in
    from rtts import local as local
    from rtts import testing as testing
    from rtts import webrtc as webrtc
    from rtts.audio import Audio as Audio
    from rtts.errors import AudioError as AudioError
    from rtts.errors import CheckpointError as CheckpointError
    from rtts.errors import ConfigError as ConfigError
    from rtts.errors import DeviceError as DeviceError
    from rtts.errors import DownloadError as DownloadError
    from rtts.errors import ModelError as ModelError
    from rtts.errors import RequestError as RequestError
    from rtts.errors import RttsError as RttsError
    from rtts.errors import RuntimeSetupError as RuntimeSetupError
    from rtts.errors import StoreError as StoreError
    from rtts.errors import StreamError as StreamError
    from rtts.errors import TextError as TextError
    from rtts.errors import VoiceError as VoiceError
    from rtts.speech import load as load
    from rtts.speech import say as say
    from rtts.stream.config import StreamConfig as StreamConfig
    from rtts.stream.events import Heard as Heard
    from rtts.stream.events import PcmChunk as PcmChunk
    from rtts.stream.session import Session as Session
    from rtts.stream.tts import Tts as Tts
    from rtts.stream.tts import open as open  # noqa: A004 - the name is the interface

__version__ = "0.1.0"

_HOME = {
    "Audio": "rtts.audio",
    "AudioError": "rtts.errors",
    "CheckpointError": "rtts.errors",
    "ConfigError": "rtts.errors",
    "DeviceError": "rtts.errors",
    "DownloadError": "rtts.errors",
    "ModelError": "rtts.errors",
    "RequestError": "rtts.errors",
    "RttsError": "rtts.errors",
    "RuntimeSetupError": "rtts.errors",
    "StoreError": "rtts.errors",
    "StreamError": "rtts.errors",
    "TextError": "rtts.errors",
    "VoiceError": "rtts.errors",
    "load": "rtts.speech",
    "say": "rtts.speech",
    "Heard": "rtts.stream.events",
    "PcmChunk": "rtts.stream.events",
    "Session": "rtts.stream.session",
    "StreamConfig": "rtts.stream.config",
    "Tts": "rtts.stream.tts",
    "open": "rtts.stream.tts",
}

__all__ = ["__version__", *_HOME]


_MODULES = ("barge_in", "local", "testing", "webrtc")
"""Imported on first use, too: ``rtts.webrtc.TtsTrack`` needs its extra only then."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"rtts.{name}")
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'rtts' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
