"""The fit of an engine's step time: one step, the whole range of steps, and short intervals of them."""
