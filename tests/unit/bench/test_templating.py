"""Templates: Go's text/template as far as workloads use it, and a clear word about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.bench.templating import Template
from kuberth.errors import ConfigError


def rendered(text: str, index: int = 7, count: int = 30) -> str:
    return Template(text, source="t.yaml").text(index, count)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("plain: {a: b}", "plain: {a: b}"),
        ("{{.Index}}/{{ .Count }}", "7/30"),
        ("{{Mod .Index 5}}", "2"),
        ("{{Mod -7 5}}", "-2"),
        ("{{DivideInt .Index 2}}", "3"),
        ("{{DivideInt -7 2}}", "-3"),
        ("{{DivideFloat .Index 2}}", "3.5"),
        ("{{DivideFloat 6 2}}", "3"),
        ("{{DivideFloat 1 3}}", "0.3333333333333333"),
        ("{{MultiplyFloat 1e20 10}}", "1e+21"),
        ("{{MultiplyFloat 1e16 10}}", "100000000000000000"),
        ("{{AddInt .Index 1 2}}", "10"),
        ("{{AddFloat 0.5 .Index}}", "7.5"),
        ("{{SubtractInt .Index 10}}", "-3"),
        ("{{SubtractFloat 1 0.5}}", "0.5"),
        ("{{MultiplyInt .Index 2}}", "14"),
        ("{{AddInt (Mod .Index 3) (DivideInt .Count 10)}}", "4"),
        ("a {{- /* said why */ -}} b", "ab"),
        ("a\n{{- .Index }}", "a7"),
        ("{{ .Index -}}\n b", "7b"),
    ],
    ids=str,
)
def test_what_is_understood(text: str, expected: str) -> None:
    assert rendered(text) == expected


@pytest.mark.parametrize(
    "text, named",
    [
        ("{{if .Index}}x{{end}}", "if"),
        ("{{range .Items}}{{end}}", "range"),
        ("{{.Name}}", ".Name"),
        ("{{printf `%d` .Index}}", "printf"),
        ("{{.Index | Mod 5}}", "|"),
        ("{{$x := 1}}", "$x"),
        ("{{}}", "nothing"),
        ("{{Mod (.Index 2}}", "a ( without )"),
        ("{{Mod 1 2) }}", ")"),
    ],
    ids=str,
)
def test_what_is_not_is_named(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=r"t\.yaml") as error:
        rendered(text)
    assert f"has {named}" in str(error.value)
    assert "understood are .Index, .Count" in str(error.value)


@pytest.mark.parametrize(
    "text", ["{{Mod 1 0}}", "{{DivideInt 1 0}}", "{{DivideFloat 1 0}}", "{{Mod 1}}"], ids=str
)
def test_what_cannot_be_computed_names_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match=r"t\.yaml, object 7 of 30"):
        rendered(text)


def test_an_action_without_its_end() -> None:
    with pytest.raises(ConfigError, match="has no }}"):
        rendered("name: {{.Index")


def test_a_number_stays_a_number_and_the_tree_of_a_static_template_is_made_once() -> None:
    template = Template("spec: {size: {{.Index}}}", source="t.yaml")
    assert not template.static
    assert template.tree(3, 5) == {"spec": {"size": 3}}
    static = Template("spec: {size: 1}", source="t.yaml")
    assert static.static
    assert static.tree(0, 2) is static.tree(1, 2)


@pytest.mark.parametrize("text", ["- a\n- b\n", "", "a: b: c", "metadata: 5"], ids=repr)
def test_what_is_no_object(text: str) -> None:
    with pytest.raises(ConfigError, match=r"template t\.yaml"):
        Template(text, source="t.yaml").tree(0, 1)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Template.read(tmp_path / "gone.yaml")
