"""A session on a sound device: a real one (PulseAudio's null sink, recorded), and unwilling ones."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

import rtts
from rtts import local
from rtts.cli import main
from rtts.errors import DeviceError, RequestError, StreamError
from rtts.local import Player, Speaker
from rtts.stream.events import PcmChunk
from rtts.stream.playback import PlaybackBuffer
from rtts.testing import FakeEngine
from tests.rtts.sinks.conftest import Pulse

TEXT = "Hello there my friend. How are you today?"


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine function; it must leave no task behind."""

    async def main() -> None:
        await asyncio.wait_for(test(), 120)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


async def spoken(text: str) -> np.ndarray:
    async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
        session.feed(text)
        session.end()
        return np.concatenate([chunk.samples async for chunk in session])


def attempts(record: Callable[[], np.ndarray]) -> Iterator[np.ndarray]:
    """Up to four recordings: with more work than cores, PulseAudio itself loses samples now and then."""
    return (record() for _ in range(4))


def contains(recorded: np.ndarray, sound: np.ndarray) -> bool:
    """Whether ``sound`` was recorded sample for sample, with silence before and behind it."""
    loud = np.flatnonzero(recorded)
    if not len(loud):
        return False
    start = int(loud[0] - np.flatnonzero(sound)[0])
    found = recorded[start : start + len(sound)]
    return np.array_equal(found, sound) and not recorded[start + len(sound) :].any()


# -- a real device ---------------------------------------------------------------------------


def test_every_sample_reaches_the_device_in_order(pulse: Pulse) -> None:
    want = asyncio.run(spoken(TEXT))

    async def play() -> None:
        async with (
            rtts.Tts(FakeEngine()) as tts,
            tts.session(seed=1) as session,
            Player(session, "pulse", latency_s=0.2) as player,
        ):
            await session.speak(tokens(TEXT))
            await player.drained()
            assert player.sample_rate_hz == 24000
            assert player.buffer.played_s == pytest.approx(len(want) / 24000)
            assert 0.01 < player.latency_s < 0.6

    @attempts
    def recorded() -> np.ndarray:
        with pulse.recording() as recording:
            run(play)
        return recording.samples

    assert any(contains(sound, want) for sound in recorded)


def test_an_interruption_is_silent_after_the_device_latency(pulse: Pulse) -> None:
    async def test() -> None:
        with pulse.recording() as recording:
            async with (
                rtts.Tts(FakeEngine()) as tts,
                tts.session(seed=1) as session,
                Player(session, "pulse") as player,
            ):
                session.feed("x" * 60 + ".")
                session.end()
                while player.buffer.played_s < 0.5:
                    await asyncio.sleep(0.005)
                heard = await session.interrupt()
                await asyncio.sleep(0.5)
                latency_s = player.latency_s
        assert 0.45 < heard.seconds < 0.8
        loud = np.flatnonzero(np.abs(recording.samples) > 50)
        played_s = (loud[-1] - loud[0]) / 24000
        # What the device held and the fade follow; nothing else does.
        assert heard.seconds - 0.1 < played_s < heard.seconds + latency_s + 0.008 + 0.1
        assert np.abs(np.diff(recording.samples[loud[-1] - 192 :].astype(int))).max() < 3000

    run(test)


def test_stop_holds_and_start_goes_on(pulse: Pulse) -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            with pulse.recording():
                player = Player(session, "pulse")
                player.start()
                session.feed("x" * 20 + ".")
                session.end()
                while player.buffer.played_s < 0.3:
                    await asyncio.sleep(0.005)
                player.stop()
                held_s = player.buffer.pulled_s
                await asyncio.sleep(0.3)
                assert player.buffer.pulled_s == held_s
                assert player.error is None
                player.start()
                await player.drained()
                assert player.buffer.played_s == pytest.approx(21 * 0.08)
                player.close()
                player.close()

    run(test)


