"""The parts of ``make gpu-check``: its stages, what each measures, and the report."""
