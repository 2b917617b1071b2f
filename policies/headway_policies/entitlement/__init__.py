"""Entitlement: which classes, share, rates and caps a tenant has."""

from headway_policies.entitlement.caps import RequestCaps
from headway_policies.entitlement.entitlement import Entitlement
from headway_policies.entitlement.tenant_rates import Allowance, Allowances, Rate, RateRefusal, TenantRates
from headway_policies.entitlement.token_bucket import TokenBucket

__all__ = ["Allowance", "Allowances", "Entitlement", "Rate", "RateRefusal", "RequestCaps", "TenantRates", "TokenBucket"]
