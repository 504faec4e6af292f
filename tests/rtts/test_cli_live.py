"""``rtts say -``: standard input spoken as it arrives, and texts that no single utterance can hold."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import soundfile

from rtts import local
from rtts.audio import to_pcm16
from rtts.cli import live, main
from rtts.cli.ledger import Ledger, LedgerEngine
from rtts.cli.live import MAX_AHEAD_CHARS, live_config, pieces_of, speak
from rtts.errors import DeviceError
from rtts.stream.events import Done, Metrics
from rtts.stream.session import Session
from rtts.stream.tts import Tts
from rtts.testing import FakeEngine

TWO = "One of them is here. The other one is there."


@pytest.fixture(autouse=True)
def no_sound_card(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DeviceError("playing needs the PortAudio library; install it")

    monkeypatch.setattr(local, "load_sounddevice", refuse)


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def say(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rtts", "say", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_one_sentence_sounds_as_it_does_as_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, b"Hello there.")
    assert (
        main(["say", "-", "-o", str(tmp_path / "a.wav"), "--codes", str(tmp_path / "a.npy"), "--seed", "1"])
        == 0
    )
    assert (
        main(
            [
                "say",
                "Hello there.",
                "-o",
                str(tmp_path / "b.wav"),
                "--codes",
                str(tmp_path / "b.npy"),
                "--seed",
                "1",
            ]
        )
        == 0
    )
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    found, want = (
        soundfile.read(tmp_path / name, dtype="int16")[0].astype(int) for name in ("a.wav", "b.wav")
    )
    np.testing.assert_allclose(found, want, atol=4)  # chunk sizes differ


def test_the_sampling_flags_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--greedy", "--repetition-penalty", "1.3", "--text-layout", "streaming", "--max-frames", "12"]
    pipe(monkeypatch, b"Hello there.")
    assert main(["say", "-", "-o", str(tmp_path / "a.wav"), "--codes", str(tmp_path / "a.npy"), *flags]) == 0
    assert (
        main(
            ["say", "Hello there.", "-o", str(tmp_path / "b.wav"), "--codes", str(tmp_path / "b.npy"), *flags]
        )
        == 0
    )
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


def test_sentences_are_spoken_before_the_input_ends() -> None:
    process = say("-", "-o", "-", "--stream", "--seed", "1")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"One of them is here. The ot")
    process.stdin.flush()
    first = process.stdout.read(
        9600
    )  # blocks until 0.2 s of the first sentence exist; the input is still open
    process.stdin.write(b"her one is there.")
    rest, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert np.frombuffer(first, "<i2").any()
    assert len(rest) > 9600


@pytest.mark.parametrize("markup", ["```python\n" + "x = 1\n" * 3000 + "```\n\n", "🙂 " * 8000])
def test_long_stretches_that_are_not_spoken_do_not_hold_up_the_rest(markup: str) -> None:
    """Regression: the text behind waited for the listener to reach what has no sound, until the time-out of an hour."""
    engine, ledger = FakeEngine(), Ledger(None)
    text = f"Hello there.\n\n{markup}Good bye."

    async def run() -> None:
        config = live_config(1, 12, clean_text=True, verbalise="auto")
        async with Tts(LedgerEngine(engine, ledger)) as tts, tts.session(config=config) as session:
            await asyncio.wait_for(speak(session, pieces_of(text), [], ledger, lambda what, part: None), 300)

    asyncio.run(run())
    assert len(markup) > MAX_AHEAD_CHARS
    assert "".join(engine.spoken).split() == ["Hello", "there.", "Good", "bye."]


def test_a_long_text_is_fed_as_it_is_spoken() -> None:
    held: list[int] = []
    ledger = Ledger(None)
    text = "One sentence of several words. " * 700

    async def watched(session: Session) -> AsyncIterator[str]:
        async for piece in pieces_of(text):
            held.append(session.unspoken_chars)
            yield piece

    async def run() -> None:
        config = live_config(1, 12, clean_text=True, verbalise="auto")
        async with Tts(LedgerEngine(FakeEngine(), ledger)) as tts, tts.session(config=config) as session:
            await speak(session, watched(session), [], ledger, lambda what, part: None)
            assert session.unspoken_chars == 0

    asyncio.run(run())
    assert len(text) > 2 * MAX_AHEAD_CHARS
    assert max(held) <= MAX_AHEAD_CHARS
    assert ledger.frames == pytest.approx(len(text), rel=0.05)


def test_json_has_every_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pipe(monkeypatch, TWO.encode())
    path = tmp_path / "a.wav"
    assert main(["say", "-", "-o", str(path), "--json", "--seed", "7"]) == 0
    live = json.loads(capfd.readouterr().out)
    assert main(["say", "Hi.", "-o", str(path), "--json", "--seed", "7", "--max-frames", "2"]) == 0
    assert list(live) == list(json.loads(capfd.readouterr().out))
    assert live["stop_reason"] == "eos"
    assert live["seed"] == 7
    assert live["underruns"] == 0
    assert 0 < live["rtf"] < 20
    assert live["ms_per_frame"] > 0
    assert 0 < live["ttfa_ms"] <= live["audible_ms"]
    assert live["ttfa_ms"] <= live["wall_s"] * 1e3 + 1
    assert (
        live["frames"] * 0.08 <= live["audio_s"] <= live["frames"] * 0.08 + 0.5
    )  # the gap between sentences


def test_the_limit_holds_for_all_sentences_together(tmp_path: Path) -> None:
    process = subprocess.Popen(["yes", TWO], stdout=subprocess.PIPE)
    path = tmp_path / "a.wav"
    done = subprocess.run(
        [sys.executable, "-m", "rtts", "say", "-", "-o", str(path), "--max-frames", "40", "--json",
         "--codes", str(tmp_path / "a.npy")],
        stdin=process.stdout, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    process.kill()
    process.wait()
    figures = json.loads(done.stdout)
    assert (figures["stop_reason"], figures["frames"]) == ("length_cap", 40)
    assert np.load(tmp_path / "a.npy").shape == (40, 16)
    assert soundfile.info(path).frames >= 40 * 1920


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "there is no text to speak"),
        (b"  \n", "there is no text to speak"),
        ("🙂 ".encode(), "there is no text to speak"),
        (b"One of them is here. \xff", r"not UTF-8 text \(byte 21\)"),
        ("Grüße".encode()[:-1] + b"\xc3", r"not UTF-8 text \(byte 6\)"),
    ],
)
def test_input_that_cannot_be_spoken(
    data: bytes,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pipe(monkeypatch, data)
    assert main(["say", "-", "-o", str(tmp_path / "a.wav"), "--max-frames", "30"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(f"rtts: .*{words}.*\n", err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_while_waiting_for_a_key(tmp_path: Path) -> None:
    process = say("-", "-o", str(tmp_path / "a.wav"), "--stream")
    wait_s = time.monotonic() + 60
    while not (tmp_path / "a.wav").exists() and time.monotonic() < wait_s:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130  # with its input still open
    assert process.stdin is not None
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == b"rtts: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_a_text_longer_than_an_utterance_is_spoken_in_sentences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    long = "Hello there, my friend of many years. " * 400  # more ids than the model has frames
    process = say(long, "-o", "-", "--stream", "--seed", "1")
    assert process.stdout is not None
    assert len(process.stdout.read(4 * 24_000 * 2)) == 4 * 24_000 * 2
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    # Limited, it is an utterance like any other: its codes are those of the official package.
    path = tmp_path / "a.wav"
    assert main(["say", "Hello there. " * 200, "-o", str(path), "--max-frames", "3", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["frames"] == 3
    samples, _ = soundfile.read(path, dtype="float32")
    assert to_pcm16(samples).shape == (3 * 1920,)


def test_the_gravest_turn_is_told() -> None:
    def turns(*reasons: str) -> list[Done]:
        return [Done(reason, cast("Metrics", None)) for reason in reasons]  # type: ignore[arg-type]

    assert live._reason(turns("eos")) == "eos"
    assert live._reason(turns("length_cap", "stalled", "eos")) == "length_cap"
    assert live._reason(turns("silence", "length_cap")) == "silence"
    assert live._reason(turns("eos", "stalled")) == "stalled"
    assert live._reason(turns("silence", "slow_consumer")) == "slow_consumer"
