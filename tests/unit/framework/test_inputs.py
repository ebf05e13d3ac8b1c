"""The statement of a plugin: given whole or not at all, and refused by name where it is wrong."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kuberth.errors import ConfigError
from kuberth.framework import (
    DependsOn,
    FilterPlugin,
    Idle,
    Inputs,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from tests.unit.framework.harness import build, plugin

POINTS: dict[str, type[Plugin]] = {
    "pre_filter": PreFilterPlugin,
    "filter": FilterPlugin,
    "post_filter": PostFilterPlugin,
    "pre_score": PreScorePlugin,
    "score": ScorePlugin,
}


def with_attributes(*phases: str, **attributes: Any) -> type[Plugin]:
    made = plugin("Mine", *(POINTS[phase] for phase in phases), **dict.fromkeys(phases))
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def refusal(made: type[Plugin]) -> str:
    with pytest.raises(ConfigError) as refused:
        build(made)
    return str(refused.value)


@pytest.mark.parametrize("phase", POINTS)
def test_a_phase_that_the_plugin_serves_has_to_be_stated(phase: str) -> None:
    message = refusal(with_attributes(phase, inputs=Inputs({"metadata.labels"})))
    assert f"plugin 'Mine': its `inputs` do not state what {phase} depends on" in message
    assert f"{phase}=DependsOn" in message


@pytest.mark.parametrize("phase", POINTS)
def test_a_phase_that_it_does_not_serve_cannot_be_stated(phase: str) -> None:
    other = next(each for each in POINTS if each != phase)
    stated: dict[str, Any] = {phase: DependsOn.ANYTHING, other: DependsOn.ANYTHING}
    message = refusal(with_attributes(other, inputs=Inputs({"metadata.labels"}, **stated)))
    assert message == f"plugin 'Mine': its `inputs` state {phase}, which it does not implement"


@pytest.mark.parametrize("phase", ["pre_filter", "pre_score"])
@pytest.mark.parametrize("scope", [DependsOn.NODE_OBJECT, DependsOn.REQUESTS, DependsOn.NODE])
def test_what_comes_before_the_nodes_does_not_depend_on_one(phase: str, scope: DependsOn) -> None:
    stated: dict[str, Any] = {phase: scope}
    message = refusal(with_attributes(phase, inputs=Inputs({"metadata.labels"}, **stated)))
    assert f"plugin 'Mine': {phase} does not evaluate nodes" in message


@pytest.mark.parametrize("field", ["spec.colour", "info.colour", "labels", "spec.affinity.node_affinity", ""])
def test_a_field_that_pods_do_not_have_is_named(field: str) -> None:
    message = refusal(with_attributes("filter", inputs=Inputs({field}, filter=DependsOn.NODE)))
    assert f"plugin 'Mine': its `inputs` name {field!r}, which pods do not have" in message
    assert "'spec.tolerations'" in message


@pytest.mark.parametrize("source", [object(), 7, None], ids=["object", "number", "none"])
def test_what_has_no_version_cannot_be_followed(source: Any) -> None:
    inputs = Inputs({"metadata.labels"}, filter=DependsOn.NODE, versions=(source,))
    assert "has no integer `version`" in refusal(with_attributes("filter", inputs=inputs))


@pytest.mark.parametrize(
    "idle, message",
    [
        (lambda _info: True, "`idle` of its `inputs` is"),
        (Idle({"spec.colour"}, lambda _info: True), "name 'spec.colour', which pods do not have"),
        (Idle((), lambda _info: True, cast(Any, (object(),))), "has no integer `version`"),
    ],
    ids=["function", "field", "version"],
)
def test_what_leaves_a_plugin_idle_is_checked(idle: Any, message: str) -> None:
    inputs = Inputs((), filter=DependsOn.NODE, only_with={"metadata.labels"}, idle=idle)
    assert message in refusal(with_attributes("filter", inputs=inputs))


@pytest.mark.parametrize(
    "inputs", [frozenset({"metadata.labels"}), "spec", {"filter": "node"}], ids=["fields", "text", "mapping"]
)
def test_anything_else_is_no_statement(inputs: Any) -> None:
    assert "plugin 'Mine': its `inputs` are" in refusal(with_attributes("filter", inputs=inputs))


@pytest.mark.parametrize(
    "former, value, instead",
    [
        ("reads", frozenset({"metadata.labels"}), "inputs = Inputs("),
        ("reads", None, "inputs = Inputs("),
        ("hints_read", frozenset({"info.group"}), "inputs = Inputs("),
        ("pre_filter_depends_on", "pod", "pre_filter=DependsOn.POD"),
        ("filter_depends_on", "static", "filter=DependsOn.NODE_OBJECT"),
        ("pre_score_depends_on", "pod", "pre_score=DependsOn.POD"),
        ("score_depends_on", "static", "score=DependsOn.NODE_OBJECT"),
        ("tells_apart", lambda _self, _info: True, "versions="),
        ("keeps_out", lambda _self: (), "the gate is asked before the hints"),
    ],
)
def test_a_statement_of_the_former_kind_is_refused_with_what_to_write(
    former: str, value: Any, instead: str
) -> None:
    message = refusal(with_attributes("filter", **{former: value}))
    assert f"plugin 'Mine' has an attribute {former!r}" in message
    assert instead in message


def test_a_plugin_may_state_nothing() -> None:
    profile = build(with_attributes("filter", "score"))
    assert profile.statements.of("Mine") is None


def test_fields_without_which_it_has_nothing_to_do_are_among_those_it_reads() -> None:
    assert Inputs({"spec.volumes"}, only_with={"info.disks"}).pod == {"spec.volumes", "info.disks"}
