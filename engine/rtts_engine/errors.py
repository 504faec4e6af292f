"""The exception tree of the engine and of the streaming component.

Every message is one line that names the file, field or value at fault and the remedy, so that a
command line can print it as it is. Nothing in the packages raises a bare built-in exception for
bad input.
"""

from __future__ import annotations


class RttsError(Exception):
    """Root of every error that this project raises on purpose."""


class CheckpointError(RttsError):
    """A checkpoint directory is incomplete, damaged or of an unsupported kind."""


class ConfigError(CheckpointError):
    """A field of a JSON config is missing, of the wrong type or out of range."""


class ModelError(RttsError):
    """A converted model directory is incomplete, damaged or made by an incompatible version."""


class RuntimeSetupError(RttsError):
    """The machine or an installed package cannot run the engine (wrong ncnn wheel, no memory)."""


class AudioError(RttsError):
    """A sound file or an array of samples cannot be read or is unfit for its purpose."""


class RequestError(RttsError):
    """An argument of a synthesis request is out of range or contradicts the model's kind."""


class TextError(RequestError):
    """A text cannot be spoken (empty, lone surrogates, too long)."""


class VoiceError(RttsError):
    """A voice is unknown, unfit for this model, or its file is damaged."""


class UnfitVoiceError(VoiceError, RequestError):
    """The voice that was asked for is unknown to this model, or the model cannot speak with it or make it."""


def not_finite(what: str) -> ModelError:
    """The error for a result with NaN or infinity in it."""
    return ModelError(
        f"{what} is not finite: the weights or what they are fed with (a voice?) are "
        "damaged; see 'rtts doctor', convert the checkpoint or clone the voice again"
    )
