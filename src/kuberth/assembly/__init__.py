"""Assembles the scheduler: profiles with their plugins, and the whole scheduler around them.

from kuberth.assembly import Scheduler
"""

from kuberth.assembly.profiles import assemble, effective_gates, full_registry
from kuberth.assembly.scheduler import Scheduler

__all__ = ["Scheduler", "assemble", "effective_gates", "full_registry"]
