"""``rtts bench``: figures that mean what they say, of engines whose speed is known; and the command around them."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path

import pytest

from rtts import StreamConfig, Tts, cli
from rtts.bench import barge_in, codec, latency, long, plots, rig, throughput
from rtts.bench import run as run_module
from rtts.bench.run import PLOTS
from rtts.testing import FakeEngine
from rtts_engine.model import Model
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings
from tests.rtts.barge_in.sounds import speech

HELLO = "Hello there, my friend."


def test_a_turn_measures_what_happened() -> None:
    async def main() -> tuple[rig.Run, rig.Run]:
        async with Tts(FakeEngine()) as tts:
            at_once = await rig.turn(tts, HELLO, StreamConfig(ramp="fixed", chunk_frames=4), None, 1)
            slowly = await rig.turn(tts, HELLO, StreamConfig(text_mode="token"), 50, 1)
        return at_once, slowly

    at_once, slowly = asyncio.run(main())
    for run in (at_once, slowly):
        assert run.audio_s == pytest.approx(0.08 * len(HELLO))
        assert run.sink_ms is not None
        assert run.audible_ms is not None
        assert run.audible_ms >= run.sink_ms > 0
        assert sum(seconds for _, _, seconds in run.chunks) == pytest.approx(run.audio_s)
        assert len(run.late_ms) > 10
    assert [round(seconds / 0.08) for _, _, seconds in at_once.chunks] == [1, 4, 4, 4, 4, 4, 2]
    assert len(at_once.gaps_ms) == 6
    assert 0 < at_once.ttfa_ms <= at_once.sink_ms
    # Six pieces at 50 a second: the sound began while the text was still coming.
    assert slowly.timeline_ms["text_end_ms"] > 60
    assert slowly.timeline_ms["chunk_ms"] < slowly.timeline_ms["text_end_ms"]
    assert slowly.ttfa_ms is not None
    row = latency.row("both", [at_once, slowly])
    assert row["sink_ms"] == pytest.approx((at_once.sink_ms + slowly.sink_ms) / 2, abs=0.01)
    assert "both" in latency.line(row)


def test_llm_gives_the_whole_text_in_small_pieces() -> None:
    async def main() -> list[str]:
        return [piece async for piece in rig.llm(HELLO, 1000, 0.5, 3)]

    pieces = asyncio.run(main())
    assert "".join(pieces) == HELLO
    assert all(3 <= len(piece) <= 6 for piece in pieces[:-1])


def test_throughput_compares_the_wall_with_the_slower_stage() -> None:
    async def main() -> dict:
        async with Tts(FakeEngine(ar_ms=4, codec_ms=1)) as tts:
            return await throughput.measure(tts, text=HELLO, quick=True, tell=lambda _: None)

    rows = asyncio.run(main())["rows"]
    assert [row["sessions"] for row in rows] == [1, 2]
    for row in rows:
        audio_s = 0.08 * len(HELLO) * row["sessions"]
        for wall in row["walls"]:
            assert wall["audio_s"] == pytest.approx(audio_s)
            assert wall["critical_s"] >= 0.004 * len(HELLO) * row["sessions"]
            assert wall["wall_s"] >= 0.99 * wall["critical_s"]
        assert row["frames_per_s"] <= 250
        assert row["overhead"] >= -0.01


def test_a_minute_tells_of_the_silence_in_it() -> None:
    text = "aaaa aaaa aaaa. bbbb bbbb bbbb. cccc cccc cccc."

    async def main() -> dict:
        engine = FakeEngine(ar_ms=160, row_ms=5)
        config = StreamConfig(max_preroll_s=0.0)
        async with Tts(engine) as tts:
            run = await rig.turn(tts, text, config, None, 1)
            assert run.underruns > 0
            assert 0 < run.holes_s < run.wall_s
            return await long.measure(tts, text=text, quick=True, tell=lambda _: None)

    result = asyncio.run(main())
    (row,) = result["rows"]
    assert row["scenario"] == "as the machine needs"
    # Alone, a sentence takes twice its length; in company it takes less.
    assert 1.0 < row["rtf"] < 1.9
    assert row["preroll_s"] > 0
    assert row["first_sound_ms"] > row["first_samples_ms"] > 0
    (run,) = result["examples"].values()
    assert sum(seconds for _, _, seconds in run["chunks"]) == pytest.approx(row["audio_s"], abs=0.5)


def test_sentences_of_ordinary_length(shipped: Model) -> None:
    """A model that never ends by itself is ended."""
    engine = long.OrdinaryLength(shipped)
    ids = len(shipped.tokenizer.encode("Hello there."))
    utterance = engine.utterance("Hello there.", Manner(speaker="heart"), Settings(seed=1))
    assert utterance.stream.max_frames == 4 * ids  # type: ignore[attr-defined]


def test_barge_in_measures_its_stages_in_order() -> None:
    user = speech("user", 24000)

    async def main() -> dict:
        async with Tts(FakeEngine()) as tts:
            return await barge_in.measure(tts, user, interruptions=1, tell=lambda _: None)

    result = asyncio.run(main())
    assert result["row"]["missed"] == 0
    (run,) = result["runs"]
    stages = [run[stage] for stage in barge_in.STAGES]
    assert stages[:4] == sorted(stages[:4])
    assert 0 < run["first_voice_ms"] < run["duck_ms"] < run["commit_ms"]
    assert run["silent_ms"] > run["duck_ms"]


def test_the_codec_alone(shipped: Model) -> None:
    rows = codec.measure(shipped, quick=True, tell=lambda _: None)["rows"]
    assert [row["frames_at_once"] for row in rows] == [1, 2, 4, 8, 12, 25]
    assert rows[0]["times_one_frame"] == 1.0
    for row in rows:
        assert row["rtf"] == pytest.approx(row["ms_per_frame"] / 80, abs=1e-3)


def test_the_command_writes_figures_and_a_picture(
    shipped: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = tmp_path / "codec.json", tmp_path / "codec.png"
    assert cli.main(["bench", "codec", "--quick", "--json", str(out), "--plot", str(picture)]) == 0
    result = json.loads(out.read_text())
    assert result["command"] == "rtts bench codec"
    assert result["model"] == "lark"
    assert result["load_s"] > 0
    assert result["machine"]["cores"] >= 1
    assert len(result["rows"]) == len(capsys.readouterr().out.splitlines())
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = plots.pyplot()

    def full(self: object, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pyplot.Figure, "savefig", full)
    with pytest.raises(OSError, match="No space"):
        plots.codec({"rows": [{"frames_at_once": 1, "ms_per_frame": 9.0}]}, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_every_benchmark_has_a_picture(tmp_path: Path) -> None:
    rows = {
        "throughput": {"rows": [{"sessions": 1, "frames_per_s": 50.0}]},
        "barge-in": {"runs": [dict.fromkeys(barge_in.STAGES, 1.0)] * 3},
        "codec": {"rows": [{"frames_at_once": 1, "ms_per_frame": 9.0}]},
        "long": {"examples": {"one at a time": {"chunks": [(5.0, 0.0, 0.08), (90.0, 0.08, 0.08)]}}},
        "latency": {
            "rows": [
                {
                    "scenario": "20 tokens/s", "ttfa_ms": 9.0, "sink_ms": 9.0, "audible_ms": 12.0,
                    "timeline_ms": dict.fromkeys(("sentence_ms", "prefill_ms", "frame_ms", "pcm_ms", "chunk_ms"), 5.0),
                }
            ],
            "examples": {
                "20 tokens/s": {"chunks": [(5.0, 0.0, 0.08)], "sink_ms": 9.0, "timeline_ms": {"text_end_ms": 3.0}}
            },
        },
    }  # fmt: skip
    for name, draw in PLOTS.items():
        draw(rows[name], tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["bench", "speed"], 2, "speed"),
        (
            ["bench", "codec", "--json", "no/such/folder/a.json"],
            1,
            "no/such/folder: no such folder; make it first",
        ),
        (["bench", "codec", "--json", "tests"], 1, "tests: cannot be written (Not a regular file)"),
        (["bench", "codec", "--plot", "tests"], 1, "tests: cannot be written (Not a regular file)"),
        (
            ["bench", "codec", "--plot", "a.bmp"],
            2,
            "--plot a.bmp: the file's name must end with .png or .svg",
        ),
        (["bench", "codec", "--json", "a.png", "--plot", "a.png"], 2, "both name a.png; give two files"),
        (["bench", "codec", "--threads", "0,1"], 2, "'0,1' is not two numbers from 1 to 256"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    arguments: list[str],
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    monkeypatch.setattr(run_module, "run", None)  # nothing may be measured
    assert cli.main(arguments) == status
    (told,) = capsys.readouterr().err.splitlines()
    assert message in told


def test_a_model_that_only_clones_is_refused(base_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "latency", "--model", str(base_model)]) == 2
    assert "speaks only with a cloned voice" in capsys.readouterr().err
    assert cli.main(["bench", "codec", "--quick", "--model", str(base_model)]) == 0
