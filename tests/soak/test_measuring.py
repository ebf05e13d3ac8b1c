from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from tests.soak.__main__ import DEPLOYMENT
from tests.soak.measuring import Sample, most_memory_mib, over_limit, slope, write_csv, write_plot


def sample(seconds: float, memory: float, *, process: int = 1, age: float = 1000.0, files: int = 9) -> Sample:
    return Sample(seconds, process, age, memory, files, tasks=3, plans=2, pending=1, cached=0, bound=0)


def test_the_slope_is_that_within_the_processes() -> None:
    first = [sample(at, 100 + at / 3600) for at in range(0, 600, 60)]
    second = [sample(at, 500 + at / 3600, process=2) for at in range(600, 1200, 60)]
    found = slope([*first, *second], "memory_mib")
    assert found.per_hour == pytest.approx(1.0)
    assert found.error == pytest.approx(0.0, abs=1e-9)


def test_a_warm_up_is_no_growth() -> None:
    warming = [sample(at, at, age=at) for at in range(0, 300, 10)]
    found = slope([*warming, *(sample(at, 70, age=at) for at in range(300, 600, 10))], "memory_mib")
    assert (found.per_hour, found.error) == (0.0, 0.0)


def test_the_error_is_that_of_a_regression() -> None:
    """Values around a line of no growth: the error follows from their distance and their times."""
    values = [1.0, -1.0, -1.0, 1.0]
    found = slope([sample(3600.0 * at, value) for at, value in enumerate(values)], "memory_mib")
    assert found.per_hour == pytest.approx(0.0)
    assert found.error == pytest.approx(math.sqrt(4 / 2 / 5))


def test_few_samples_have_no_slope() -> None:
    assert str(slope([sample(0, 1), sample(10, 2)], "memory_mib")) == "too few samples"


def test_memory_over_the_limit_of_the_deployment() -> None:
    limit = most_memory_mib(DEPLOYMENT)
    assert limit == 1024
    assert over_limit([], limit) == ""
    assert over_limit([sample(0, 100), sample(5, limit)], limit) == ""
    assert over_limit([sample(0, 100), sample(5, 1100), sample(9, 90)], limit) == (
        "memory: 1100 MiB is over the limit, 1024 MiB"
    )


def test_samples_are_written_as_a_table_and_as_curves(tmp_path: Path) -> None:
    samples = [sample(0.0, 80.25), sample(5.0, 81.0, process=2, files=10)]
    write_csv(tmp_path / "soak.csv", samples)
    with (tmp_path / "soak.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["seconds"], row["process"], row["memory_mib"], row["files"]) for row in rows] == [
        ("0.0", "1", "80.2", "9"),
        ("5.0", "2", "81.0", "10"),
    ]
    write_plot(tmp_path / "soak.svg", samples, title="kuberth run")
    drawn = (tmp_path / "soak.svg").read_text(encoding="utf-8")
    assert "kuberth run: memory" in drawn
    assert "process 2" in drawn
