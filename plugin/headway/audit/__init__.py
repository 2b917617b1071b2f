"""The audit: changes, refused attempts and commands that changed nothing, in memory, in the log and in a file.

    caller      the person or program behind an action
    attempts    entries that are counted where they repeat
    audit_log   what is kept in memory for the admin API
    audit_file  the file, which is appended to, rotated, and written outside the event loop

Never a token, never a prompt.
"""

from headway.audit.audit_file import AuditFile
from headway.audit.audit_log import MAX_CHANGES, MAX_CHARS, MAX_NO_OPS, MAX_REFUSED, MAX_STRANGERS, Audit, plain
from headway.audit.caller import NO_ROLE, Caller

__all__ = [
    "MAX_CHANGES",
    "MAX_CHARS",
    "MAX_NO_OPS",
    "MAX_REFUSED",
    "MAX_STRANGERS",
    "NO_ROLE",
    "Audit",
    "AuditFile",
    "Caller",
    "plain",
]
