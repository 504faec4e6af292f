"""The default number of threads, by measurements that are made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rtts_engine import threads
from rtts_engine.threads import Stage, Threads, automatic, choose


def scaling(
    ar: float, codec: float, asked: list[tuple[Stage, int]] | None = None
) -> Callable[[Stage, int], float]:
    """Each doubling of a stage's threads takes this share of the time."""

    def measure(stage: Stage, count: int) -> float:
        if asked is not None:
            asked.append((stage, count))
        return (ar if stage == "ar" else codec) ** (count.bit_length() - 1)

    return measure


@pytest.mark.parametrize("cores", [1, 2])
def test_two_cores_are_one_thread_each_without_a_measurement(cores: int) -> None:
    asked: list[tuple[Stage, int]] = []
    assert choose(cores, scaling(0.5, 0.5, asked)) == Threads(1, 1)
    assert asked == []


@pytest.mark.parametrize(
    ("cores", "ar", "codec", "want"),
    [
        (3, 0.5, 0.5, Threads(2, 1)),
        (4, 0.5, 0.5, Threads(2, 2)),
        (8, 0.5, 0.5, Threads(4, 4)),
        (8, 0.5, 1.0, Threads(4, 1)),
        (8, 0.8, 0.5, Threads(1, 4)),
        (16, 0.7, 0.9, Threads(8, 1)),
        (64, 1.1, 1.1, Threads(1, 1)),
    ],
)
def test_more_threads_where_they_clearly_pay(cores: int, ar: float, codec: float, want: Threads) -> None:
    assert choose(cores, scaling(ar, codec)) == want
    assert want.ar + want.codec <= cores


def test_a_number_that_collapses_ends_the_search() -> None:
    """Another process wants the core that the fourth thread would spin on."""
    times = {1: 1.0, 2: 0.6, 4: 60.0, 8: 0.1}
    assert choose(16, lambda stage, count: times[count] if stage == "ar" else 1.0) == Threads(2, 1)


def test_no_time_left_is_what_was_found_so_far() -> None:
    answers: list[float | None] = [1.0, 0.5, None, None, None]
    assert choose(64, lambda _stage, _count: answers.pop(0)) == Threads(2, 1)


def test_small_models_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_measured", lambda: Threads(7, 7))
    assert automatic(threads.SMALL_BYTES - 1) == Threads(1, 1)
    assert automatic(threads.SMALL_BYTES) == Threads(7, 7)


def test_the_measurement_runs_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def seconds(stem: Path, rows: int, count: int) -> float:
        calls.append(count)
        assert real(stem, rows, count) > 0
        return 1 / count

    real = threads.seconds
    monkeypatch.setattr(threads, "physical_cores", lambda: 4)
    monkeypatch.setattr(threads, "BUDGET_S", 60.0)
    monkeypatch.setattr(threads, "seconds", seconds)
    threads._measured.cache_clear()
    try:
        assert threads._measured() == Threads(2, 2)
        assert calls == [1, 2, 1, 2]
        assert threads._measured() == Threads(2, 2)
        assert len(calls) == 4
    finally:
        threads._measured.cache_clear()


def test_hardware_threads_of_a_core_count_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    monkeypatch.setattr(threads, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3, 9}, raising=False)
    assert threads.physical_cores() == 3  # the system says nothing of the ninth
