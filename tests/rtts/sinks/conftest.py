"""PulseAudio with a null sink, in place of a sound card."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

PACKAGES = "apt install libportaudio2 pulseaudio pulseaudio-utils libasound2-plugins"


@dataclass
class Pulse:
    """A sound server without hardware; its null sink runs at 24 kHz mono and can be recorded."""

    environment: dict[str, str]

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recording]:
        """Record what is played. A client that reads at low latency also keeps the null sink's clock fine."""
        command = [
            "parec",
            "--device=rtts.monitor",
            "--rate=24000",
            "--channels=1",
            "--format=s16le",
            "--raw",
        ]
        recording = Recording()
        # Into a file: in a pipe that nobody reads meanwhile, it would get stuck after a second.
        with tempfile.TemporaryFile() as file:
            process = subprocess.Popen([*command, "--latency-msec=10"], env=self.environment, stdout=file)
            try:
                deadline_s = time.monotonic() + 20
                while os.fstat(file.fileno()).st_size < 960 and time.monotonic() < deadline_s:
                    time.sleep(0.01)
                yield recording
                time.sleep(0.2)  # it is a little behind
            finally:
                process.terminate()
                process.wait()
            file.seek(0)
            data = file.read()
            recording.samples = np.frombuffer(data[: len(data) // 2 * 2], "<i2").copy()


class Recording:
    samples: np.ndarray = np.zeros(0, np.int16)
    """Filled when the recording is over."""


@pytest.fixture(scope="session")
def pulse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulse]:
    """A sound server of our own; PortAudio's device ``pulse`` leads to it."""
    if not sys.platform.startswith("linux") or not all(map(shutil.which, ("pulseaudio", "parec", "pactl"))):
        pytest.skip(f"there is no PulseAudio here ({PACKAGES})")
    folder = tmp_path_factory.mktemp("pulse")
    socket = folder / "native"
    changes = {
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PULSE_RUNTIME_PATH": str(folder),
        "PULSE_SERVER": f"unix:{socket}",
    }
    for path in (folder, folder / "config"):
        path.mkdir(exist_ok=True, mode=0o700)
    environment = os.environ | changes
    log = (folder / "log").open("w+")
    daemon = subprocess.Popen(
        ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1",
         "-L", "module-null-sink sink_name=rtts rate=24000 channels=1 format=s16le",
         "-L", f"module-native-protocol-unix socket={socket} auth-anonymous=1"],
        env=environment, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        _wait_for_sink(environment, daemon, folder / "log")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in changes.items():
                patch.setenv(name, value)
            try:
                import sounddevice
            except OSError:
                pytest.skip(f"there is no PortAudio here ({PACKAGES})")
            sounddevice._terminate()  # it may have looked for devices before the server ran
            sounddevice._initialize()
            try:
                sounddevice.query_devices("pulse")
            except ValueError:
                pytest.skip(f"ALSA does not know PulseAudio here ({PACKAGES})")
            yield Pulse(environment)
    finally:
        daemon.terminate()
        daemon.wait()
        log.close()


def _wait_for_sink(environment: dict[str, str], daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s and daemon.poll() is None:
        found = subprocess.run(
            ["pactl", "list", "short", "sinks"], env=environment, capture_output=True, check=False
        )
        if b"rtts" in found.stdout:
            return
        time.sleep(0.1)
    pytest.fail(f"PulseAudio did not start: {log.read_text()}")
