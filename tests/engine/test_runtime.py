"""The ncnn rules: graphs read back as they were written, owned memory, caches, and the GIL."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from rtts_engine import runtime
from rtts_engine.errors import ModelError, RuntimeSetupError
from rtts_engine.graph.writer import GraphWriter, Precision
from rtts_engine.runtime import EMPTY, Net, Row, empty_caches, owned, to_numpy

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), ("fp16", 2e-3), ("bf16", 2e-2), ("int8", 3e-2)]
)
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(tmp_path: Path, precision: Precision, tolerance: float, rows: int, bias: bool) -> None:
    """One product against numpy: what to run after every change to a written weight format."""
    weight, x, b = normal(37, 64) * normal(37, 1), normal(rows, 64), normal(37)
    with GraphWriter(tmp_path / "g", precision) as g:
        g.output(g.linear(g.input("x"), weight, b if bias else None), "y")
    (y,), _ = Net(tmp_path / "g", precision=precision).run({"x": x}, ["y"])
    want = x.astype(np.float64) @ weight.T + (b if bias else 0)
    assert np.linalg.norm(y - want) / np.linalg.norm(want) < tolerance


@pytest.mark.parametrize("groups", [1, 6])
def test_conv(tmp_path: Path, groups: int) -> None:
    weight, bias, x = normal(6, 6 // groups, 3), normal(6), normal(6, 1, 20)
    with GraphWriter(tmp_path / "g") as g:
        g.output(g.conv(g.input("x"), weight, bias, stride=2, dilation=3, groups=groups), "y")
    (y,), _ = Net(tmp_path / "g").run({"x": x}, ["y"])
    columns = range(0, 20 - 6, 2)
    want = np.zeros((6, len(columns)))
    for o in range(6):
        for c in range(6 // groups):
            source = x[c if groups == 1 else o, 0]
            for j, t in enumerate(columns):
                want[o, j] += sum(weight[o, c, k] * source[t + 3 * k] for k in range(3))
    np.testing.assert_allclose(y[:, 0], want + bias[:, None], atol=1e-5)


def test_blobs_read_twice_are_split(tmp_path: Path) -> None:
    with GraphWriter(tmp_path / "g") as g:
        x = g.input("x")
        doubled = g.add(x, x)
        g.output(g.multiply(doubled, doubled), "square")
        g.output(doubled, "double")
    text = (tmp_path / "g.param").read_text()
    assert text.count("Split") == 2
    x_value = normal(3, 4)
    arrays, _ = Net(tmp_path / "g").run({"x": x_value}, ["square", "double"])
    np.testing.assert_allclose(arrays[0], 4 * x_value**2, rtol=1e-6)
    np.testing.assert_allclose(arrays[1], 2 * x_value, rtol=1e-6)


def test_a_failed_writer_leaves_no_graph(tmp_path: Path) -> None:
    def fail() -> None:
        with GraphWriter(tmp_path / "g") as g:
            g.input("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not (tmp_path / "g.param").exists()


def test_handles_own_their_memory(tmp_path: Path) -> None:
    """A borrowed Mat in an in-place layer crashes the process; a handle outlives the array it came from."""
    with GraphWriter(tmp_path / "g") as g:
        g.output(g.silu(g.input("x")), "y")
    net = Net(tmp_path / "g")
    handle = owned(np.full((4, 100), 2.0, np.float32))
    gc.collect()
    for _ in range(50):
        np.zeros((4, 100), np.float32)
        (y,), _ = net.run({"x": handle}, ["y"])
    np.testing.assert_allclose(y, 2.0 / (1.0 + np.exp(-2.0)), rtol=1e-6)
    np.testing.assert_array_equal(to_numpy(handle), np.full((4, 100), 2.0))


def test_states_come_back_as_they_left(tmp_path: Path) -> None:
    with GraphWriter(tmp_path / "g") as g:
        joined = g.concat([g.input("tail"), g.input("x")], axis=1)
        g.output(g.last(joined, 2, axis=1), "tail_next")
        g.output(joined, "y")
    net = Net(tmp_path / "g")
    tail = owned(np.zeros((1, 2), np.float32))
    seen = []
    for start in range(0, 9, 3):
        (y,), (tail,) = net.run(
            {"tail": tail, "x": np.arange(start, start + 3, dtype=np.float32)[None]}, ["y"], ["tail_next"]
        )
        seen.append(y[0])
    np.testing.assert_array_equal(seen[2], [4, 5, 6, 7, 8])


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.param: no such file"):
        Net(tmp_path / "nothing")
    (tmp_path / "bad.param").write_text("not a graph\n")
    (tmp_path / "bad.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=r"bad\.param: ncnn cannot read"):
        Net(tmp_path / "bad")


@pytest.mark.parametrize("value", [np.nan, np.inf, 3.4e38])
def test_what_is_not_a_number_is_an_error_not_sound(tmp_path: Path, value: float) -> None:
    """Damaged weights, or a damaged voice, end up here."""
    with GraphWriter(tmp_path / "g") as g:
        g.output(g.linear(g.input("x"), np.full((3, 64), 2, np.float32)), "y")
    net = Net(tmp_path / "g")
    with pytest.raises(ModelError, match="output 'y' is not finite"):
        net.run({"x": np.full((1, 64), value, np.float32)}, ["y"])


def test_unknown_input_is_named(tmp_path: Path) -> None:
    with GraphWriter(tmp_path / "g") as g:
        g.output(g.silu(g.input("x")), "y")
    with pytest.raises(ModelError, match="no blob 'z' in the graph"):
        Net(tmp_path / "g").run({"z": normal(1, 4)}, ["y"])


def test_this_wheel_releases_the_gil() -> None:
    runtime.check_environment()
    assert runtime.releases_gil()


def test_an_old_wheel_is_refused_only_when_the_check_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "ncnn_version", lambda: "1.0.20260526")
    runtime.check_environment()
    monkeypatch.setattr(runtime, "releases_gil", lambda: False)
    with pytest.raises(RuntimeSetupError, match=r"pip install 'ncnn>=1\.0\.20261020'"):
        runtime.check_environment()


def test_a_run_goes_on_with_another_pass(tmp_path: Path) -> None:
    """Every output is computed from what was fed last, branches that an earlier pass left unread included."""
    with GraphWriter(tmp_path / "g") as g:
        hidden = g.silu(g.linear(g.input("x"), normal(8, 4)))
        for i in range(3):
            g.output(g.linear(hidden, normal(5, 8)), f"y{i}")
    net = Net(tmp_path / "g")
    x = Row(1, 4)
    run = net.start()
    for name in ("y0", "y1", "y1", "y2", "y0"):
        x.values[:] = normal(1, 4)
        run.again([name])
        run.feed({"x": x})
        (alone,), _ = net.run({"x": x.values.copy()}, [name])
        np.testing.assert_array_equal(run.array(name), alone)


def test_what_a_run_gave_stays(tmp_path: Path) -> None:
    with GraphWriter(tmp_path / "g") as g:
        g.output(g.silu(g.input("x")), "y")
    x, run, given = Row(2, 3), Net(tmp_path / "g").start(), []
    for value in range(5):
        x.values[:] = value
        run.again(["y"])
        run.feed({"x": x})
        given.append(run.array("y"))
        np.testing.assert_array_equal(x.values, np.full((2, 3), value))  # an in-place layer worked on a copy
    del run, x
    gc.collect()
    for value, y in enumerate(given):
        np.testing.assert_allclose(y, np.full((2, 3), value / (1 + np.exp(-value))), rtol=1e-5)


@pytest.mark.parametrize("capacity", [0, 2, 16])
def test_caches_advance_in_one_run(tmp_path: Path, capacity: int) -> None:
    """The same as with a run for each step, beyond the reserved positions too."""
    with GraphWriter(tmp_path / "g") as g:
        q, k, v = (g.input(name) for name in "qkv")
        out, keys, values = g.cached_attention(q, k, v, None, 0.3, (g.input("pk"), g.input("pv")))
        g.output(out, "y")
        g.output(keys, "ck")
        g.output(values, "cv")
    net = Net(tmp_path / "g")
    run, caches, apart = net.start(cache_capacity=capacity), empty_caches(2), [EMPTY, EMPTY]
    for step in range(12):
        new = {name: normal(2, 1, 16) for name in "qkv"}
        run.again(["y"])
        run.feed(new | {"pk": caches[0], "pv": caches[1]})
        y = run.array("y")
        run.advance(net.numbered({"ck": caches[0], "cv": caches[1]}))
        past = {"pk": apart[0], "pv": apart[1]}
        (want,), apart = net.run(
            new | past, ["y"], ["ck", "cv"], opaque=True, cache_capacity=0 if step else capacity
        )
        np.testing.assert_array_equal(y, want)
