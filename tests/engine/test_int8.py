"""int8 products: what they lose is found at conversion, and what loses too much is rotated or stays wider."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtts_engine import convert as convert_module
from rtts_engine import int8_loss
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import convert
from rtts_engine.errors import CheckpointError, ModelError
from rtts_engine.graph.rotation import block_size, hadamard, rotated
from rtts_engine.graph.writer import FORMS, Form, GraphWriter
from rtts_engine.manifest import MANIFEST_FILE, Manifest, Product
from rtts_engine.model import Model
from rtts_engine.runtime import Net
from tests.checkpoints import Kind

from .conftest import Models

KINDS: tuple[Kind, ...] = ("base", "custom_voice", "voice_design")


def judged(models: Models, preset: str = "tiny17", kind: Kind = "base") -> dict[str, Product]:
    return int8_loss.judge_products(Checkpoint.open(models.checkpoint(preset, kind)))


def graph_of(model: Path, stem: str) -> str:
    return (model / f"{stem}.param").read_text()


@pytest.mark.parametrize(
    ("width", "size"), [(3072, 64), (6144, 64), (448, 32), (160, 16), (96, 16), (136, 0), (16, 0)]
)
def test_a_row_has_an_even_number_of_blocks(width: int, size: int) -> None:
    assert block_size(width) == size


@pytest.mark.parametrize("size", [16, 32, 64])
def test_rotation_is_orthogonal_and_its_own_inverse(size: int) -> None:
    matrix = hadamard(size)
    np.testing.assert_allclose(matrix @ matrix, np.eye(size), atol=1e-6)


def peaky(rows: int, width: int) -> np.ndarray:
    """Rows whose few large values are at other places in each."""
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, (rows, width)).astype(np.float32)
    x[np.arange(rows), rng.integers(0, width, rows)] = 40
    return x


@pytest.mark.parametrize("form", FORMS)
def test_every_form_multiplies_and_a_row_is_alike_in_any_company(tmp_path: Path, form: Form) -> None:
    """Rotation and fp16 lose less where few inputs are large."""
    rng = np.random.default_rng(0)
    x, weight, bias = peaky(9, 320), rng.normal(0, 1, (48, 320)).astype(np.float32), np.ones(48, np.float32)
    with GraphWriter(tmp_path / "g", "int8", {"p": form}) as g:
        g.output(g.linear(g.input("x"), weight, bias, "p"), "y")
    net = Net(tmp_path / "g", precision="int8", packing=False)
    (got,), _ = net.run({"x": x}, ["y"])
    want = x @ weight.T + 1
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert (
        {"int8": 0.02, "rotated": 0.002, "fp16": 0}[form]
        < error
        < {"int8": 0.05, "rotated": 0.02, "fp16": 1e-3}[form]
    )
    for count in (1, 2, 5, 8):
        (some,), _ = net.run({"x": x[:count]}, ["y"])
        np.testing.assert_array_equal(some.reshape(count, -1), got[:count])


def test_names_of_no_product_and_other_precisions_have_one_form(tmp_path: Path) -> None:
    weight = np.ones((32, 32), np.float32)
    for precision, kind in (("int8", "18=2"), ("fp32", "Gemm"), ("fp16", "InnerProduct")):
        with GraphWriter(tmp_path / "g", precision, {"other": "fp16"}) as g:  # type: ignore[arg-type]
            g.output(g.linear(g.input("x"), weight, name="p"), "y")
        assert kind in (tmp_path / "g.param").read_text()


@pytest.mark.parametrize(("preset", "kind"), [("tiny", "custom_voice"), ("tiny17", "base")])
def test_the_calibration_computes_what_the_engine_computes(models: Models, preset: str, kind: Kind) -> None:
    """Two sequences side by side: the last rows are those that the fp32 talker gives."""
    model, checkpoint = models.get(preset, kind), Checkpoint.open(models.checkpoint(preset, kind))
    rng = np.random.default_rng(1)
    rows = [rng.normal(0, 0.5, (n, model.tables.hidden_size)).astype(np.float32) for n in (12, 7)]
    stack = checkpoint.config.talker.stack
    judge = int8_loss._Judge(checkpoint)
    got = int8_loss.forward(judge, checkpoint.main, "talker.model.", stack, rows)
    for own, each in zip(got, rows, strict=True):
        np.testing.assert_allclose(own[-1], model.talker.prefill(each)[1].hidden, atol=2e-4)
    assert len(judge.found) == 4 * stack.num_layers


@pytest.mark.parametrize("kind", KINDS)
def test_every_product_is_judged(models: Models, kind: Kind) -> None:
    found = judged(models, "tiny17", kind)
    config = Checkpoint.open(models.checkpoint("tiny17", kind)).config.talker
    layers = config.stack.num_layers + config.predictor.stack.num_layers
    # Text projection 2, talker's head, predictor's input and heads.
    assert len(found) == 4 * layers + 2 + 1 + 1 + config.num_code_groups - 1
    for name, product in found.items():
        assert 0 < product.loss < 0.2, name
        assert (product.form == "int8") == (product.loss <= int8_loss.LIMIT), name
        if product.form == "rotated":
            assert product.rotated_loss is not None
            assert product.rotated_loss <= int8_loss.LIMIT
    assert found == judged(models, "tiny17", kind)


@pytest.mark.parametrize(("limit", "form"), [(1.0, "int8"), (0.0, "fp16")])
def test_every_product_can_be_wider(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float, form: Form
) -> None:
    """The names that are judged are the names that are written."""
    monkeypatch.setattr(int8_loss, "LIMIT", limit)
    path = convert(models.checkpoint("tiny17"), tmp_path / "m", "int8")
    assert {product.form for product in Manifest.load(path).products.values()} == {form}
    graphs = [graph_of(path, stem) for stem in ("talker", "predictor", "text_projection")]
    quantised, halves = (sum(graph.count(what) for graph in graphs) for what in (" 18=2", "InnerProduct "))
    count = len(Manifest.load(path).products)
    assert (quantised, halves) == ((count, 0) if form == "int8" else (0, count))


def test_peaks_are_rotated_or_stay_wider(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """One input of a product that is far larger than the others drowns them in int8."""
    plain = judged(models, "tiny")
    name = "talker.model.layers.1.mlp.down_proj"
    seen = int8_loss.gate_up_weight

    def with_a_peak(tensors: object, prefix: str, config: object) -> np.ndarray:
        weight = seen(tensors, prefix, config).copy()  # type: ignore[arg-type]
        if prefix == "talker.model.layers.1.":
            weight[len(weight) // 2 + 5] *= 100
        return weight

    monkeypatch.setattr(int8_loss, "gate_up_weight", with_a_peak)
    found = judged(models, "tiny")
    assert plain[name].form == "int8"
    assert found[name].form == "fp16"  # 136 inputs cannot be rotated
    wide = judged(models, "tiny17")[name]  # 160 can
    assert wide.rotated_loss is not None
    assert wide.rotated_loss < wide.loss / 2


def test_the_manifest_says_what_was_found(models: Models, tmp_path: Path) -> None:
    path = convert(models.checkpoint("tiny17"), tmp_path / "int8", "int8")
    found = judged(models)
    assert Manifest.load(path).products == found
    stored = json.loads((path / MANIFEST_FILE).read_text())["products"]
    assert stored["talker.codec_head"]["form"] == found["talker.codec_head"].form
    turned = sum(
        product.form == "rotated" for name, product in found.items() if ".code_predictor." not in name
    )
    assert graph_of(path, "talker").count("8=16 9=16") == turned
    assert not Manifest.load(models.get().path).products


@pytest.mark.parametrize("change", [{"form": "int5"}, {"loss": "much"}, {"rotated_loss": []}, None])
def test_damaged_records_of_products(models: Models, tmp_path: Path, change: object) -> None:
    path = convert(models.checkpoint("tiny17"), tmp_path / "int8", "int8")
    data = json.loads((path / MANIFEST_FILE).read_text())
    data["products"]["talker.codec_head"] = (
        data["products"]["talker.codec_head"] | change if isinstance(change, dict) else change
    )
    (path / MANIFEST_FILE).write_text(json.dumps(data))
    with pytest.raises(ModelError, match=r"products\.talker\.codec_head.*convert the checkpoint again"):
        Manifest.load(path)


def test_a_model_from_before_it_was_calibrated_still_loads(models: Models, tmp_path: Path) -> None:
    path = convert(models.checkpoint("tiny17"), tmp_path / "int8", "int8")
    data = json.loads((path / MANIFEST_FILE).read_text())
    del data["products"]
    (path / MANIFEST_FILE).write_text(json.dumps(data))
    assert Model.load(path).manifest.products == {}


def test_values_that_overflow_are_one_clear_error(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = int8_loss.gate_up_weight
    monkeypatch.setattr(int8_loss, "gate_up_weight", lambda *a: seen(*a) * np.float32(1e30))
    with (
        np.errstate(all="ignore"),
        pytest.raises(CheckpointError, match=r"'talker.model.layers.0.mlp.* not finite"),
    ):
        convert(models.checkpoint("tiny17"), tmp_path / "m", "int8")
    assert not (tmp_path / "m").exists()


def test_mixed_forms_compute_a_row_alike_in_any_company(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotated and wider products among int8 ones: a step together is a step alone, to the last bit."""
    forms: dict[str, Form] = {"down_proj": "rotated", "o_proj": "fp16", "codec_head": "fp16"}
    found = {
        name: replace(product, form=forms.get(name.rsplit(".", 1)[1], "int8"))
        for name, product in judged(models).items()
    }
    monkeypatch.setattr(convert_module, "judge_products", lambda _: found)
    model = Model.load(convert(models.checkpoint("tiny17"), tmp_path / "m", "int8"))
    assert "InnerProduct" in graph_of(model.path, "talker")
    assert "8=16 9=16" in graph_of(model.path, "predictor")
    rng = np.random.default_rng(2)
    width = model.tables.hidden_size
    for count in (2, 3, 8):
        prompts = [rng.normal(0, 0.3, (3 + 5 * i, width)).astype(np.float32) for i in range(count)]
        rows = rng.normal(0, 0.3, (count, width)).astype(np.float32)
        apart, joint = ([model.talker.prefill(prompt)[0] for prompt in prompts] for _ in range(2))
        outputs = model.talker.step_together(joint, rows)
        for output, state, row in zip(outputs, apart, rows, strict=True):
            want = model.talker.step(state, row)
            np.testing.assert_array_equal(output.hidden, want.hidden)
            np.testing.assert_array_equal(output.logits, want.logits)
        heard: dict[str, list[np.ndarray]] = {"apart": [], "joint": []}

        def choose(who: str, heard: dict[str, list[np.ndarray]] = heard):  # type: ignore[no-untyped-def]
            return lambda _, logits: (heard[who].append(logits.copy()), int(np.argmax(logits)))[1]

        hidden = np.stack([output.hidden for output in outputs])
        model.predictor.frames(hidden, [1] * count, [choose("joint")] * count)
        for row in hidden:
            model.predictor.frame(row, 1, choose("apart"))
        np.testing.assert_array_equal(
            np.array(heard["joint"]).reshape(15, count, -1).transpose(1, 0, 2),
            np.array(heard["apart"]).reshape(count, 15, -1),
        )


def test_int8_is_closer_to_fp32_for_what_was_found(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wider products bring the talker's output nearer."""
    exact = models.get("tiny17")
    rows = np.random.default_rng(5).normal(0, 0.5, (24, exact.tables.hidden_size)).astype(np.float32)
    want = exact.talker.prefill(rows)[1].hidden
    errors = []
    for limit in (1.0, 0.0):
        monkeypatch.setattr(int8_loss, "LIMIT", limit)
        model = Model.load(convert(models.checkpoint("tiny17"), tmp_path / str(limit), "int8"))
        errors.append(float(np.linalg.norm(model.talker.prefill(rows)[1].hidden - want)))
    assert errors[1] < errors[0] / 4


def test_rotated_rows_multiply_to_the_same() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.normal(0, 1, (5, 192)).astype(np.float32), rng.normal(0, 1, (7, 192)).astype(np.float32)
    np.testing.assert_allclose(rotated(x) @ rotated(weight).T, x @ weight.T, atol=1e-4)
