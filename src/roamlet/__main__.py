"""`python -m roamlet`: the same as the `roamlet` command."""

import sys

from roamlet_command import main

if __name__ == "__main__":
    sys.exit(main())
