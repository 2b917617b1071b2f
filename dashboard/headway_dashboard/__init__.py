"""Headway's dashboard: it watches a server through HTTP, and acts through its admin API.

Imports run one way: ``entry -> page -> views -> components, panels -> sources -> model``. Nothing here imports the
plugin or vLLM, so the dashboard runs on another machine than the server.
"""

from headway_dashboard.settings import Settings

__all__ = ["Settings"]
__version__ = "0.1.0"
