"""URLs."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import RUN, Table, answer

ANSWERS: Table = (
    ('isURL("https://example.com/path?q=1#f")', True),
    ('isURL("/path")', True),
    ('isURL("path")', False),
    ('isURL("")', False),
    ('isURL("//host/path")', True),
    ('isURL("https://")', True),
    ('isURL("https:")', True),
    ('isURL("mailto:a@b")', True),
    ('isURL("1http://a")', False),
    ('isURL("http://a b")', False),
    ('isURL("http://a/b c")', True),
    ('isURL("http://[::1]:80/")', True),
    ('isURL("http://[::1/")', False),
    ('isURL("http://[1.2.3.4]/")', False),
    ('isURL("http://a:80b/")', False),
    ('isURL("http://a:b:80/")', False),
    ('isURL("x://a:b:80/")', True),
    ('isURL("http://a:/")', True),
    ('isURL("http://user:pw@host/")', True),
    ('isURL("http://us er@host/")', False),
    ('isURL("http://a%41/")', False),
    ('isURL("http://a%zz/")', False),
    ('isURL("http://a/%zz")', False),
    ('isURL("http://a/%41")', True),
    ('isURL("*")', True),
    ('isURL(":")', False),
    ('isURL("a:b")', True),
    ('isURL("http://a<b/")', True),
    ('isURL("http://a^b/")', False),
    ('isURL("http://ü/")', True),
    (r'isURL("http://a\x7f/")', False),
    ('isURL("http://[fe80::1%25en0]:80/")', True),
    (('url("https://user@Example.com:8080/a%20b/c d?x=1&y=2&x=3#frag").getScheme() == "https"'), True),
    ('url("HTTPS://a").getScheme() == "https"', True),
    ('url("https://Example.com:8080/p").getHost() == "Example.com:8080"', True),
    ('url("https://Example.com:8080/p").getHostname() == "Example.com"', True),
    ('url("https://Example.com:8080/p").getPort() == "8080"', True),
    ('url("https://Example.com/p").getPort() == ""', True),
    ('url("https://[::1]:80/p").getHost() == "[::1]:80"', True),
    ('url("https://[::1]:80/p").getHostname() == "::1"', True),
    ('url("https://[::1]/p").getHostname() == "::1"', True),
    ('url("https://[::1]/p").getPort() == ""', True),
    ('url("https://a/b%20c").getEscapedPath() == "/b%20c"', True),
    ('url("https://a/b c").getEscapedPath() == "/b%20c"', True),
    ('url("https://a/b%2Fc").getEscapedPath() == "/b%2Fc"', True),
    ('url("https://a/ü").getEscapedPath() == "/%C3%BC"', True),
    ('url("https://a").getEscapedPath() == ""', True),
    ('url("/x/y?q#f").getEscapedPath() == "/x/y"', True),
    ('url("//host/path").getHost() == "host"', True),
    ('url("//host/path").getHost() == ""', False),
    ('url("https://a/?x=1&y=2&x=3").getQuery() == {"x": ["1", "3"], "y": ["2"]}', True),
    ('url("https://a/?x=1%20+2").getQuery() == {"x": ["1  2"]}', True),
    ('url("https://a/?x").getQuery() == {"x": [""]}', True),
    ('url("https://a/?").getQuery() == {}', True),
    ('url("https://a/?x=%zz&y=1").getQuery() == {"y": ["1"]}', True),
    ('url("https://a/?x;y=1").getQuery() == {}', True),
    ('url("https://a/") == url("https://a/")', True),
    ('url("https://a/") == url("HTTPS://a/")', True),
    ('url("x") == url("x")', RUN),
    ('dyn(url("https://a/")) == "https://a/"', RUN),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
