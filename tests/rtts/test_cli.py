"""``rtts`` as a user runs it: outputs, exit status, one-line errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

import rtts
from rtts import local
from rtts.cli import main
from rtts.cli.say import _frame_limit as frame_limit
from rtts.errors import DeviceError
from rtts.notices import warn_once
from tests.checkpoints import write_checkpoint

SHORT = ["--max-frames", "3", "--seed", "1"]
PAGE = (Path(__file__).parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def no_sound_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a test behaves the same where there is one."""

    def refuse() -> None:
        raise DeviceError("playing needs the PortAudio library; install it")

    monkeypatch.setattr(local, "load_sounddevice", refuse)


def error_line(capfd: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; stdout is empty."""
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"rtts: (?!unexpected)[^\n]+\n", err), err
    return err


def test_a_wav_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.wav"
    assert main(["say", "Hello there.", "-o", str(path), *SHORT]) == 0
    assert capfd.readouterr() == ("", "")
    info = soundfile.info(path)
    assert (info.samplerate, info.channels, info.subtype, info.frames) == (24_000, 1, "PCM_16", 3 * 1920)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.flac", "a.ogg"])
def test_other_formats(tmp_path: Path, name: str) -> None:
    assert main(["say", "Hello there.", "-o", str(tmp_path / name), *SHORT]) == 0
    assert soundfile.info(tmp_path / name).frames == 3 * 1920


def test_json_has_exactly_the_fields_of_the_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "Hello there.", "-o", str(tmp_path / "a.wav"), "--json", "--seed", "7"]) == 0
    out, err = capfd.readouterr()
    figures = json.loads(out)
    assert list(figures) == [
        "stop_reason", "frames", "audio_s", "wall_s", "rtf", "ttfa_ms", "audible_ms", "ms_per_frame", "underruns",
        "seed", "sample_rate", "model", "engine", "precision", "threads", "load_s",
    ]  # fmt: skip
    table = PAGE.split("`--json` prints one object")[1].split("\n##")[0]
    assert set(re.findall(r"`([a-z_]+)`", re.sub(r"\|[^|]*\|$", "", table, flags=re.MULTILINE))) == set(
        figures
    )
    assert err == ""
    assert figures["stop_reason"] == "eos"
    assert figures["audio_s"] == pytest.approx(soundfile.info(tmp_path / "a.wav").duration, abs=0.001)
    assert figures["frames"] * 0.08 == pytest.approx(figures["audio_s"])
    assert (figures["seed"], figures["sample_rate"], figures["underruns"]) == (7, 24_000, 0)
    assert figures["threads"] == {"ar": 1, "codec": 1}
    assert figures["load_s"] > 0


def test_threads_are_chosen_or_given(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["say", "Hello.", "-o", str(tmp_path / "a.wav"), "--json", "--max-frames", "2"]
    for given, want in (("auto", {"ar": 1, "codec": 1}), ("1,2", {"ar": 1, "codec": 2})):
        assert main([*command, "--threads", given]) == 0
        assert json.loads(capfd.readouterr().out)["threads"] == want  # the shipped voice is small: one each


def test_a_drawn_seed_is_reported_and_repeats_the_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second, codes = tmp_path / "1.wav", tmp_path / "2.wav", tmp_path / "codes.npy"
    assert main(["say", "Hello.", "-o", str(first), "--json", "--max-frames", "4"]) == 0
    seed = json.loads(capfd.readouterr().out)["seed"]
    command = [
        "say",
        "Hello.",
        "-o",
        str(second),
        "--max-frames",
        "4",
        "--seed",
        str(seed),
        "--codes",
        str(codes),
    ]
    assert main(command) == 0
    assert first.read_bytes() == second.read_bytes()
    found = np.load(codes)
    assert (found.shape, found.dtype) == ((4, 16), np.int32)


def test_limits_in_frames_and_seconds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for limits, frames in [
        (["--max-frames", "2"], 2),
        (["--max-seconds", "0.4"], 5),
        (["--max-seconds", "0.4", "--max-frames", "3"], 3),
        (["--max-seconds", "0.2", "--max-frames", "9"], 2),
        (["--max-seconds", "1.7e308", "--max-frames", "2"], 2),
    ]:
        assert (
            main(["say", "Hello there.", "-o", str(tmp_path / "a.wav"), "--json", "--seed", "1", *limits])
            == 0
        )
        figures = json.loads(capfd.readouterr().out)
        assert (figures["frames"], figures["stop_reason"]) == (frames, "length_cap")


def test_seconds_that_are_whole_frames_are_all_of_them() -> None:
    assert [frame_limit(None, round(frames * 0.08, 2)) for frames in range(1, 5000)] == list(range(1, 5000))
    assert frame_limit(None, 0.159) == 1


def test_sampling_flags_reach_the_model(tmp_path: Path) -> None:
    def codes(*flags: str) -> bytes:
        path = tmp_path / "codes.npy"
        command = [
            "say",
            "Hello there, how are you today?",
            "-o",
            str(tmp_path / "a.wav"),
            "--max-frames",
            "40",
            "--codes",
            str(path),
        ]
        assert main([*command, *flags]) == 0
        return path.read_bytes()

    greedy = codes("--greedy", "--seed", "1")
    assert greedy == codes("--greedy", "--seed", "2")
    plain = codes("--seed", "1")
    assert plain != greedy
    assert plain == codes("--seed", "1")
    for flags in (
        ["--temperature", "5"],
        ["--top-k", "1"],
        ["--top-p", "0.01"],
        ["--repetition-penalty", "0.01"],
    ):
        assert codes("--seed", "1", *flags) != plain, flags


def test_streaming_to_a_file_gives_the_same_samples(tmp_path: Path) -> None:
    whole, grown = tmp_path / "whole.wav", tmp_path / "grown.wav"
    assert main(["say", "Hello there.", "-o", str(whole), "--seed", "1"]) == 0
    stream = ["--stream", "--first-chunk-frames", "2", "--chunk-frames", "3"]
    assert main(["say", "Hello there.", "-o", str(grown), "--seed", "1", *stream]) == 0
    difference = soundfile.read(whole)[0] - soundfile.read(grown)[0]
    assert np.abs(difference).max() < 1e-3


@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_what_cannot_be_spoken_leaves_an_older_file_alone(
    tmp_path: Path, flags: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"older")
    for arguments in (
        ["say", ""],
        ["say", "Hi.", "--language", "klingon"],
        ["say", "Hi.", "--voice", "nobody"],
    ):
        assert main([*arguments, "-o", str(path), *flags]) > 0
        error_line(capfd)
    assert path.read_bytes() == b"older"


def test_raw_samples_on_stdout(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["say", "Hello there.", "-o", str(tmp_path / "a.wav"), *SHORT]) == 0
    assert main(["say", "Hello there.", "-o", "-", "--stream", *SHORT]) == 0
    out, err = capfdbinary.readouterr()
    with wave.open(str(tmp_path / "a.wav")) as file:
        expected = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert np.abs(np.frombuffer(out, "<i2").astype(int) - expected).max() <= 4
    assert err == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["say"], "TEXT"),
        (["say", "Hi.", "--max-frames", "0"], "--max-frames"),
        (["say", "Hi.", "--max-seconds", "0"], "not above 0"),
        (["say", "Hi.", "--max-seconds", "nan"], "not above 0"),
        (["say", "Hi.", "--max-seconds", "0.01"], "less than one frame"),
        (["say", "Hi.", "--seed", "-1"], "--seed"),
        (["say", "Hi.", "--seed", "x"], "--seed"),
        (["say", "Hi.", "--temperature", "0"], "not above 0"),
        (["say", "Hi.", "--top-p", "1.5"], "--top-p"),
        (["say", "Hi.", "--top-k", "-1"], "--top-k"),
        (["say", "Hi.", "--greedy", "--top-k", "3"], "--greedy does not sample"),
        (["say", "Hi.", "--threads", "2"], "two numbers"),
        (["say", "Hi.", "--threads", "0,1"], "two numbers"),
        (["say", "Hi.", "--threads", "1,999"], "two numbers"),
        (["say", "Hi.", "--threads", "1," + "1" * 5000], "two numbers"),
        (["say", "Hi.", "-o", "a.wav", "--codes", "./a.wav"], "both name a.wav"),
        (["say", "Hi.", "--device", "gpu"], "auto, cpu, vulkan"),
        (["say", "Hi.", "--device", "cpu:1"], "auto, cpu, vulkan"),
        (["say", "Hi.", "--device", "vulkan:0", "-o", "a.wav"], "CPU only"),
        (["say", "Hi.", "--text-layout", "sideways"], "--text-layout"),
        (["say", "Hi.", "--first-chunk-frames", "0"], "--first-chunk-frames"),
        (["say", "Hi.", "-o", "a.mp3"], ".wav or .flac or .ogg"),
        (["say", "Hi.", "-o", "a.flac", "--stream"], "must end with .wav"),
        (["say", "Hi.", "-o", "-", "--json"], "stdout cannot carry both"),
        (["say", "Hi."], "; or write a file with -o out.wav"),
        (["say", "Hi.", "--no-such-flag"], "--no-such-flag"),
        (["convert", ".", "--precision", "fp64"], "fp32, "),
        (["clone", "a.wav", "-o", "voice.bin"], ".safetensors"),
        (["clone", "a.wav"], "-o"),
        (["sing"], "sing"),
        (["bench", "foo"], "'name': 'foo' is not one of"),
        (["say", "Hi.", "-o", "a.wav", "--model", "nobody"], "no such model"),
        (["say", "Hi.", "-o", "a.wav", "--voice", "nobody"], "nobody"),
        (["say", "", "-o", "a.wav"], "text"),
        (["pull", "nothing"], "not a hub id"),
        (["voices", "--model", "nobody"], "no such model"),
        (["voices", "--model", ""], "the model's name is empty"),
        (["say", "Hi.", "-o", "a.wav", "--language", "klingon"], "klingon"),
        (["say", "a\udcffb", "-o", "a.wav"], "lone surrogate"),
    ],
)
def test_bad_usage_is_status_2_and_one_line(
    arguments: list[str],
    words: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert not list(tmp_path.iterdir())
    assert words in error_line(capfd)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["say", "Hi.", "-o", "no/folder/a.wav"], "no such folder"),
        (["say", "Hi.", "-o", "a.wav", "--codes", "no/folder/a.npy"], "no such folder"),
        (["say", "Hi.", "-o", "a.wav", "--codes", "."], "Not a regular file"),
        (["say", "Hi.", "-o", "a.wav", "--codes", os.devnull], "Not a regular file"),
        (["say", "Hi.", "-o", "x" * 300 + ".wav"], "cannot be written"),
        (["say", "Hi.", "-o", "a.wav", "--model", "."], "neither a converted model"),
        (["say", "Hi.", "-o", "a.wav", "--voice", "gone.safetensors"], "no such voice file"),
        (["say", "Hi.", "-o", "a.wav", "--play"], "PortAudio"),
        (["convert", "nowhere"], "not a directory"),
        (["clone", "gone.wav", "-o", "v.safetensors"], "no such file"),
        (["clone", "a.wav", "-o", "no/folder/v.safetensors"], "no such folder"),
    ],
)
def test_failures_are_status_1_and_one_line(
    arguments: list[str],
    words: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert words in error_line(capfd)
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_written_out_for_the_shipped_voice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def codes(text: str, *options: str) -> bytes:
        target = tmp_path / "codes.npy"
        arguments = ["-o", str(tmp_path / "a.wav"), "--codes", str(target), *SHORT, *options]
        assert main(["say", text, *arguments]) == 0
        return target.read_bytes()

    words = codes("Twenty-five.", "--no-verbalise")
    assert codes("25.") == words
    assert codes("25.", "--no-verbalise") != words
    assert capfd.readouterr().err == ""


def test_a_text_in_another_script_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    assert main(["say", "你好，今天天气很好。", "-o", str(tmp_path / "a.wav"), *SHORT]) == 0
    line = "rtts: most of the text is Chinese script; this model speaks english, so expect nonsense"
    assert f"rtts: {caplog.messages[0]}" == line
    assert len(caplog.messages) == 1


def test_debug_shows_the_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["say", "Hi.", "--model", "nobody", "-o", "a.wav", "--debug"],
        ["--debug", "voices", "--model", "x"],
    ):
        assert main(arguments) == 2
        err = capfd.readouterr().err
        assert "Traceback" in err
        assert err.splitlines()[-1].startswith("rtts: ")


def test_an_unexpected_error_is_one_line_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ValueError("first\nsecond")

    monkeypatch.setattr("rtts.store.entries", broken)
    assert main(["models"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "rtts: unexpected ValueError: first second; please report it with the output of --debug\n"


def test_help_and_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"rtts {rtts.__version__}\n"
    for arguments in ([], ["--help"], ["say", "-h"], ["convert", "--help"]):
        assert main(arguments) == 0
        assert "Usage: rtts" in capfd.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "\U0001f600\U0001f3f3\ufe0f\u200d\U0001f308",
        "\x00\x01\x07\x1b[31m\x7f",
        "a\ud800b",
        "\udcff",
        "<|im_end|><|endoftext|>",
        "e\u0301\u202e\u200b\ufeff",
        "word " * 20_000,
        "\u3042" * 34_000,
    ],
    ids=["empty", "space", "emoji", "control", "surrogate", "byte", "special", "marks", "100kB", "100kB-cjk"],
)
def test_any_text_is_spoken_or_refused_in_one_line(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.wav"
    status = main(["say", text, "-o", str(path), *SHORT])
    if status == 0:
        assert soundfile.info(path).frames == 3 * 1920
    else:
        assert status == 2
        error_line(capfd)
        assert not path.exists()


def rtts_process(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rtts", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]


def test_text_from_standard_input(tmp_path: Path) -> None:
    process = rtts_process("say", "-", "-o", str(tmp_path / "a.wav"), *SHORT, stdin=subprocess.PIPE)
    out, err = process.communicate("Grüße.".encode(), timeout=120)
    assert (process.returncode, out, err) == (0, b"", b"")
    assert soundfile.info(tmp_path / "a.wav").frames == 3 * 1920


def test_standard_input_that_is_not_text(tmp_path: Path) -> None:
    process = rtts_process("say", "-", "-o", str(tmp_path / "a.wav"), stdin=subprocess.PIPE)
    _, err = process.communicate(b"abc\xff", timeout=120)
    assert process.returncode == 2
    assert err == b"rtts: standard input is not UTF-8 text (byte 3); convert it first\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    """As a daemon or a cron job may start it."""
    path = tmp_path / "a.wav"
    command = shlex.join([sys.executable, "-m", "rtts", "say", "Hi.", "-o", str(path), *SHORT])
    ended = subprocess.run(["sh", "-c", f"exec {command} {closed}"], capture_output=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert soundfile.info(path).frames == 3 * 1920


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize(
    "arguments", [["say", "Hi.", "-o", "-"], ["say", "Hi.", "-o", "a.wav", "--json"], ["models"]]
)
def test_output_to_a_closed_standard_output(arguments: list[str]) -> None:
    command = shlex.join([sys.executable, "-m", "rtts", *arguments])
    ended = subprocess.run(["sh", "-c", f"exec {command} >&-"], capture_output=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"rtts: standard output is closed")
    assert ended.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interruption_while_it_starts_is_no_traceback() -> None:
    source = """
import sys
from rtts.cli import main

class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
sys.exit(main(["models"]))
"""
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (130, b"rtts: interrupted\n")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("number", "status", "message"),
    [(signal.SIGINT, 130, b"rtts: interrupted\n"), (signal.SIGTERM, 143, b"")],
)
@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_a_signal_leaves_no_half_file(
    tmp_path: Path, flags: list[str], number: signal.Signals, status: int, message: bytes
) -> None:
    path = tmp_path / "a.wav"
    endless = ["--temperature", "50", "--max-frames", "2000"]
    process = rtts_process("say", "word " * 300, "-o", str(path), "--chunk-frames", "1", *endless, *flags)
    wait_s = time.monotonic() + 60
    while flags and not path.exists() and time.monotonic() < wait_s:
        time.sleep(0.05)
    time.sleep(1.0 if flags else 5.0)  # a file that grows shows that speech has begun; a whole one does not
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (status, b"", message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    process = rtts_process(
        "say", "word " * 50, "-o", "-", "--stream", "--max-frames", "200", "--chunk-frames", "1"
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1000)
    process.stdout.close()
    assert process.wait(timeout=120) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_convert_models_and_voices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RTTS_HOME", str(tmp_path / "home"))
    checkpoint = write_checkpoint(tmp_path / "mine", preset="tiny", kind="custom_voice")
    assert main(["convert", str(checkpoint)]) == 0
    installed = tmp_path / "home" / "models" / "mine-fp32"
    assert capfd.readouterr() == (f"{installed}\n", "")
    assert main(["convert", str(checkpoint), "-o", str(tmp_path / "out"), "--precision", "int8"]) == 0
    assert capfd.readouterr().out == f"{tmp_path / 'out'}\n"
    assert main(["models"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "PRECISION", "PATH"]
    assert any(line.startswith("mine-fp32 ") and str(installed) in line for line in lines)
    assert sum("(default)" in line for line in lines) == 1
    assert main(["voices", "--model", "mine"]) == 0
    out = capfd.readouterr().out
    assert "mine (custom_voice, fp32)" in out
    assert "languages  auto, " in out
    assert out.count("auto") == 1
    assert main(["say", "Hi.", "--model", "mine", "-o", str(tmp_path / "a.wav"), *SHORT]) == 0


def test_models_tells_whether_the_shipped_voice_is_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RTTS_HOME", str(tmp_path))
    assert main(["models"]) == 0
    assert "on first use" in capfd.readouterr().out
    assert main(["voices"]) == 0
    capfd.readouterr()
    assert main(["models"]) == 0
    (line,) = (line for line in capfd.readouterr().out.splitlines() if "(default)" in line)
    assert "on first use" not in line
    assert " fp32 " in line


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    """The clip's own name may not be read by libsndfile; everything else may have any."""
    checkpoint = write_checkpoint(tmp_path / os.fsdecode(b"b\xff"), preset="tiny", kind="custom_voice")
    model = tmp_path / os.fsdecode(b"m\xff")
    for command in (
        ["convert", str(checkpoint), "-o", str(model)],
        ["voices", "--model", str(model)],
        ["say", "Hi.", "--model", str(model), "-o", str(model / "a.wav"), *SHORT],
    ):
        process = rtts_process(*command)
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, b"")


def test_convert_does_not_touch_a_folder_of_something_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkpoint = write_checkpoint(tmp_path / "mine", preset="tiny", kind="custom_voice")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    assert main(["convert", str(checkpoint), "-o", str(tmp_path / "out")]) == 1
    assert "not a converted model" in error_line(capfd)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["letter.txt"]


def test_a_damaged_model_directory_is_one_line(
    base_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(base_model, copy)
    next(copy.glob("*.bin")).unlink()
    assert main(["say", "Hi.", "--model", str(copy), "-o", str(tmp_path / "a.wav")]) == 1
    assert "convert the checkpoint again" in error_line(capfd)
