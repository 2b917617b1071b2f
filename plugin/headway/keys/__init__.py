"""The keys file: API keys as digests, the tenants that they belong to, and what each tenant is entitled to."""

from headway.keys.class_names import unknown_classes
from headway.keys.edit import MadeKey, add_key, revoke_key, rotate_key, set_budget
from headway.keys.key_ring import Key, KeyRing, digest_of
from headway.keys.keys_file import KeysFile, read_keys_file
from headway.keys.problems import KeysFileError, Problem
from headway.keys.schema import BUDGET_FIELDS

__all__ = [
    "BUDGET_FIELDS",
    "Key",
    "KeyRing",
    "KeysFile",
    "KeysFileError",
    "MadeKey",
    "Problem",
    "add_key",
    "digest_of",
    "read_keys_file",
    "revoke_key",
    "rotate_key",
    "set_budget",
    "unknown_classes",
]
