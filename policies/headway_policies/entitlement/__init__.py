"""Entitlement: which classes, share, rates and caps a tenant has."""

from headway_policies.entitlement.caps import RequestCaps
from headway_policies.entitlement.entitlement import Entitlement

__all__ = ["Entitlement", "RequestCaps"]
