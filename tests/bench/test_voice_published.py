"""The published figures of the shipped voice: the pages say what they say, and they are of the voice that ships."""

from __future__ import annotations

from dataclasses import asdict

from bench.voice import page, tables
from bench.voice.aims import check
from rtts import store
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import source_hash


def test_the_pages_say_what_the_published_figures_say() -> None:
    """`python -m bench.voice --tables` rewrites them."""
    result = page.load()
    assert tables.PAGE.read_text(encoding="utf-8") == page.page(result)
    card = page.card_path(result).read_text(encoding="utf-8")
    assert tables.put_into(card, tables.card(result)) == card


def test_published_samples_and_plots_are_there_and_small() -> None:
    folder = tables.RESULT.parent / "voice"
    result = page.load()
    names = {sample["file"] for sample in result["samples"]}
    assert names == {path.name for path in folder.glob("*.flac")}
    assert {"figures.png", "spectrograms.png"} <= {path.name for path in folder.iterdir()}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_500_000


def test_published_aims_follow_from_the_published_figures() -> None:
    result = page.load()
    assert [asdict(each) for each in check(result)] == result["aims"]


def test_the_published_figures_are_of_the_voice_that_ships() -> None:
    """A new voice is a new evaluation: `python -m bench.voice --publish`."""
    shipped = Checkpoint.open(tables.ROOT / "models" / store.DEFAULT_MODEL)
    assert page.load()["model"]["source_sha256"] == source_hash(shipped)
