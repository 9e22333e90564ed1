"""`python -m roamlet_leaks`: the same as the `roamlet-leaks` command."""

import sys

from roamlet_leaks.cli import main

if __name__ == "__main__":
    sys.exit(main())
