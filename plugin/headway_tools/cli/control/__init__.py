"""The commands to a running server that change no preset: a module for each."""
