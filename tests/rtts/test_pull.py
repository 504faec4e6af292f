"""``pull`` against a stand-in for the hub: whole, interrupted, damaged, without network and without space."""

from __future__ import annotations

import errno
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from rtts import hub as pulling
from rtts import store
from rtts.errors import CheckpointError, DownloadError, ModelError, UnknownModelError
from rtts_engine.manifest import MANIFEST_FILE, Manifest
from tests.checkpoints import write_checkpoint
from tests.rtts.hub_server import Hub, serving

REPO = "someone/Qwen3-TTS-tiny"
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_checkpoint(tmp_path_factory.mktemp("hub") / "ckpt", preset="tiny", kind="custom_voice")
    (path / "README.md").write_text("a model card")
    (path / "demo.mp4").write_bytes(b"\0" * 5000)
    (path / "pytorch_model.bin").write_bytes(b"\0" * 5000)
    return path


@pytest.fixture
def hub(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as server:
        server.add(REPO, checkpoint)
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        monkeypatch.setenv("RTTS_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        pulling.quiet(True)
        yield server


def failure(repo_id: str = REPO) -> str:
    with pytest.raises(DownloadError) as caught:
        pulling.pull(repo_id)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_checkpoint_is_fetched_and_converted(hub: Hub) -> None:
    steps: list[str] = []
    path = pulling.pull(REPO, progress=lambda step, fraction: steps.append(step))
    assert path == store.models_dir() / "someone--Qwen3-TTS-tiny-fp32"
    assert Manifest.load(path).kind == "custom_voice"
    assert {"download", "verify"} <= set(steps)
    assert store.resolve(REPO) == path
    assert [entry.name for entry in store.entries() if entry.origin == "installed"] == [path.name]


def test_only_what_a_conversion_reads_is_fetched(hub: Hub) -> None:
    pulling.pull(REPO)
    assert hub.sent[WEIGHTS] == len(hub.repos[REPO][WEIGHTS])
    assert not {"README.md", "demo.mp4", "pytorch_model.bin"} & set(hub.sent)


def test_an_installed_model_is_not_fetched_again(hub: Hub) -> None:
    path = pulling.pull(REPO)
    hub.status = 500
    assert pulling.pull(REPO) == path


def test_an_installed_model_that_cannot_be_loaded_is_made_again(hub: Hub) -> None:
    """Loading such a model says to convert it again: pulling it must do that."""
    path = pulling.pull(REPO)
    (path / MANIFEST_FILE).write_text('{"format": 0}')
    assert pulling.pull(REPO) == path
    Manifest.load(path).verify(path)
    (path / "talker.bin").unlink()
    assert pulling.pull(REPO) == path
    Manifest.load(path).verify(path)


def test_an_unknown_model_is_fetched_when_it_is_named(hub: Hub) -> None:
    path = store.resolve(REPO, download=pulling.pull)
    assert path == store.models_dir() / "someone--Qwen3-TTS-tiny-fp32"


def test_an_interrupted_download_goes_on_where_it_stopped(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    block = 1 << 16
    monkeypatch.setattr(
        constants, "DOWNLOAD_CHUNK_SIZE", block
    )  # the client's is larger than the test's files
    size = len(hub.repos[REPO][WEIGHTS])
    hub.cut[WEIGHTS] = size // 2
    try:
        pulling.pull(REPO)  # some versions of the client go on by themselves
    except DownloadError as error:
        assert "goes on where it stopped" in str(error)
        pulling.pull(REPO)
    ((name, wanted),) = hub.ranges
    assert name == WEIGHTS
    assert size // 2 - block <= int(wanted.removeprefix("bytes=").removesuffix("-")) <= size // 2
    assert hub.sent[WEIGHTS] <= size + block


def test_a_damaged_file_is_named_deleted_and_fetched_again(hub: Hub) -> None:
    data = hub.repos[REPO][WEIGHTS]
    hub.tampered[WEIGHTS] = data[:-1] + bytes([data[-1] ^ 1])
    message = failure()
    assert message.startswith(f"{WEIGHTS}: wrong checksum")
    assert not store.models_dir().exists()
    hub.tampered.clear()
    assert pulling.pull(REPO).is_dir()


def test_a_damaged_small_file_is_found_too(hub: Hub) -> None:
    small = "generation_config.json"
    hub.tampered[small] = b" " * len(hub.repos[REPO][small])
    assert failure().startswith(f"{small}: wrong checksum")


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("RTTS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert "check the network" in failure()
    assert not (tmp_path / "home").exists()


def test_a_network_that_goes_away_in_between(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    original = pulling.snapshot_download

    def gone(*args: object, **options: object) -> str:
        hub.status = 503
        return original(*args, **options)

    monkeypatch.setattr(pulling, "snapshot_download", gone)
    message = failure()
    assert "503" in message or "check the network" in message


def test_no_space(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pulling, "snapshot_download", full)
    assert "no space left for the download" in failure()


@pytest.mark.filterwarnings("ignore:Not enough free disk space")
def test_no_space_for_the_converted_model(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(hub_cache := Path(constants.HF_HUB_CACHE).parent)
    assert hub_cache.is_dir()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(ModelError, match="free some space"):
        pulling.pull(REPO)
    assert not any(store.models_dir().iterdir())


def test_unknown_and_impossible_repositories(hub: Hub) -> None:
    assert "no such repository" in failure("someone/else")
    for name in ("", "nothing", "a/b/c", "../x", "a b/c", "a/b\0"):
        with pytest.raises(UnknownModelError, match="not a hub id"):
            pulling.pull(name)


def test_an_overloaded_hub(hub: Hub) -> None:
    hub.status = 500
    assert "the hub answered 500" in failure()


def test_a_repository_of_another_kind(hub: Hub) -> None:
    hub.repos["some/images"] = {"config.json": b'{"model_type": "unet"}', "model.safetensors": b"\0" * 2000}
    with pytest.raises(CheckpointError, match=r"config\.json"):
        pulling.pull("some/images")
    assert not store.models_dir().exists()
    hub.repos["some/words"] = {"README.md": b"only words"}
    assert "no config.json" in failure("some/words")
