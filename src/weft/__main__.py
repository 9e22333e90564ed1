"""`python -m weft`: the same as the `weft` command."""

import sys

from weft.cli import main

if __name__ == "__main__":
    sys.exit(main())
