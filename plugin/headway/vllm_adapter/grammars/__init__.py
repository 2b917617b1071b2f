"""Grammars: the grammar of a request is compiled outside of the engine first, within bounds.

guard           the API server's side: verdicts by hash, in turn for each tenant
plain           which grammars need no check
frames          the messages between the two processes
walk            the cost of a grammar at each token
compile_server  the process that compiles, each grammar in a child of its own with bounded time and memory
"""

from headway.vllm_adapter.grammars.frames import Limits
from headway.vllm_adapter.grammars.guard import MOST_IN_LINE, GrammarGuard, GrammarTooLargeError

__all__ = ["MOST_IN_LINE", "GrammarGuard", "GrammarTooLargeError", "Limits"]
