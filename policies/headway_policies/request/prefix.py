"""The prefix of a prompt, as hashes of its beginnings: what two prompts have in common, without their text.

A prompt is compared by its first 64, 96, 144, ... tokens: each beginning is half as long again as the one before it, so
that 16 hashes cover 27,994 tokens, and a common beginning is known to two thirds of its length at least. Two prompts
that have the n-th hash in common have all hashes before it in common. Tokens may be estimated; the hashes are keyed and
computed where the text is.
"""

from __future__ import annotations

from itertools import accumulate

_FIRST_TOKENS = 64
_MAX_BLOCKS = 16

#: The lengths of the beginnings, in tokens.
PREFIX_TOKENS: tuple[int, ...] = tuple(
    accumulate(range(_MAX_BLOCKS - 1), lambda tokens, _: tokens * 3 // 2, initial=_FIRST_TOKENS)
)

#: The tokens that each beginning adds to the one before it.
BLOCK_TOKENS: tuple[int, ...] = tuple(
    longer - shorter for shorter, longer in zip((0, *PREFIX_TOKENS), PREFIX_TOKENS, strict=False)
)
