from __future__ import annotations

import pytest

from kuberth.errors import ConfigError
from kuberth.explaining.targets import ExplainTarget, find_pod, read_target
from kuberth.testing import make_pod


@pytest.mark.parametrize(
    "words, expected",
    [
        (["pod", "web-0"], ExplainTarget("Pod", "web-0")),
        (["pods/web-0"], ExplainTarget("Pod", "web-0")),
        (["po", "web-0"], ExplainTarget("Pod", "web-0")),
        (["web-0"], ExplainTarget("Pod", "web-0")),
        (["deployment/web"], ExplainTarget("Deployment", "web")),
        (["deploy", "web"], ExplainTarget("Deployment", "web")),
        (["sts/db"], ExplainTarget("StatefulSet", "db")),
        (["cronjobs/nightly"], ExplainTarget("CronJob", "nightly")),
    ],
)
def test_what_is_asked_about(words: list[str], expected: ExplainTarget) -> None:
    assert read_target(words) == expected


@pytest.mark.parametrize("words", [["service/web"], ["pod", "a", "b"], ["pod/"], ["a/b/c"]])
def test_what_cannot_be_asked_about(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        read_target(words)


def test_the_nearest_names_are_suggested() -> None:
    pods = [make_pod("web-0"), make_pod("web-1"), make_pod("db"), make_pod("far", namespace="other")]
    assert find_pod(pods, ExplainTarget("Pod", "db"), "default").metadata.name == "db"
    with pytest.raises(
        ConfigError, match=r"no pod wbe-0 in namespace default; did you mean web-0 or web-1\?"
    ):
        find_pod(pods, ExplainTarget("Pod", "wbe-0"), "default")
    with pytest.raises(ConfigError, match="no pod far in namespace default, but one in other: use -n other"):
        find_pod(pods, ExplainTarget("Pod", "far"), "default")
    with pytest.raises(ConfigError, match=r"no pod zzz in namespace default$"):
        find_pod(pods, ExplainTarget("Pod", "zzz"), "default")
