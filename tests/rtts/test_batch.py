"""``rtts batch``: files, manifest, resuming, lines that cannot be spoken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from filelock import FileLock

import rtts
from rtts import batch as batch_module
from rtts.cli import main
from rtts_engine.model import Model
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings

OPTIONS = ["--max-frames", "4", "--seed", "5"]


def manifest(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "lines.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_every_line_is_a_file(tmp_path: Path, shipped: Model, capfd: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "Good morning.\n\nHow are you?\r\nIt rains.")
    out = tmp_path / "out"
    assert main(["batch", str(file), "-o", str(out), "--batch-size", "2", *OPTIONS]) == 0
    assert capfd.readouterr() == (f"{out / 'manifest.jsonl'}\n", "")
    names = sorted(path.name for path in out.iterdir())
    assert names == ["0001.wav", "0003.wav", "0004.wav", "manifest.jsonl"]
    rows = manifest(out)
    assert [row["line"] for row in rows] == [1, 3, 4]
    assert [row["text"] for row in rows] == ["Good morning.", "How are you?", "It rains."]
    for row in rows:
        alone = rtts.say(row["text"], model=shipped, seed=5, max_frames=4)
        got, rate = soundfile.read(out / row["file"], dtype="float32")
        assert rate == 24_000
        assert len(got) == len(alone.samples) == row["frames"] * 1920
        assert row["audio_s"] == pytest.approx(len(got) / rate, abs=1e-3)
        assert row["seed"] == 5
        np.testing.assert_allclose(got, alone.samples, atol=2e-3)


def test_a_second_run_speaks_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, out = write(tmp_path, "One.\nTwo.\nThree.\n"), tmp_path / "out"
    command = ["batch", str(file), "-o", str(out), *OPTIONS]
    assert main(command) == 0
    first = manifest(out)
    spoken: list[str] = []
    original = batch_module.speak_all

    def watched(model: Model, texts: list[str], *args: Any, **kwargs: Any) -> Any:
        spoken.extend(texts)
        return original(model, texts, *args, **kwargs)

    monkeypatch.setattr(batch_module, "speak_all", watched)
    assert main(command) == 0
    assert spoken == []
    assert manifest(out) == first
    # A missing sound, a torn manifest and a changed line; another option changes all.
    (out / "0001.wav").unlink()
    with (out / "manifest.jsonl").open("a") as stream:
        stream.write('{"line": 2, "te')
    file.write_text("One.\nTwo.\nDrei.\n")
    assert main(command) == 0
    assert spoken == ["One.", "Drei."]
    assert [row["text"] for row in manifest(out)] == ["One.", "Two.", "Drei."]
    assert manifest(out)[0] == first[0]
    spoken.clear()
    assert main(["batch", str(file), "-o", str(out), "--max-frames", "4", "--seed", "6"]) == 0
    assert spoken == ["One.", "Two.", "Drei."]


def test_a_bad_line_does_not_stop_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, out = write(tmp_path, b"One.\n\xff\xfe\n" + b"word " * 4000 + b"\nTwo.\n"), tmp_path / "out"
    assert main(["batch", str(file), "-o", str(out), *OPTIONS]) == 1
    assert [message.split(": ")[0] for message in caplog.messages] == ["line 2", "line 3"]
    rows = manifest(out)
    assert [("error" in row, row["line"]) for row in rows] == [(False, 1), (True, 2), (True, 3), (False, 4)]
    assert "not UTF-8" in rows[1]["error"]
    assert "fit into one utterance" in rows[2]["error"]
    assert sorted(path.name for path in out.glob("*.wav")) == ["0001.wav", "0004.wav"]


def test_what_is_no_file_and_no_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(tmp_path / "no.txt"), "-o", str(tmp_path / "out")]) == 1
    assert "no.txt: cannot be read" in capfd.readouterr().err
    file = write(tmp_path, "One.\n")
    assert main(["batch", str(file), "-o", str(file)]) == 1
    assert "no folder for the sounds" in capfd.readouterr().err
    assert main(["batch", str(file), "-o", str(tmp_path / "no" / "out")]) == 1
    assert "out: no folder for the sounds (No such file or directory)" in capfd.readouterr().err
    assert main(["batch", str(file), "-o", str(tmp_path / "out"), "--batch-size", "65"]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "status", "line"),
    [
        (["--voice", "nobody"], 2, "speaker 'nobody' is unknown"),
        (["--language", "klingon"], 2, "language 'klingon' is unknown"),
        (["--language", "german", "--verbalise"], 2, "verbalise writes English words"),
        (["--voice", "no.safetensors"], 1, "no such voice file"),
        (["--model", "nope"], 2, "nope: no such model"),
    ],
)
def test_what_no_line_can_be_spoken_with_changes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str], status: int, line: str
) -> None:
    file, out = write(tmp_path, "One.\nTwo.\n"), tmp_path / "out"
    command = ["batch", str(file), "-o", str(out), *OPTIONS]
    assert main([*command, *options]) == status
    err = capfd.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert not out.exists()
    assert main(command) == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert main([*command, *options]) == status
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_one_run_at_a_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, out = write(tmp_path, "One.\n"), tmp_path / "out"
    out.mkdir()
    with FileLock(out / ".batch.lock"):
        assert main(["batch", str(file), "-o", str(out), *OPTIONS]) == 1
    assert "out: another 'rtts batch' is writing here; wait for it" in capfd.readouterr().err
    assert [path.name for path in out.iterdir()] in ([], [".batch.lock"])
    assert main(["batch", str(file), "-o", str(out), *OPTIONS]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["0001.wav", "manifest.jsonl"]


def test_a_long_text_is_spoken_by_sentences(shipped: Model) -> None:
    """As ``rtts.say`` does: the same seeds, the same pauses."""
    text = "The river was quiet in the morning. " * 9
    how, settings = Manner(), Settings(seed=3)
    (spoken,) = batch_module.speak_all(shipped, [text], how, settings, batch_size=3)
    assert spoken.error is None
    want = rtts.say(text, model=shipped, seed=3)
    assert spoken.audio is not None
    assert len(spoken.audio.samples) == len(want.samples)
    np.testing.assert_allclose(spoken.audio.samples, want.samples, atol=2e-3)


def test_a_decoder_that_fails_ends_its_text(shipped: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    original = shipped.codec.decode
    calls = []

    def decode(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise MemoryError("no memory")
        return original(*args)

    monkeypatch.setattr(shipped.codec, "decode", decode)
    results = list(
        batch_module.speak_all(shipped, ["One.", "Two."], Manner(), Settings(seed=1, max_frames=2))
    )
    assert sorted(result.stop_reason for result in results) == ["error", "length_cap"]
    assert [type(r.error) for r in results if r.stop_reason == "error"] == [MemoryError]
