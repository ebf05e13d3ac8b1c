from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from kuberth.api.authentication import TokenReview, TokenReviewSpec, UserInfo
from kuberth.api.authorization import SubjectAccessReview, SubjectAccessReviewSpec
from kuberth.errors import ApiError
from kuberth.https.certificates import CertificateFiles, Certificates, SelfSigned
from kuberth.https.messages import Request
from kuberth.serving.access import DelegatedAccess, ExpiringCache
from kuberth.serving.messages import failure
from kuberth.serving.server import Server
from tests.unit.serving.harness import Authority, FakeClock, Reviewer, fetch, page, run

ROUTES = {path: page(f"page {path}") for path in ("/healthz", "/livez", "/readyz", "/readyz/x", "/metrics")}


def server(access: DelegatedAccess, *, certificates: Certificates | None = None) -> Server:
    return Server(ROUTES, access=access, certificates=certificates or SelfSigned(), host="127.0.0.1", port=0)


async def refuse(kind: str) -> None:
    raise ApiError("connect 10.0.0.1:6443: refused", code=503)


async def never_answer(kind: str) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "path, token, status, reason, message",
    [
        ("/healthz", "", 200, "", ""),
        ("/livez", "", 200, "", ""),
        ("/readyz?verbose", "bad", 200, "", ""),
        ("/metrics", "good", 200, "", ""),
        ("/metrics", "boss", 200, "", ""),
        ("/metrics", "bad", 401, "Unauthorized", "Unauthorized"),
        (
            "/metrics",
            "",
            403,
            "Forbidden",
            'forbidden: User "system:anonymous" cannot get path "/metrics": no rule',
        ),
        (
            "/readyz/x",
            "good",
            403,
            "Forbidden",
            'forbidden: User "prometheus" cannot get path "/readyz/x": no rule',
        ),
        (
            "/nothing",
            "good",
            403,
            "Forbidden",
            'forbidden: User "prometheus" cannot get path "/nothing": no rule',
        ),
        ("/nothing", "boss", 404, "", ""),
    ],
)
def test_access_by_path_and_token(path: str, token: str, status: int, reason: str, message: str) -> None:
    async def main() -> None:
        async with server(DelegatedAccess(Reviewer(), clock=FakeClock())) as serving:
            answer = await fetch(serving.port, path, token=token)
            assert answer.status == status
            if reason:
                assert answer.json == {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Failure",
                    "message": message,
                    "reason": reason,
                    **({"details": {}} if status == 403 else {}),
                    "code": status,
                }

    run(main)


async def ask(
    access: DelegatedAccess, path: str = "/metrics", *, token: str = "good", method: str = "GET"
) -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    refusal = await access.refusal(Request(method, path, headers=headers))
    return 200 if refusal is None else refusal.status


def test_what_is_asked_of_the_api() -> None:
    async def main() -> None:
        api = Reviewer()
        assert await ask(DelegatedAccess(api, clock=FakeClock())) == 200
        token, access = api.reviews
        assert isinstance(token, TokenReview)
        assert isinstance(access, SubjectAccessReview)
        assert token.spec == TokenReviewSpec(token="good")
        assert access.spec == SubjectAccessReviewSpec(
            non_resource_attributes=access.spec.non_resource_attributes,
            user="prometheus",
            uid="u1",
            groups=("monitoring", "system:authenticated"),
            extra={"k": ("v",)},
        )
        asked = access.spec.non_resource_attributes
        assert asked is not None
        assert (asked.path, asked.verb) == ("/metrics", "get")

    run(main)


def test_other_verbs_need_their_own_right() -> None:
    async def main() -> None:
        access = DelegatedAccess(Reviewer(), clock=FakeClock())
        assert await ask(access, method="DELETE") == 403

    run(main)


def test_open_paths_need_no_review() -> None:
    async def main() -> None:
        api = Reviewer()
        api.fault = refuse
        access = DelegatedAccess(api, clock=FakeClock())
        for path in ("/healthz", "/livez", "/readyz"):
            assert await ask(access, path) == 200
        assert api.reviews == []

    run(main)


def test_masters_need_no_review() -> None:
    async def main() -> None:
        api = Reviewer()
        assert await ask(DelegatedAccess(api, clock=FakeClock()), "/anything", token="boss") == 200
        assert api.kinds == ["TokenReview"]

    run(main)


@pytest.mark.parametrize(
    "header",
    ("", "Basic Z29vZA==", "Bearer", "Bearer  ", "good"),
    ids=("none", "basic", "no token", "blank", "no scheme"),
)
def test_without_a_bearer_token_one_is_anonymous(header: str) -> None:
    async def main() -> None:
        api = Reviewer()
        request = Request("GET", "/metrics", headers={"authorization": header})
        refusal = await DelegatedAccess(api, clock=FakeClock()).refusal(request)
        assert refusal is not None
        assert refusal.status == 403
        (review,) = api.reviews
        assert isinstance(review, SubjectAccessReview)
        assert (review.spec.user, review.spec.groups) == ("system:anonymous", ("system:unauthenticated",))

    run(main)


def test_anonymous_may_what_a_rule_lets_them() -> None:
    async def main() -> None:
        api = Reviewer()
        api.rights["system:anonymous", "get"] = {"/metrics"}
        assert await ask(DelegatedAccess(api, clock=FakeClock()), token="") == 200

    run(main)


