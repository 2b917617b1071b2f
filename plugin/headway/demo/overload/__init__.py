"""The overload of the demo: more than the engine can serve, for a bounded time.

phase   it is measured, exceeded, drained     figures   what became of it     report   that as text
"""
