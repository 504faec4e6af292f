"""Names become model directories; the shipped voice is converted once, whatever happens meanwhile."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rtts import store
from rtts.errors import CheckpointError, StoreError
from rtts_engine.convert import convert
from rtts_engine.manifest import MANIFEST_FILE, Manifest
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("store") / "tiny", preset="tiny", kind="custom_voice")


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTTS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_shipped_voice_is_the_default_and_converted_once(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, float]] = []
    path = store.resolve(progress=lambda step, fraction: steps.append((step, fraction)))
    assert path.parent == store.cache_dir() == own_home / "cache"
    assert path.name.startswith(f"{store.DEFAULT_MODEL}-")
    assert Manifest.load(path).precision == "fp32"
    assert steps
    assert all(0 <= fraction <= 1 for _, fraction in steps)
    monkeypatch.setattr(store, "convert", None)
    assert store.resolve() == path
    assert store.resolve(store.DEFAULT_MODEL) == path


def test_a_checkpoint_directory_is_converted_into_the_cache(own_home: Path, checkpoint: Path) -> None:
    path = store.resolve(checkpoint)
    assert path.parent == store.cache_dir()
    assert store.resolve(str(checkpoint)) == path


def test_a_changed_checkpoint_is_converted_again(own_home: Path, checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tiny"
    shutil.copytree(checkpoint, copy)
    first = store.resolve(copy)
    text = (copy / "generation_config.json").read_text()
    (copy / "generation_config.json").write_text(text.replace("{", "{ ", 1))
    assert store.resolve(copy) != first


def test_a_moved_checkpoint_is_not(own_home: Path, checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "elsewhere" / "tiny")
    assert store.resolve(tmp_path / "elsewhere" / "tiny") == store.resolve(checkpoint)


def test_another_ncnn_converts_again(
    own_home: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.resolve(checkpoint)
    monkeypatch.setattr(store, "ncnn_version", lambda: "1.0.20991231")
    assert store.resolve(checkpoint) != first


@pytest.mark.parametrize("damage", ["manifest", "weights", "bit", "gone"])
def test_a_damaged_cache_is_made_again(own_home: Path, checkpoint: Path, damage: str) -> None:
    path = store.resolve(checkpoint)
    if damage == "manifest":
        (path / MANIFEST_FILE).write_text("{}")
    elif damage == "weights":
        victim = next(path.glob("*.bin"))
        victim.write_bytes(victim.read_bytes()[:-4])
    elif damage == "bit":
        victim = path / "talker.param"
        victim.write_bytes(victim.read_bytes().replace(b"RMSNorm", b"RMSNorn", 1))
    else:
        (path / MANIFEST_FILE).unlink()
    assert store.resolve(checkpoint) == path
    Manifest.load(path).verify(path)


def test_simultaneous_first_uses_convert_once(own_home: Path, checkpoint: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from rtts import store
real = store.convert
def counted(*args, **options):
    with open(sys.argv[2], "a") as log: log.write("x")
    time.sleep(0.5)
    return real(*args, **options)
store.convert = counted
print(store.resolve(Path(sys.argv[1])))
"""
    log = own_home.parent / "log"
    command = [sys.executable, "-c", code, str(checkpoint), str(log)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(answers) == 1
    assert log.read_text() == "x"


def test_a_killed_first_use_leaves_nothing_in_the_way(own_home: Path, checkpoint: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from rtts import store
def half(checkpoint, target, **options):
    (target.parent / f".{target.name}.x.partial").mkdir(); os._exit(9)
store.convert = half
store.resolve(Path(sys.argv[1]))
"""
    assert subprocess.run([sys.executable, "-c", code, str(checkpoint)]).returncode == 9
    path = store.resolve(checkpoint)
    assert [entry.name for entry in store.cache_dir().iterdir() if entry.is_dir()] == [path.name]


def test_a_full_disk_is_one_clear_error(
    own_home: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "convert", full)
    with pytest.raises(StoreError, match=r"No space left on device.*RTTS_HOME"):
        store.resolve(checkpoint)


def test_a_home_that_cannot_be_written_is_one_clear_error(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RTTS_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match=r"cannot keep the converted model.*RTTS_HOME"):
        store.resolve(checkpoint)
    assert store.entries()[0].origin == "shipped"


def test_installed_models_by_name(own_home: Path, checkpoint: Path) -> None:
    path = convert(checkpoint, store.install_path("someone/tiny", "fp32"))
    assert store.resolve("someone--tiny-fp32") == path
    assert store.resolve("someone--tiny") == path
    assert store.resolve("someone/tiny") == path
    shutil.copytree(path, store.install_path("someone/tiny", "int8"))
    manifest = store.install_path("someone/tiny", "int8") / MANIFEST_FILE
    manifest.write_text(manifest.read_text().replace('"precision": "fp32"', '"precision": "int8"'))
    with pytest.raises(
        StoreError, match=r"several precisions; give one of someone--tiny-fp32, someone--tiny-int8"
    ):
        store.resolve("someone/tiny")
    assert store.resolve("someone--tiny-fp32") == path


def test_a_converted_directory_is_taken_as_it_is(own_home: Path, checkpoint: Path, tmp_path: Path) -> None:
    path = convert(checkpoint, tmp_path / "mine")
    assert store.resolve(path) == path
    assert not own_home.exists()


def test_unknown_names(own_home: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nobody: no such model \(installed: .*" + store.DEFAULT_MODEL):
        store.resolve("nobody")
    with pytest.raises(StoreError, match="rtts pull some/body"):
        store.resolve("some/body")
    with pytest.raises(StoreError, match="neither a converted model"):
        store.resolve(tmp_path)
    with pytest.raises(StoreError, match="no such model"):
        store.resolve("a\0b")
    for name in ("", "..", "a b", "../x"):
        with pytest.raises(StoreError, match="not usable as the name"):
            store.install_path(name, "fp32")


def test_a_bad_checkpoint_says_what_is_wrong_and_caches_nothing(own_home: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "unet"}')
    with pytest.raises(CheckpointError, match=r"config\.json"):
        store.resolve(tmp_path)
    assert not store.cache_dir().exists()


def test_without_rtts_home_the_platforms_folders_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTTS_HOME")
    assert "rtts" in store.models_dir().parts
    assert "rtts" in store.cache_dir().parts
    assert store.models_dir() != store.cache_dir()
