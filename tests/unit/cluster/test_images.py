from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.core import ContainerImage
from kuberth.cluster.images import MAX_UNKNOWN, ImageColumns

IMAGES = st.lists(
    st.builds(
        ContainerImage,
        names=st.lists(st.sampled_from(["nginx", "nginx:1", "busybox"]), max_size=2).map(tuple),
        size_bytes=st.integers(0, 10**12),
    ),
    max_size=3,
    unique_by=lambda image: image.names,
)


@given(
    st.lists(st.tuples(st.integers(0, 3), IMAGES | st.none())), st.sets(st.sampled_from(["nginx", "busybox"]))
)
def test_columns_are_what_nodes_report(
    steps: list[tuple[int, list[ContainerImage] | None]], early: set[str]
) -> None:
    columns = ImageColumns(4)
    for name in early:
        columns.column(name)
    rows: list[list[ContainerImage]] = [[] for _ in range(4)]
    for row, images in steps:
        if images is None:
            columns.clear(row)
        else:
            columns.set(row, images)
        rows[row] = images or []
    columns.grow(6)
    for name in ("nginx", "nginx:1", "busybox", "unknown"):
        sizes = [[image.size_bytes for image in images if name in image.names] for images in rows] + [[], []]
        column = columns.column(name)
        assert column.present.tolist() == [bool(found) for found in sizes]
        assert column.size_bytes.tolist() == [found[-1] if found else 0 for found in sizes]
        assert column.node_count == sum(map(bool, sizes))


def test_an_image_of_no_size_is_still_there() -> None:
    columns = ImageColumns(2)
    columns.set(1, [ContainerImage(names=("scratch",), size_bytes=0)])
    assert columns.column("scratch").present.tolist() == [False, True]


def test_names_that_no_node_has_are_forgotten_in_the_end() -> None:
    columns = ImageColumns(4)
    columns.set(1, [ContainerImage(names=("known",), size_bytes=7)])
    known = columns.column("known")
    for number in range(3 * MAX_UNKNOWN):
        assert columns.column(f"made-up-{number}").node_count == 0
    assert len(columns._columns) <= 1 + MAX_UNKNOWN
    assert columns.column("known") is known
