"""The disk of the server under test: it fills up, syncs slowly and loses what was not synced.

In: a folder, and faults to play. Out: a library that the server's process loads before libc, and after a loss
of power the files as a disk may hold them then: any of the unsynced sectors old or new.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).with_name("disk.c")
SECTOR: Final = 512
_CONTROL: Final = struct.Struct("II")
_RECORD: Final = struct.Struct("IIQQQ")


def build_library(folder: Path) -> Path | None:
    """The library, compiled; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "disk.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


def begin(folder: Path) -> None:
    """Called in the server's process: from here on the files of this folder are on the disk with faults."""
    begin_disk = ctypes.CDLL(None).disk_begin
    paths = [str(each).encode() for each in (folder, control_file(folder), log_file(folder))]
    if begin_disk(*paths) != 0:
        raise OSError(f"the disk of {folder} does not begin")


def control_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.control")


def log_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.undo")


class Disk:
    """What a run does to the disk of its server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        control_file(folder).write_bytes(bytes(_CONTROL.size))
        with control_file(folder).open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _CONTROL.size)

    def set(self, *, full: bool = False, sync_seconds: float = 0.0) -> None:
        self._control[:] = _CONTROL.pack(full, int(sync_seconds * 1e6))

    def close(self) -> None:
        self._control.close()

    def lose_power(self, rng: random.Random) -> str:
        """Tear what no sync covers, now that the process is dead; says what."""
        lost = []
        for path, writes in unsynced(log_file(self._folder).read_bytes()).items():
            now = path.read_bytes()
            then = _undone(now, writes)
            torn = tear(then, now, rng)
            path.write_bytes(torn)
            sectors = sum(
                torn[at : at + SECTOR] != now[at : at + SECTOR] for at in range(0, len(now), SECTOR)
            )
            lost.append(f"{sectors} sectors of {path.name}")
        # What the disk holds now is what it held when the power came back.
        log_file(self._folder).write_bytes(b"")
        return ", ".join(lost) or "nothing"


class Write(NamedTuple):
    """A write or a truncation, and what was there before."""

    offset: int
    old_size: int
    old: bytes


def unsynced(log: bytes) -> dict[Path, list[Write]]:
    """The writes to every file since its last sync, in their order."""
    writes: dict[Path, list[Write]] = {}
    at = 0
    while at < len(log):
        kind, path_bytes, offset, old_size, old_bytes = _RECORD.unpack_from(log, at)
        at += _RECORD.size
        path = Path(log[at : at + path_bytes].decode())
        at += path_bytes
        if kind in b"su":
            writes.pop(path, None)
        else:
            writes.setdefault(path, []).append(Write(offset, old_size, log[at : at + old_bytes]))
        at += old_bytes
    return writes


def _undone(content: bytes, writes: list[Write]) -> bytes:
    result = bytearray(content)
    for write in reversed(writes):
        result.extend(bytes(max(0, write.old_size - len(result))))
        result[write.offset : write.offset + len(write.old)] = write.old
        del result[write.old_size :]
    return bytes(result)


def tear(then: bytes, now: bytes, rng: random.Random) -> bytes:
    """A content between both: none of the sectors, the first ones, or any of them are new."""
    size = rng.choice((len(then), len(now)))
    sectors = range(0, size, SECTOR)
    how = rng.choice(("none", "first", "any"))
    reached = rng.randrange(len(sectors) + 1) * SECTOR if how == "first" else 0
    result = bytearray()
    for at in sectors:
        new = at < reached if how == "first" else how == "any" and rng.random() < 0.5
        sector = (now if new else then)[at : min(at + SECTOR, size)]
        result += sector.ljust(min(SECTOR, size - at), b"\0")
    return bytes(result)
