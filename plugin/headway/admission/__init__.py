"""Admission of requests: the asyncio gate around the desk, and the gateway through which engine calls pass it.

A request holds a ``Permit``; an engine client whose calls pass the gate is a policy client.
"""

from headway.admission.gate import Gate, Meter, Permit, loop_time_s
from headway.admission.gateway import REQUEST_CONTEXT, Gateway, RequestContext
from headway.admission.policy_client import make_policy_class

__all__ = [
    "REQUEST_CONTEXT",
    "Gate",
    "Gateway",
    "Meter",
    "Permit",
    "RequestContext",
    "loop_time_s",
    "make_policy_class",
]
