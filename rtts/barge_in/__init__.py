"""Barge-in: a user who speaks ducks the assistant at once, and interrupts it when the speech goes on.

Pure parts with time as an argument (``BargeInMachine``, ``VoiceDetector``, ``EchoGuard``) under a thin controller
(``BargeIn``) with two kinds of microphone (``from_track``, ``from_device``). Needs the extra ``rtts[vad]``.
"""

from __future__ import annotations

from rtts.barge_in.config import BargeInConfig
from rtts.barge_in.controller import BargeIn, BargeInEvent, Ducked, Interruption, Resumed
from rtts.barge_in.echo import EchoGuard
from rtts.barge_in.frames import Frame, Framer
from rtts.barge_in.machine import BargeInMachine, Decision
from rtts.barge_in.sources import from_device, from_track
from rtts.barge_in.vad import VoiceDetector

__all__ = [
    "BargeIn",
    "BargeInConfig",
    "BargeInEvent",
    "BargeInMachine",
    "Decision",
    "Ducked",
    "EchoGuard",
    "Frame",
    "Framer",
    "Interruption",
    "Resumed",
    "VoiceDetector",
    "from_device",
    "from_track",
]
