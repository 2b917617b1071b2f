"""Admission of requests: the asyncio gate around the desk, the gateway for engine calls, and the link to the engine.

A request holds a ``Permit``; an engine client whose calls pass the gate is a policy client.
"""

from headway.admission.diversion import EngineCall, NotServedError
from headway.admission.engine_link import EngineLink
from headway.admission.gate import Gate, loop_time_s
from headway.admission.gateway import Gateway
from headway.admission.listeners import EndedRequest
from headway.admission.model_names import ModelNames
from headway.admission.permit import Permit
from headway.admission.policy_client import make_policy_class
from headway.admission.prefix_hashes import fields_prefix
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext

__all__ = [
    "REQUEST_CONTEXT",
    "EndedRequest",
    "EngineCall",
    "EngineLink",
    "Gate",
    "Gateway",
    "ModelNames",
    "NotServedError",
    "Permit",
    "RequestContext",
    "fields_prefix",
    "loop_time_s",
    "make_policy_class",
]
