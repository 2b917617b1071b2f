"""``python -m headway``: the same as the ``headway`` command."""

import sys

from headway_tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