def test_say_plays_on_the_default_device(pulse: Pulse, tmp_path: Any) -> None:
    path = tmp_path / "a.wav"

    @attempts
    def recorded() -> np.ndarray:
        with pulse.recording() as recording:
            assert main(["say", "Hi.", "--seed", "1", "--max-frames", "10", "--play", "-o", str(path)]) == 0
        return recording.samples[recording.samples != 0]  # a busy machine makes holes

    assert any(contains(sound, want[want != 0]) for sound in recorded for want in [pcm(path)])


def pcm(path: Any) -> np.ndarray:
    samples: np.ndarray = soundfile.read(path, dtype="int16")[0]
    return samples


def test_an_unknown_device_is_named_with_those_there_are(pulse: Pulse) -> None:
    with pytest.raises(DeviceError, match=r"'nonsense'.*there are .*pulse"):
        Speaker(PlaybackBuffer(), "nonsense")
    with pytest.raises(DeviceError, match="99"):
        Speaker(PlaybackBuffer(), 99)


def tokens(text: str) -> Any:
    async def pieces() -> Any:
        for start in range(0, len(text), 3):
            yield text[start : start + 3]
            await asyncio.sleep(0)

    return pieces()


# -- unwilling devices -----------------------------------------------------------------------


class PortAudioError(Exception):
    pass


class CallbackAbort(Exception):  # noqa: N818 - its name
    pass


class FakeDevice:
    """The part of sounddevice that a speaker uses."""

    PortAudioError = PortAudioError
    CallbackAbort = CallbackAbort

    def __init__(self, *, rate_hz: int = 48000, channels: int = 2, devices: int = 1) -> None:
        self.rate_hz, self.channels, self.devices = rate_hz, channels, devices
        self.calls: list[str] = []
        self.options: dict[str, Any] = {}

    def query_devices(self, device: object = None, kind: str | None = None) -> Any:
        found = {"name": "card", "max_output_channels": 2, "default_samplerate": float(self.rate_hz)}
        if kind is None:
            return [found] * self.devices
        if not self.devices:
            raise PortAudioError("Error querying device -1")
        return found

    def OutputStream(self, **options: Any) -> Any:  # noqa: N802 - its name
        if options["samplerate"] != self.rate_hz:
            raise PortAudioError("Invalid sample rate", -9997)
        if options["channels"] != self.channels:
            raise PortAudioError("Invalid number of channels", -9998)
        self.options = options
        calls = self.calls
        return SimpleNamespace(
            samplerate=float(options["samplerate"]),
            latency=0.03,
            start=lambda: calls.append("start"),
            stop=lambda: calls.append("stop"),
            close=lambda ignore_errors: calls.append("close"),
        )

    def callback(self, frames: int, *, ahead_s: float = 0.02, underflow: bool = False) -> np.ndarray:
        """What PortAudio's thread does."""
        out = np.ones((frames, self.channels), np.int16)
        times = SimpleNamespace(outputBufferDacTime=10 + ahead_s, currentTime=10.0)
        self.options["callback"](out, frames, times, SimpleNamespace(output_underflow=underflow))
        return out


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    device = FakeDevice()
    monkeypatch.setattr(local, "load_sounddevice", lambda: device)
    return device


def test_a_device_that_refuses_24_khz_mono_is_played_at_its_own_rate(card: FakeDevice) -> None:
    buffer = PlaybackBuffer()
    speaker = Speaker(buffer)
    assert speaker.sample_rate_hz == 48000
    buffer.push(PcmChunk(np.full(4800, 1000, np.int16), (0, 0), 0.0, 0))
    for _ in range(4):
        out = card.callback(480)
    assert out.shape == (480, 2)
    assert (np.abs(out - 1000) < 20).all()
    assert buffer.latency_s == pytest.approx(0.03 + (buffer.pulled_s - 0.04), abs=1e-3)
    card.callback(480, underflow=True)
    assert speaker.underflows == 1


