"""A stand-in for the Hugging Face hub: the part of its HTTP interface that a download needs.

Files of 1 kB and more are served as LFS files (checksum = SHA-256), smaller ones as git blobs.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LFS_BYTES = 1000


@dataclass
class Hub:
    """Repositories by id, and what goes wrong."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    endpoint: str = ""
    cut: dict[str, int] = field(default_factory=dict)
    """File name -> bytes after which the connection drops, once."""
    tampered: dict[str, bytes] = field(default_factory=dict)
    """File name -> what is sent instead of the contents that the hub announces."""
    status: int | None = None
    """Answered to every request."""
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """Range headers seen: (file name, header)."""
    sent: dict[str, int] = field(default_factory=dict)
    """File name -> bytes of content sent so far."""

    def add(self, repo_id: str, folder: Path) -> None:
        files = (path for path in folder.rglob("*") if path.is_file())
        self.repos[repo_id] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def described(name: str, data: bytes, *, tree: bool) -> dict[str, object]:
    oid = hashlib.sha256(data).hexdigest()
    if tree:
        entry: dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": blob_id(data)}
        lfs: dict[str, object] = {"oid": oid, "size": len(data), "pointerSize": 134}
    else:
        entry = {"rfilename": name, "size": len(data), "blobId": blob_id(data)}
        lfs = {"sha256": oid, "size": len(data), "pointerSize": 134}
    return entry | ({"lfs": lfs} if len(data) >= LFS_BYTES else {})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args: object) -> None:
        """Keeps the test's output clean."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        if self.hub.status is not None:
            return self.json(self.hub.status, {"error": "overloaded"})
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/[^/]+)?", path)
        if match:
            repo = self.hub.repos.get(match[1])
            if repo is None:
                return self.missing("RepoNotFound")
            if match[2] == "tree":
                return self.json(200, [described(name, data, tree=True) for name, data in repo.items()])
            siblings = [described(name, data, tree=False) for name, data in repo.items()]
            info = {
                "id": match[1],
                "modelId": match[1],
                "sha": COMMIT,
                "private": False,
                "tags": [],
                "downloads": 0,
            }
            return self.json(200, info | {"siblings": siblings})
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        if match and match[1] in self.hub.repos:
            if match[2] not in self.hub.repos[match[1]]:
                return self.missing("EntryNotFound")
            return self.file(match[2], self.hub.repos[match[1]][match[2]])
        return self.missing("RepoNotFound")

    def json(self, status: int, data: object) -> None:
        self.reply(status, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def missing(self, code: str) -> None:
        self.reply(404, b"{}", {"X-Error-Code": code, "X-Error-Message": "not found"})

    def file(self, name: str, data: bytes) -> None:
        etag = hashlib.sha256(data).hexdigest() if len(data) >= LFS_BYTES else blob_id(data)
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        if len(data) >= LFS_BYTES:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data))}
        body, status = self.hub.tampered.get(name, data), 200
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and self.command == "GET":
            self.hub.ranges.append((name, wanted[0]))
            start = int(wanted[1])
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            body, status = body[start:], 206
        self.reply(status, body, headers, name)

    def reply(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if name in self.hub.cut:
            body = body[: self.hub.cut.pop(name)]
            self.close_connection = True
        self.wfile.write(body)
        self.hub.sent[name] = self.hub.sent.get(name, 0) + len(body)


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub on a free port of this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
