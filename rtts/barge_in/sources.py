"""Where microphone sound comes from: an aiortc track of the far end, or a device of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rtts.errors import DeviceError, RequestError

if TYPE_CHECKING:
    from aiortc import MediaStreamTrack

log = logging.getLogger(__name__)

BLOCK_S = 0.01
"""Length of the blocks that are asked of a device."""
QUEUE_BLOCKS = 200
"""Blocks that wait for an event loop that is busy; they are dropped when there are more."""

Sounds = AsyncGenerator["tuple[npt.NDArray[Any], int]", None]


async def from_track(track: MediaStreamTrack) -> Sounds:
    """Samples of an inbound audio track, as (n, channels) and their rate, until it ends.

    The track is not stopped at the end: it belongs to its peer connection.

    Raises:
        RequestError: it is no audio track.
    """
    from aiortc.mediastreams import MediaStreamError

    if track.kind != "audio":
        raise RequestError(f"the track carries {track.kind}, expected audio")
    while True:
        try:
            frame: Any = await track.recv()
        except MediaStreamError:
            return
        channels = frame.layout.nb_channels
        samples = frame.to_ndarray()
        if frame.format.is_planar:
            yield samples.T, frame.sample_rate
        else:
            yield samples.reshape(-1, channels), frame.sample_rate


async def from_device(
    device: int | str | None = None, *, sample_rate_hz: int | None = None, channels: int = 1
) -> Sounds:
    """Samples of a microphone of this machine, as (n, channels) int16 and their rate, until you stop asking.

    Args:
        device: index or (part of the) name, as ``python -m sounddevice`` lists them; None is the default one.
        sample_rate_hz: None is the device's own.
        channels: to record; they are averaged later.

    Raises:
        DeviceError: there is no such microphone, it refuses, it goes away, or PortAudio is missing.
    """
    from rtts.local import load_sounddevice

    try:
        sounddevice = load_sounddevice()
    except DeviceError as error:
        raise DeviceError(f"a microphone cannot be used: {error}") from None
    loop = asyncio.get_running_loop()
    blocks: asyncio.Queue[npt.NDArray[np.int16] | None] = asyncio.Queue()

    def put(block: npt.NDArray[np.int16] | None) -> None:
        if blocks.qsize() >= QUEUE_BLOCKS:
            log.warning("the event loop is too busy for the microphone; 2 s of it are dropped")
            while not blocks.empty():
                blocks.get_nowait()
        blocks.put_nowait(block)

    def post(block: npt.NDArray[np.int16] | None) -> None:
        with contextlib.suppress(RuntimeError):  # a closed loop: nobody listens any more
            loop.call_soon_threadsafe(put, block)

    name = "the default microphone" if device is None else f"microphone {device!r}"
    try:
        found = sounddevice.query_devices(device, kind="input")
        rate_hz = sample_rate_hz or int(found["default_samplerate"])
        stream = sounddevice.InputStream(
            samplerate=rate_hz,
            channels=channels,
            dtype="int16",
            device=device,
            latency="low",
            blocksize=round(rate_hz * BLOCK_S),
            callback=lambda block, _frames, _time, _status: post(block.copy()),
            finished_callback=lambda: post(None),
        )
    except (sounddevice.PortAudioError, ValueError) as error:
        words = str(error.args[0]) if error.args else str(error)
        raise DeviceError(
            f"{name} cannot be opened ({words}); connect one, or choose of `python -m sounddevice`"
        ) from None
    try:
        try:
            stream.start()
        except sounddevice.PortAudioError as error:
            raise DeviceError(f"{name} refuses to record ({error.args[0]}); choose another one") from None
        while (block := await blocks.get()) is not None:
            yield block, rate_hz
        raise DeviceError(f"{name} stopped; is it still connected? open it again")
    finally:
        stream.close(ignore_errors=True)
