"""The disk of histories: what a loss of power may leave."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.histories.disk import SECTOR, Disk, build_library, control_file, log_file, tear, unsynced
from tests.histories.targets import REPOSITORY

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

PROGRAM = """
import os, sys
from pathlib import Path
from tests.histories import disk
folder = Path(sys.argv[1])
disk.begin(folder)
file = os.open(folder / "file", os.O_RDWR | os.O_CREAT)
{}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def run(folder: Path, lines: str) -> str:
    library = build_library(folder.parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(lines), str(folder)],
        env={"LD_PRELOAD": str(library), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_what_was_synced_stays_and_the_rest_may_go(folder: Path) -> None:
    disk = Disk(folder)
    old, new, more = b"a" * SECTOR * 4, b"b" * SECTOR * 2, b"c" * SECTOR
    run(
        folder,
        f"os.pwrite(file, {old!r}, 0); os.fsync(file)\nos.pwrite(file, {new!r}, {SECTOR})\n"
        f"os.lseek(file, 0, os.SEEK_END); os.write(file, {more!r})",
    )
    held = (folder / "file").read_bytes()
    before = log_file(folder).read_bytes()
    found = set()
    for seed in range(200):
        (folder / "file").write_bytes(held)
        log_file(folder).write_bytes(before)
        disk.lose_power(random.Random(seed))
        torn = (folder / "file").read_bytes()
        sectors = [torn[at : at + SECTOR] for at in range(0, len(torn), SECTOR)]
        assert all(len(set(sector)) == 1 for sector in sectors)
        found.add("".join(chr(sector[0]) for sector in sectors))
        assert log_file(folder).read_bytes() == b""
    assert {each[0] for each in found} == {"a"}
    assert {each[3] for each in found} == {"a"}
    assert {each[1:3] for each in found} == {"aa", "ab", "ba", "bb"}
    assert {each[4:] for each in found} == {"", "\0", "c"}
    disk.close()


def test_a_truncation_is_undone_and_a_deleted_file_is_forgotten(folder: Path) -> None:
    Disk(folder).close()
    run(folder, "os.pwrite(file, b'0123456789', 0); os.fdatasync(file); os.ftruncate(file, 3)")
    ((path, writes),) = unsynced(log_file(folder).read_bytes()).items()
    assert (path.name, [write.old for write in writes]) == ("file", [b"3456789"])
    disk = Disk(folder)
    for seed in range(20):
        disk.lose_power(random.Random(seed))
        assert (folder / "file").read_bytes() in (b"012", b"0123456789")
    run(folder, "os.pwrite(file, b'x', 0); os.unlink(folder / 'file')")
    assert unsynced(log_file(folder).read_bytes()) == {}
    disk.close()


def test_a_full_disk_takes_nothing_more_and_keeps_what_it_has(folder: Path) -> None:
    disk = Disk(folder)
    (folder / "file").write_bytes(b"0123")
    disk.set(full=True)
    lines = """
print(os.pwrite(file, b'ab', 0), os.pwrite(file, b'cdefgh', 2))
for late in (lambda: os.pwrite(file, b'x', 4), lambda: os.ftruncate(file, 9)):
    try:
        late()
    except OSError as error:
        print(error.strerror)
"""
    assert run(folder, lines).splitlines() == ["2 2", *["No space left on device"] * 2]
    assert (folder / "file").read_bytes() == b"abcd"
    disk.set()
    assert run(folder, "print(os.pwrite(file, b'x', 4))") == "1\n"
    assert control_file(folder).exists()
    disk.close()


STORE = """
import asyncio
from kuberth.local.apiserver.store.store import RevisionStore
async def main():
    store = await RevisionStore.open(folder / "store.db")
    {}
    print(sorted(store.list("pods"), key=str), flush=True)
    os._exit(0)  # as if killed: nothing is closed
asyncio.run(main())
"""
KILLED_BEFORE_ITS_SYNC = """
    await asyncio.wrap_future(store._journal._executor.submit(
        lambda: store._journal._connection.execute("PRAGMA synchronous = OFF")))
    store.stage("pods", "a/x", {"metadata": {"name": "x"}})
    await store.durable(2)
"""


def test_what_a_restarted_store_serves_survives_a_loss_of_power(folder: Path) -> None:
    disk = Disk(folder)
    run(folder, STORE.format("pass"))
    run(folder, STORE.format(KILLED_BEFORE_ITS_SYNC.strip()))
    assert any(path.name == "store.db-wal" for path in unsynced(log_file(folder).read_bytes()))
    served = run(folder, STORE.format("pass"))
    assert "'x'" in served
    for seed in range(3):
        disk.lose_power(random.Random(seed))
        assert run(folder, STORE.format("pass")) == served
    disk.close()


def test_a_tear_is_one_of_both_contents_in_each_sector() -> None:
    then, now = b"a" * SECTOR * 3, b"b" * SECTOR * 5
    for seed in range(50):
        torn = tear(then, now, random.Random(seed))
        assert len(torn) in (len(then), len(now))
        assert set(torn) <= set(b"ab\0")
