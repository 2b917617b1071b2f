"""The environment variables of Headway: each stands once, as an attribute of ``Environment``, with all that is known.

table        the variables: name, kind, usual value, bounds, one sentence, and what reads it
kinds        how each kind is read, and what is said of a wrong value
serve_flags  the flags of ``headway serve``, which set some of them
"""

from headway.settings.kinds import PREFIX, Variable
from headway.settings.serve_flags import SERVE_FLAGS, SERVE_USAGE
from headway.settings.table import MAX_TOKEN_CHARS, MIN_TOKEN_CHARS, SECRET_NAMES, VARIABLES, Environment

__all__ = [
    "MAX_TOKEN_CHARS",
    "MIN_TOKEN_CHARS",
    "PREFIX",
    "SECRET_NAMES",
    "SERVE_FLAGS",
    "SERVE_USAGE",
    "VARIABLES",
    "Environment",
    "Variable",
]
