"""The model of the engine that stands in for vLLM, and its ceiling.

engine         the time of each step, and the sequences in it
sequence       one sequence
steps          the result of steps: what began, ended and was dropped in them
variation      how the engine's speed varies: what disturbs a step that begins now
disturbances   each of them: slow spells, pauses, a neighbour, drift, jitter
draws          their random numbers
prefix_blocks  the blocks that sequences share, and those that a prefix cache finds again
capacity       the objectives, and the most that any policy could serve within them
"""
