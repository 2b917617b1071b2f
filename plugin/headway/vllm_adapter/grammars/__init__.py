"""Grammars: the grammar of a request is compiled outside of the engine first, within bounds.

guard           the API server's side: verdicts by hash, in turn for each tenant
plain           which grammars need no check
frames          the messages between the two processes
walk            the cost of a grammar at each token
compile_server  the process that compiles, each grammar in a child of its own with bounded time and memory

Nothing is imported here: the children of ``compile_server`` are copies of it, and it needs none of the guard.
"""
