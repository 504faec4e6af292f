"""A microphone of this machine, played by a stand-in for sounddevice; what the real one says is in its own words."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rtts.barge_in import BargeIn, Interruption, from_device
from rtts.errors import DeviceError
from tests.rtts.barge_in.sounds import silence, speech
from tests.rtts.barge_in.test_controller import speaking, with_noise

pytestmark = pytest.mark.asyncio


class FakeStream:
    """Calls back from its own thread, like PortAudio."""

    def __init__(self, owner: FakeSounddevice, options: dict[str, Any]) -> None:
        self._owner, self.options = owner, options
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        if self._owner.refuses_start:
            raise self._owner.PortAudioError("Device unavailable")
        self._thread.start()

    def close(self, ignore_errors: bool = True) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._owner.closed += 1

    def _run(self) -> None:
        pcm = np.rint(self._owner.sound * 32767).astype(np.int16)[:, None]
        block = self.options["blocksize"]
        memory = np.zeros((block, 1), np.int16)  # used again for every block
        for start in range(0, len(pcm) - block, block):
            if self._stop.wait(0.0005):
                break
            memory[:] = pcm[start : start + block]
            self.options["callback"](memory, block, None, None)
        self.options["finished_callback"]()


class FakeSounddevice(SimpleNamespace):
    class PortAudioError(Exception):
        pass

    def __init__(self, sound: np.ndarray) -> None:
        super().__init__()
        self.sound, self.closed, self.refuses_start = sound, 0, False
        self.streams: list[FakeStream] = []

    def query_devices(self, device: Any = None, kind: str | None = None) -> dict[str, Any]:
        if device == "nothing":
            raise ValueError("No input device matching 'nothing'")
        return {"default_samplerate": 16_000.0, "name": "fake", "max_input_channels": 1}

    def InputStream(self, **options: Any) -> FakeStream:  # noqa: N802 - sounddevice's name
        if options["samplerate"] == 12_345:
            raise self.PortAudioError("Invalid sample rate", -9997)
        self.streams.append(FakeStream(self, options))
        return self.streams[-1]


Install = Callable[..., FakeSounddevice]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def put(sound: np.ndarray) -> FakeSounddevice:
        fake = FakeSounddevice(sound)
        monkeypatch.setitem(sys.modules, "sounddevice", fake)
        return fake

    return put


async def test_samples_of_a_device(install: Install) -> None:
    fake = install(speech("user"))
    got: list[np.ndarray] = []
    with pytest.raises(DeviceError, match="the default microphone stopped"):
        await record(got)
    heard = np.concatenate(got)[:, 0] / 32767
    assert np.abs(heard - speech("user")[: len(heard)]).max() < 1e-4
    assert len(heard) > 2 * 16_000
    assert fake.closed == 1
    assert fake.streams[0].options["dtype"] == "int16"


async def record(into: list[np.ndarray]) -> None:
    async for samples, rate_hz in from_device():
        assert rate_hz == 16_000
        into.append(samples)


async def test_it_interrupts_and_leaves_nothing(install: Install) -> None:
    fake = install(with_noise(np.concatenate([silence(1.0), speech("user"), silence(60)])))
    async with speaking() as (session, _):
        threads = threading.active_count()
        async with BargeIn(session) as barge_in:
            waiting = asyncio.create_task(barge_in.wait())
            await asyncio.sleep(0)
            barge_in.listen(from_device())
            assert isinstance(await asyncio.wait_for(waiting, 20), Interruption)
        assert fake.closed == 1
        assert threading.active_count() == threads


async def test_a_device_that_goes_away_is_told(install: Install) -> None:
    install(silence(0.5))
    async with speaking() as (session, _), BargeIn(session) as barge_in:
        barge_in.listen(from_device("usb"))
        with pytest.raises(DeviceError, match="microphone 'usb' stopped"):
            await asyncio.wait_for(barge_in.wait(), 10)


async def test_a_busy_loop_loses_sound_and_says_so(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install(silence(5))
    device = from_device()
    await anext(device)
    while fake_runs():
        await asyncio.sleep(0.05)  # nobody asks for samples
    assert "too busy" in caplog.text
    await device.aclose()


def fake_runs() -> bool:
    return any("_run" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "nothing"}, "microphone 'nothing' cannot be opened (No input device matching"),
        ({"sample_rate_hz": 12_345}, "the default microphone cannot be opened (Invalid sample rate)"),
    ],
)
async def test_refusals(install: Install, options: dict[str, Any], words: str) -> None:
    install(silence(1))
    with pytest.raises(DeviceError) as caught:
        await anext(from_device(**options))
    assert words in str(caught.value)
    assert "python -m sounddevice" in str(caught.value)


async def test_a_device_that_does_not_start(install: Install) -> None:
    fake = install(silence(1))
    fake.refuses_start = True
    with pytest.raises(DeviceError, match=r"refuses to record \(Device unavailable\)"):
        await anext(from_device())
    assert fake.closed == 1


async def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(DeviceError, match=r"microphone cannot be used.*pip install 'rtts\[local\]'"):
        await anext(from_device())
