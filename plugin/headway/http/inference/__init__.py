"""Requests that may reach the engine: what they ask for is read, and their response waits for an admission."""

from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.inference.request_rules import RequestRules

__all__ = ["AdmissionMiddleware", "RequestRules"]
