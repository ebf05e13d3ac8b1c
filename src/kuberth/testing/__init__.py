"""For tests, those of plugin authors too: factories for objects, a clock that stands still, virtual time.

Nothing in Kuberth imports this package.
"""

from kuberth.clock import VirtualTimeLoop, run_in_virtual_time
from kuberth.testing.clock import FakeClock
from kuberth.testing.factories import make_namespace, make_node, make_pod
from kuberth.testing.memory_api import MemoryApi

__all__ = [
    "FakeClock",
    "MemoryApi",
    "VirtualTimeLoop",
    "make_namespace",
    "make_node",
    "make_pod",
    "run_in_virtual_time",
]
