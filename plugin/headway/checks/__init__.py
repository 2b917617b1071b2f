"""The findings about a server before it starts: one list, gone through at three moments. None imports vLLM.

    environment   the variables: ``headway serve`` and ``headway route`` refuse a failing one, in one line
    start         the arguments of ``vllm serve`` beside them: the server refuses what fails, and logs the rest
    finding       a finding: how bad it is, what was found, and what to do

``headway doctor`` goes through all of them, and shows each. This module imports none, for every process of an engine
reads a part of ``start``.
"""
