"""A scheduler of one's own: Kuberth's command line with a plugin and a queue added.

Run it like kuberth:  python -m examples.own_distribution up
"""

from __future__ import annotations

from examples.prefer_quiet_nodes import PreferQuietNodes
from kuberth.cli import main
from kuberth.queue.fair_share import fair_share

if __name__ == "__main__":
    main(
        plugins={"PreferQuietNodes": PreferQuietNodes},
        queue=fair_share(tenant_label="app", weights={"db": 2}),
    )