def test_the_position_counts_what_the_device_still_holds(card: FakeDevice) -> None:
    card.rate_hz, card.channels = 24000, 1
    buffer = PlaybackBuffer()
    Speaker(buffer)
    assert buffer.latency_s == pytest.approx(0.03)
    buffer.push(PcmChunk(np.full(4800, 1000, np.int16), (0, 0), 0.0, 0))
    for _ in range(5):
        card.callback(480, ahead_s=0.05)
    assert buffer.latency_s == pytest.approx(0.07)
    assert buffer.played_s == pytest.approx(0.03)
    card.callback(480, ahead_s=0.0)  # a system that does not tell keeps the last value
    assert buffer.latency_s == pytest.approx(0.07)


def test_a_device_that_disappears_is_told(card: FakeDevice) -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session, Player(session) as player:
            session.feed(TEXT)
            session.end()
            waiting = asyncio.ensure_future(player.drained())
            await asyncio.sleep(0.05)
            assert player.error is None
            card.options["finished_callback"]()
            with pytest.raises(DeviceError, match="stopped; is it still connected"):
                await waiting
            assert isinstance(player.error, DeviceError)

    run(test)


def test_a_bug_in_the_callback_is_not_swallowed(card: FakeDevice) -> None:
    buffer = PlaybackBuffer()
    speaker = Speaker(buffer)
    buffer.take = None  # type: ignore[method-assign, assignment]
    with pytest.raises(CallbackAbort):
        card.callback(480)
    card.options["finished_callback"]()
    assert speaker.error is not None
    assert isinstance(speaker.error.__cause__, TypeError)


@pytest.mark.parametrize("why", ["the session has a sink", "the device refuses"])
def test_a_player_that_does_not_start_lets_go_of_everything(
    card: FakeDevice, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Regression: a session with another sink left the device open and playing."""

    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
            other = PlaybackBuffer()
            if why == "the session has a sink":
                session.attach(other)
            else:
                monkeypatch.setattr(Speaker, "start", refuse)
            with pytest.raises((RequestError, DeviceError), match=why):
                async with Player(session):
                    pass
            assert card.calls == ["close"]
            session.attach(other)  # it is not the player's
            await asyncio.sleep(0)

    def refuse(speaker: Speaker) -> None:
        raise DeviceError("the device refuses")

    run(test)


def test_a_failed_turn_reaches_drained(card: FakeDevice) -> None:
    async def test() -> None:
        async with (
            rtts.Tts(FakeEngine(fail_at_frame=0)) as tts,
            tts.session() as session,
            Player(session) as player,
        ):
            session.feed(TEXT)
            session.end()
            with pytest.raises(StreamError, match="told to fail"):
                await player.drained()
            assert isinstance(player.error, StreamError)

    run(test)


def test_no_device_no_portaudio_no_package(card: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    card.devices = 0
    with pytest.raises(DeviceError, match="there is no sound device here"):
        Speaker(PlaybackBuffer())
    card.devices, card.rate_hz = 1, 8000
    card.channels = 6
    with pytest.raises(DeviceError, match=r"default sound device cannot be opened \(Invalid sample rate\)"):
        Speaker(PlaybackBuffer())


@pytest.mark.parametrize(
    ("platform", "failure", "words"),
    [
        ("linux", ImportError(), r"pip install 'rtts\[local\]'"),
        ("linux", OSError("PortAudio library not found"), "libportaudio2"),
        ("darwin", OSError("PortAudio library not found"), "brew install portaudio"),
        ("win32", OSError("PortAudio library not found"), "sounddevice"),
    ],
)
def test_what_is_missing_is_named(
    platform: str, failure: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise failure

    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.setattr(local.sys, "platform", platform)
    with pytest.raises(DeviceError, match=words):
        local.load_sounddevice()


def test_a_player_of_no_session_is_refused(card: FakeDevice) -> None:
    nobody: Any = None
    with pytest.raises(RequestError, match="session is NoneType, expected"):
        Player(nobody)
