"""The surroundings of an application in every API server, in front of one engine or of several instances.

Its settings come from the environment (``settings``), its connections are bounded (``protocol``), and each request is
bounded and guarded before it is read (``protection``).
"""

from headway.api_server.protection import protected
from headway.api_server.settings import Settings

__all__ = ["Settings", "protected"]
