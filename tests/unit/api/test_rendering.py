from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.core import Binding, ObjectReference
from kuberth.api.events import Event
from kuberth.api.meta import ObjectMeta
from kuberth.api.rendering import EventFields, EventRenderer, binding_json
from kuberth.api.wire import MicroTime, decode, encode
from kuberth.text.timestamps import micro_moment

# An empty field would be left out by the encoder, and none of these is ever empty but a namespace or a note.
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.sampled_from(['"', "\\", '"},"x":{"', "\r\n", "\x00", "%b%d", "\u2028", "p-1.example", "😀"]),
)
REFERENCES = st.builds(
    ObjectReference,
    api_version=st.just("v1"),
    kind=st.just("Pod"),
    namespace=TEXTS,
    name=TEXTS,
    uid=TEXTS,
    resource_version=TEXTS,
)
LAST_SECOND = 4_102_444_800
"""The year 2100."""


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_binding_is_what_the_encoder_makes_of_it(namespace: str, name: str, uid: str, node: str) -> None:
    rendered = binding_json(namespace=namespace, name=name, uid=uid, node_name=node)
    binding = Binding(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid),
        target=ObjectReference(kind="Node", name=node),
    )
    assert rendered == encode(binding)
    assert decode(Binding, rendered) == binding


@given(
    st.lists(TEXTS, min_size=8, max_size=8),
    REFERENCES,
    st.none() | REFERENCES,
    st.lists(st.integers(0, LAST_SECOND * 10**9), min_size=1, max_size=3),
)
def test_an_event_is_what_the_encoder_makes_of_it(
    texts: list[str], regarding: ObjectReference, related: ObjectReference | None, moments: list[int]
) -> None:
    namespace, name, controller, instance, action, reason, note, type_ = texts
    renderer = EventRenderer()
    for now_ns in moments:
        fields = EventFields(
            name, namespace, now_ns, controller, instance, action, reason, note, type_, regarding, related
        )
        rendered = renderer.event_json(fields)
        event = Event(
            metadata=ObjectMeta(name=name, namespace=namespace),
            event_time=micro_moment(now_ns, MicroTime),
            reporting_controller=controller,
            reporting_instance=instance,
            action=action,
            reason=reason,
            note=note,
            type=type_,
            regarding=regarding,
            related=related,
        )
        assert rendered == encode(event)
        assert decode(Event, rendered) == event
