"""The allocation result of a claim: its devices, their configuration, and the nodes that can use them.

In: the chosen devices and their node. Out: an `AllocationResult` per claim, as kube-scheduler writes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from kuberth.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kuberth.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from kuberth.plugins.dynamic_resources.allocator.demand import (
    AllocationError,
    Demand,
    WantedClaim,
    WantedRequest,
)
from kuberth.plugins.dynamic_resources.allocator.search import Found, Pick


def allocations(demand: Demand, found: Found, node_name: str) -> list[AllocationResult]:
    """One per claim of the demand."""
    return [
        AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(map(_result, picks)), config=_configuration(claim, chosen)
            ),
            node_selector=node_selector(picks, node_name),
        )
        for claim, picks, chosen in zip(demand.claims, found.picks, found.chosen, strict=True)
    ]


def _result(pick: Pick) -> DeviceRequestAllocationResult:
    driver, pool, device = pick.device.id
    spec = pick.device.spec
    return DeviceRequestAllocationResult(
        request=pick.request.sub_name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=True if pick.request.is_admin else None,
        tolerations=pick.request.tolerations,
        binding_conditions=spec.binding_conditions or (),
        binding_failure_conditions=spec.binding_failure_conditions or (),
        share_id=str(uuid.uuid4()) if pick.device.is_shareable else None,
        consumed_capacity={name: str(amount) for name, amount in pick.consumed.items()},
    )


def _configuration(
    claim: WantedClaim, chosen: Sequence[WantedRequest]
) -> tuple[DeviceAllocationConfiguration, ...]:
    """The configuration of the classes, each class once; then that of the claim."""
    requests_of: dict[str, list[WantedRequest]] = {}
    for request in chosen:
        if request.class_ is not None:
            requests_of.setdefault(request.class_.metadata.name, []).append(request)
    found: list[DeviceAllocationConfiguration] = []
    for requests in requests_of.values():
        device_class = requests[0].class_
        assert device_class is not None
        names = tuple(request.sub_name for request in requests)
        found += [
            DeviceAllocationConfiguration(source="FromClass", requests=names, opaque=config.opaque)
            for config in device_class.spec.config
        ]
    for config in claim.spec.devices.config:
        # Upstream repeats it for every request that it applies to.
        times = 1
        if config.requests:
            times = sum(
                (request.parent or request.name) in config.requests or request.sub_name in config.requests
                for request in chosen
            )
        found += [
            DeviceAllocationConfiguration(source="FromClaim", requests=config.requests, opaque=config.opaque)
        ] * times
    return tuple(found)


def node_selector(picks: Sequence[Pick], node_name: str) -> NodeSelector | None:
    """The nodes that can use all devices; None: all nodes. Raises AllocationError."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for pick in picks:
        binds = pick.device.spec.binds_to_node and not pick.device.slice.features.is_oldest
        if pick.device.node_name is not None or binds:
            named = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(named,)),))
        selector = pick.device.node_selector
        if selector is None or not selector.node_selector_terms:
            continue
        if len(selector.node_selector_terms) > 1:
            number = len(selector.node_selector_terms)
            raise AllocationError(
                f"create NodeSelector: unsupported ResourceSlice.NodeSelector with {number} terms"
            )
        term = selector.node_selector_terms[0]
        _add_new(fields, term.match_fields)
        _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(
            (each.key, each.operator, frozenset(each.values))
            == (requirement.key, requirement.operator, frozenset(requirement.values))
            for each in known
        ):
            known.append(requirement)
