"""Object factories, clocks, an in-memory API and a whole scheduler, for tests of Kuberth and of plugins.

Nothing in Kuberth imports this package.
"""

from kuberth.clock import VirtualTimeLoop, run_in_virtual_time
from kuberth.local.memory_api import MemoryApi
from kuberth.testing.clock import FakeClock
from kuberth.testing.factories import make_namespace, make_node, make_pod
from kuberth.testing.harness import World, profile, running, running_with
from kuberth.testing.plugin_contract import (
    PluginReport,
    PluginTiming,
    RuleFinding,
    RuleOutcome,
    assert_keeps_contract,
    check_plugin,
)
from kuberth.testing.queue_contract import QUEUE_CONTRACT, QueueRule, make_queue_context, queue_contract
from kuberth.testing.recording import OutsideRead, ReadRecorder, assert_reads_only

__all__ = [
    "QUEUE_CONTRACT",
    "FakeClock",
    "MemoryApi",
    "OutsideRead",
    "PluginReport",
    "PluginTiming",
    "QueueRule",
    "ReadRecorder",
    "RuleFinding",
    "RuleOutcome",
    "VirtualTimeLoop",
    "World",
    "assert_keeps_contract",
    "assert_reads_only",
    "check_plugin",
    "make_namespace",
    "make_node",
    "make_pod",
    "make_queue_context",
    "profile",
    "queue_contract",
    "run_in_virtual_time",
    "running",
    "running_with",
]
