"""The far end's microphone as an aiortc track: frames of every kind, and a real call over loopback."""

from __future__ import annotations

import asyncio
import fractions
from typing import Any

import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCPeerConnection
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from rtts.barge_in import BargeIn, Ducked, Interruption, from_track
from rtts.errors import RequestError
from tests.rtts.barge_in.sounds import noise, silence, speech
from tests.rtts.barge_in.test_controller import TEXT, speaking

pytestmark = pytest.mark.asyncio


class Microphone(MediaStreamTrack):
    """Plays samples, 20 ms a frame, in real time or as fast as they are asked for."""

    kind = "audio"

    def __init__(
        self,
        sound: np.ndarray,
        rate_hz: int = 48_000,
        form: str = "s16",
        layout: str = "mono",
        *,
        live: bool = False,
    ) -> None:
        super().__init__()
        self._pcm = np.rint(np.clip(sound, -1, 1) * 32767).astype(np.int16)
        self._rate_hz, self._form, self._layout, self._live = rate_hz, form, layout, live
        self._at = 0
        self._start_s = asyncio.get_running_loop().time()

    async def recv(self) -> AudioFrame:
        count = self._rate_hz // 50
        if self._at + count > len(self._pcm):
            raise MediaStreamError
        if self._live:
            due_s = self._start_s + (self._at + count) / self._rate_hz
            await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
        block = self._pcm[self._at : self._at + count]
        frame = AudioFrame.from_ndarray(self._as_form(block), format=self._form, layout=self._layout)
        frame.sample_rate, frame.pts = self._rate_hz, self._at
        frame.time_base = fractions.Fraction(1, self._rate_hz)
        self._at += count
        return frame

    def _as_form(self, block: np.ndarray) -> np.ndarray:
        channels = 2 if self._layout == "stereo" else 1
        data: Any = block if self._form.startswith("s16") else (block / 32768).astype(np.float32)
        planes = np.stack([data] * channels)
        return planes if self._form.endswith("p") else planes.T.reshape(1, -1).copy()


@pytest.mark.parametrize("form", ["s16", "s16p", "flt", "fltp"])
@pytest.mark.parametrize("layout", ["mono", "stereo"])
async def test_every_kind_of_frame(form: str, layout: str) -> None:
    track = Microphone(speech("user"), 16_000, form, layout)
    pieces = [(samples, rate_hz) async for samples, rate_hz in from_track(track)]
    assert {rate_hz for _, rate_hz in pieces} == {16_000}
    got = np.concatenate([samples for samples, _ in pieces])
    assert got.shape[1] == (2 if layout == "stereo" else 1)
    scale = 32767 if form.startswith("s16") else 1
    assert np.abs(got / scale - speech("user")[: len(got), None]).max() < 1e-4


async def test_video_is_refused() -> None:
    track = Microphone(silence(1))
    track.kind = "video"
    with pytest.raises(RequestError, match="video"):
        await anext(from_track(track))


async def test_it_interrupts_and_the_track_stays_the_callers() -> None:
    async with speaking() as (session, buffer), BargeIn(session) as barge_in:
        events = barge_in.events()
        track = Microphone(np.concatenate([noise(0.5, 0.0005, 48_000), speech("user", 48_000)]), live=True)
        pulling = asyncio.create_task(pull(buffer))
        barge_in.listen(from_track(track))
        found = [event async for event in events]
        pulling.cancel()
        assert [type(event) for event in found] == [Ducked, Interruption]
        assert track.readyState == "live"


async def pull(buffer: Any) -> None:
    """A sink in real time."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        buffer.pull(480)
        due_s += 0.02
        await asyncio.sleep(max(0.0, due_s - loop.time()))


async def test_a_call() -> None:
    """Opus over loopback: the user's peer sends, the assistant's peer listens."""
    user, assistant = RTCPeerConnection(), RTCPeerConnection()
    arrived: asyncio.Future[MediaStreamTrack] = asyncio.get_running_loop().create_future()
    assistant.on("track", arrived.set_result)
    user.addTrack(Microphone(np.concatenate([noise(1.0, 0.0005, 48_000), speech("user", 48_000)]), live=True))
    try:
        async with speaking() as (session, buffer), BargeIn(session) as barge_in:
            await user.setLocalDescription(await user.createOffer())
            await assistant.setRemoteDescription(user.localDescription)
            await assistant.setLocalDescription(await assistant.createAnswer())
            await user.setRemoteDescription(assistant.localDescription)
            pulling = asyncio.create_task(pull(buffer))
            waiting = asyncio.create_task(barge_in.wait())
            await asyncio.sleep(0)
            barge_in.listen(from_track(await asyncio.wait_for(arrived, 10)))
            interruption = await asyncio.wait_for(waiting, 15)
            await asyncio.sleep(0.1)
            pulling.cancel()
        assert TEXT.startswith(interruption.heard.text)
        assert (
            interruption.first_voice_s < interruption.duck_s <= interruption.commit_s <= interruption.done_s
        )
        assert buffer.last_sound_s is not None
        assert buffer.idle
    finally:
        await user.close()
        await assistant.close()
