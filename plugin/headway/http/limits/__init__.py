"""The bounds of any request, before it is read: bytes, structure and time."""

from headway.http.limits.bounds import MAX_TARGET_BYTES, Bounds
from headway.http.limits.request_limits import BODY, Budget, RequestLimits, is_json, whole_body

__all__ = ["BODY", "MAX_TARGET_BYTES", "Bounds", "Budget", "RequestLimits", "is_json", "whole_body"]
