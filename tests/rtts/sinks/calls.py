"""Two aiortc peers in one process, and what is said to whom."""

from __future__ import annotations

import asyncio
import contextlib
import fractions
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import soxr
from aiortc import MediaStreamTrack, RTCPeerConnection
from aiortc.codecs.opus import OpusDecoder, OpusEncoder
from aiortc.jitterbuffer import JitterFrame
from av import AudioFrame

import rtts
from rtts.testing import FakeEngine
from rtts.webrtc import TtsTrack

OPUS_DELAY_SAMPLES = 312
"""6.5 ms at 48 kHz: libopus' look-ahead."""


class Tapped(TtsTrack):
    """Remembers what it sent, and when."""

    def __init__(self, session: rtts.Session) -> None:
        super().__init__(session)
        self.sent: list[np.ndarray] = []
        self.times: list[float] = []
        self.slots: list[int] = []

    async def recv(self) -> AudioFrame:
        frame = await super().recv()
        self.times.append(time.monotonic())
        self.slots.append(frame.pts // 960)
        self.sent.append(frame.to_ndarray()[0])
        return frame


@dataclass
class Call:
    """A call under way, seen from its far end."""

    track: MediaStreamTrack
    local: RTCPeerConnection
    remote: RTCPeerConnection

    async def hear(self, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, 960) int16 frames, (n,) arrival in monotonic seconds and (n,) pts of the next ``seconds``."""
        frames, arrivals, stamps = [], [], []
        for _ in range(round(seconds / 0.02)):
            frame = await self.track.recv()
            assert isinstance(frame, AudioFrame)
            frames.append(frame.to_ndarray().reshape(-1, 2).mean(axis=1))  # the decoder makes it stereo
            arrivals.append(time.monotonic())
            stamps.append(frame.pts)
        return np.stack(frames), np.array(arrivals), np.array(stamps)


@contextlib.asynccontextmanager
async def call(track: MediaStreamTrack) -> AsyncIterator[Call]:
    """Two peers over loopback; ``track`` is heard at the far end."""
    local, remote = RTCPeerConnection(), RTCPeerConnection()
    arrived: asyncio.Future[MediaStreamTrack] = asyncio.get_running_loop().create_future()
    remote.on("track", arrived.set_result)
    local.addTrack(track)
    try:
        await local.setLocalDescription(await local.createOffer())
        await remote.setRemoteDescription(local.localDescription)
        await remote.setLocalDescription(await remote.createAnswer())
        await local.setRemoteDescription(remote.localDescription)
        yield Call(await asyncio.wait_for(arrived, 10), local, remote)
    finally:
        await local.close()
        await remote.close()


async def spoken(text: str, engine: FakeEngine | None = None, seed: int = 1) -> np.ndarray:
    """The samples of ``text`` at 48 kHz, resampled in one pass."""
    async with rtts.Tts(engine or FakeEngine()) as tts, tts.session(seed=seed) as session:
        session.feed(text)
        session.end()
        sound = np.concatenate([chunk.samples async for chunk in session])
    return at_48_khz(sound)


def at_48_khz(sound: np.ndarray) -> np.ndarray:
    resampled = soxr.resample(sound.astype(np.float32) / 32768, 24000, 48000, quality="HQ")
    return np.clip(np.rint(resampled * 32768), -32768, 32767).astype(np.int16)


def through_opus(frames: list[np.ndarray]) -> np.ndarray:
    """(n, 960): what the far end hears of these frames when nothing is lost, late or out of order."""
    encoder, decoder = OpusEncoder(), OpusDecoder()
    heard = []
    for number, samples in enumerate(frames):
        frame = AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 48000, number * 960, fractions.Fraction(1, 48000)
        for packet in encoder.encode(frame)[0]:
            for back in decoder.decode(JitterFrame(packet, number * 960)):
                heard.append(back.to_ndarray().reshape(-1, 2).mean(axis=1))
    return np.stack(heard)


def snr_db(found: np.ndarray, want: np.ndarray) -> float:
    """Of ``found`` against ``want`` at its best volume."""
    want = want.astype(float)
    gain = np.dot(found, want) / np.dot(want, want)
    return float(10 * np.log10(np.sum((gain * want) ** 2) / np.sum((found - gain * want) ** 2)))
