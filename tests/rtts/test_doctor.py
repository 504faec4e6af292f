"""``rtts doctor`` names each problem and says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rtts import doctor, store
from rtts.cli import main
from rtts.errors import RuntimeSetupError
from rtts_engine import runtime
from rtts_engine.convert import convert
from rtts_engine.manifest import MANIFEST_FILE
from tests.checkpoints import write_checkpoint


def found(subject: str) -> list[doctor.Finding]:
    return [finding for finding in doctor.examine() if finding.subject == subject]


def test_a_sound_installation_has_no_problem(capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    out, err = capfd.readouterr()
    assert status == 0, out
    assert err == ""  # above all not the Vulkan loader's noise
    for subject in (
        "rtts",
        "packages",
        "engine",
        "cpu",
        "threads",
        "GIL",
        "Vulkan",
        "sound",
        "cache",
        "models",
        "start",
    ):
        assert f" {subject}" in out
    assert "PROBLEM" not in out
    assert "ncnn 1.0." in out


def test_every_finding_that_is_not_fine_says_what_to_do() -> None:
    assert all(finding.advice for finding in doctor.examine() if finding.level != "ok")


def test_an_old_wheel_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise RuntimeSetupError("ncnn 1.0.20250101 is too old")

    monkeypatch.setattr(runtime, "check_environment", refuse)
    monkeypatch.setattr(runtime, "releases_gil", lambda: False)
    assert main(["doctor"]) == 1
    out = capfd.readouterr().out
    assert "PROBLEM engine" in out
    assert "pip install --upgrade ncnn" in out
    assert "2 problems found" in out


def test_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RTTS_HOME", str(tmp_path / "file"))
    (cache,) = found("cache")
    assert (cache.level, cache.advice) == ("problem", "set RTTS_HOME to a folder that can be written")


def test_a_damaged_model_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RTTS_HOME", str(tmp_path))
    broken = store.models_dir() / "broken-fp32"
    broken.mkdir(parents=True)
    (broken / MANIFEST_FILE).write_text("{")
    findings = [finding for finding in found("models") if finding.level == "problem"]
    assert len(findings) == 1
    assert "broken-fp32" in findings[0].detail
    assert str(broken) in findings[0].advice


@pytest.mark.parametrize("where", ["models", "cache"])
def test_changed_weights_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str) -> None:
    monkeypatch.setenv("RTTS_HOME", str(tmp_path))
    checkpoint = write_checkpoint(tmp_path / "mine", preset="tiny", kind="voice_design")
    path = (
        convert(checkpoint, store.install_path("mine", "fp32"))
        if where == "models"
        else store.resolve(checkpoint)
    )
    assert [finding for finding in found("models") if finding.level != "ok"] == []
    data = bytearray((path / "talker.bin").read_bytes())
    data[5000] ^= 1
    (path / "talker.bin").write_bytes(data)
    (finding,) = [finding for finding in found("models") if finding.level != "ok"]
    assert "talker.bin: contents changed" in finding.detail
    assert str(path) in finding.advice


def test_what_another_version_left_in_the_cache_is_no_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RTTS_HOME", str(tmp_path))
    path = store.resolve(write_checkpoint(tmp_path / "mine", preset="tiny", kind="voice_design"))
    manifest = path / MANIFEST_FILE
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 1}))
    (finding,) = [finding for finding in found("models") if finding.level != "ok"]
    assert (finding.level, finding.advice) == ("note", f"delete {path}")


@pytest.mark.parametrize("package", ["ncnn", "tokenizers", "numpy"])
def test_a_missing_package_is_what_the_report_is_for(package: str) -> None:
    source = f"import sys; sys.modules[{package!r}] = None; from rtts.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", source, "doctor"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert f"import of {package} halted" in done.stdout
    assert "reinstall rtts" in done.stdout
    command = [sys.executable, "-c", source, "say", "Hi.", "-o", "a.wav"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("rtts: a package is missing or broken (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("failure", [ImportError("no module"), OSError("PortAudio library not found")])
def test_missing_sound_libraries_are_a_note(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def refuse(name: str) -> None:
        raise failure

    monkeypatch.setattr(doctor.importlib, "import_module", refuse)
    (sound,) = list(doctor.sound_devices())
    assert sound.level == "note"
    assert "pip install 'rtts[local]'" in sound.advice or "libportaudio2" in sound.advice


def test_a_crashing_vulkan_driver_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "VULKAN_PROBE", "import os; os.abort()")
    assert [finding.level for finding in doctor.vulkan()] == ["note"]


def test_vulkan_devices_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "VULKAN_PROBE", "print('noise'); print('[\"llvmpipe\"]')")
    assert [finding.detail for finding in doctor.vulkan()] == ["0: llvmpipe"]


def test_one_broken_check_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bool:
        raise ValueError("surprise")

    monkeypatch.setattr(runtime, "releases_gil", broken)
    findings = list(doctor.examine())
    assert [finding.detail for finding in findings if finding.subject == "gil"]
    assert any(finding.subject == "models" for finding in findings)


def test_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rtts", "doctor"], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.returncode in (0, 1)