def test_answers_are_remembered_for_ten_seconds() -> None:
    async def main() -> None:
        api, clock = Reviewer(), FakeClock()
        access = DelegatedAccess(api, clock=clock)
        for _ in range(3):
            assert [await ask(access, token=token) for token in ("good", "bad", "")] == [200, 401, 403]
        assert len(api.reviews) == 4
        # Rights and tokens change; what was said holds for ten seconds, no longer.
        api.rights.clear()
        api.tokens["bad"] = UserInfo(username="late")
        clock.advance(9.9)
        assert [await ask(access, token=token) for token in ("good", "bad", "")] == [200, 401, 403]
        clock.advance(0.1)
        assert [await ask(access, token=token) for token in ("good", "bad", "")] == [403, 403, 403]

    run(main)


@pytest.mark.parametrize("kind", ("TokenReview", "SubjectAccessReview"))
def test_access_is_refused_while_the_api_fails(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api = Reviewer()

        async def fault(asked: str) -> None:
            if asked == kind:
                await refuse(asked)

        api.fault = fault
        async with server(DelegatedAccess(api, clock=FakeClock())) as serving:
            answer = await fetch(serving.port, "/metrics", token="good")
            assert answer.status == 500
            assert answer.text.startswith('Internal Server Error: "/metrics": the API server did not say ')
            assert kind in answer.text
            assert "10.0.0.1" not in answer.text
            api.fault = None
            assert (await fetch(serving.port, "/metrics", token="good")).status == 200, "not remembered"

    with caplog.at_level(logging.DEBUG):
        run(main)
    assert "10.0.0.1:6443: refused" in caplog.text
    assert "Bearer" not in caplog.text


def test_an_api_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuberth.serving.access.REVIEW_SECONDS", 0.01)

    async def main() -> None:
        api = Reviewer()
        api.fault = never_answer
        assert await ask(DelegatedAccess(api, clock=FakeClock())) == 500

    run(main)


def test_denied_goes_before_allowed() -> None:
    async def main() -> None:
        class Torn(Reviewer):
            def _access(self, review: SubjectAccessReview) -> object:  # type: ignore[override]
                return type(review.status)(allowed=True, denied=True)

        assert await ask(DelegatedAccess(Torn(), clock=FakeClock())) == 403

    run(main)


def test_no_token_in_a_log_or_a_repr(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        access = DelegatedAccess(Reviewer(), clock=FakeClock())
        async with server(access) as serving:
            for token in ("s3cret-bad-token", "good"):
                await fetch(serving.port, f"/metrics?x={token}", token=token)

    with caplog.at_level(logging.DEBUG):
        run(main)
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(TokenReview(spec=TokenReviewSpec(token="s3cret")))
    assert "s3cret" not in repr(Request("GET", "/", headers={"authorization": "Bearer s3cret"}))


@pytest.mark.parametrize(
    "name, groups, status, asked_for",
    [
        ("prometheus", (), 200, "prometheus"),
        ("eve", (), 403, "eve"),
        ("root", ("system:masters",), 200, "not asked"),
        ("", ("system:masters",), 403, "system:anonymous"),
    ],
    ids=("by name", "without a right", "by group", "without a name"),
)
def test_client_certificates(
    tmp_path: Path, name: str, groups: tuple[str, ...], status: int, asked_for: str
) -> None:
    async def main() -> None:
        api = Reviewer()
        authority = Authority(tmp_path)
        files = authority.issue("server")
        certificates = CertificateFiles(*files, client_ca=authority.path)
        own = authority.trusted(authority.issue(name, groups=groups, client=True, stem="client"))
        access = DelegatedAccess(api, clock=FakeClock())
        async with server(access, certificates=certificates) as serving:
            answer = await fetch(serving.port, "/metrics", context=own, host="localhost")
            assert answer.status == status
            users = [review.spec.user for review in api.reviews if isinstance(review, SubjectAccessReview)]
            assert (users or ["not asked"]) == [asked_for]
            # A certificate is not needed: a token does as well.
            answer = await fetch(
                serving.port, "/metrics", token="good", context=authority.trusted(), host="localhost"
            )
            assert answer.status == 200

    run(main)


def test_a_server_certificate_is_no_client_certificate(tmp_path: Path) -> None:
    async def main() -> None:
        authority = Authority(tmp_path)
        certificates = CertificateFiles(*authority.issue("server"), client_ca=authority.path)
        wrong = authority.trusted(authority.issue("prometheus", client=False))
        async with server(
            DelegatedAccess(Reviewer(), clock=FakeClock()), certificates=certificates
        ) as serving:
            with pytest.raises(OSError, match=r"certificate|closed|reset"):
                await fetch(serving.port, "/metrics", context=wrong, host="localhost")

    run(main)


def test_the_cache_is_bounded() -> None:
    clock = FakeClock()
    cache: ExpiringCache[int, str] = ExpiringCache(clock, seconds=10, size=3)
    for key in range(5):
        cache.put(key, f"value {key}")
    assert [cache.get(key) for key in range(5)] == [None, None, "value 2", "value 3", "value 4"]
    clock.advance(10)
    assert cache.get(2) is None
    assert len(cache) == 2


def test_a_failure_is_json() -> None:
    assert failure(401, "Unauthorized", "Unauthorized").content_type == "application/json"
