"""Every error that a caller of this package may want to catch."""

from __future__ import annotations

from rtts_engine.errors import (
    AudioError,
    CheckpointError,
    ConfigError,
    ModelError,
    RequestError,
    RttsError,
    RuntimeSetupError,
    TextError,
    UnfitVoiceError,
    VoiceError,
)

__all__ = [
    "AudioError",
    "CheckpointError",
    "ConfigError",
    "DeviceError",
    "DownloadError",
    "ModelError",
    "RequestError",
    "RttsError",
    "RuntimeSetupError",
    "StoreError",
    "StreamError",
    "TextError",
    "UnfitVoiceError",
    "UnknownModelError",
    "VoiceError",
]


class StoreError(RttsError):
    """A model is not installed, or the folder that models are kept in cannot be used."""


class UnknownModelError(StoreError, RequestError):
    """No model has the name that was asked for."""


class StreamError(RttsError):
    """Speech could not go on; ``__cause__`` is what happened in the talker's or the codec's thread."""


class DownloadError(StoreError):
    """A checkpoint could not be downloaded whole."""


class DeviceError(RttsError):
    """The sound device is absent or refuses to play."""
