"""Requests that may reach the engine: what they ask for is read, and their response waits for an admission."""

from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.inference.request_class import PRIORITY_HEADERS
from headway.http.inference.request_rules import RequestRules
from headway.http.inference.retries import Retries
from headway.http.inference.tenant_charge import TenantCharges

__all__ = ["PRIORITY_HEADERS", "AdmissionMiddleware", "RequestRules", "Retries", "TenantCharges"]
