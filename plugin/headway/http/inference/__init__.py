"""Requests that may reach the engine: what they ask for is read, and their response waits for an admission."""

from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.inference.request_rules import RequestRules
from headway.http.inference.retries import Retries

__all__ = ["AdmissionMiddleware", "RequestRules", "Retries"]
