"""The commands that measure under load, a running server or a model of an engine, and judge by objectives."""
