"""Grammars: the grammar of a request is compiled outside of the engine first, within bounds.

guard           the API server's side: verdicts by hash, in turn for each tenant
plain           which grammars need no check
frames          the messages between the two processes
walk            the cost of a grammar at each token
compile_server  the process that compiles, each grammar in a child of its own with bounded time and memory

The names of the guard are imported when they are first used: ``compile_server`` needs none of it, and its children are
copies of it.
"""

import typing

from headway.vllm_adapter.grammars.frames import Limits

if typing.TYPE_CHECKING:
    from headway.vllm_adapter.grammars.guard import MOST_IN_LINE, GrammarGuard, GrammarTooLargeError

__all__ = ["MOST_IN_LINE", "GrammarGuard", "GrammarTooLargeError", "Limits"]


if not typing.TYPE_CHECKING:  # a type checker would take every name for one of the package

    def __getattr__(name: str) -> object:
        """Import the guard at the first use of one of its names."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from headway.vllm_adapter.grammars import guard

        return getattr(guard, name)
