"""What the soak tests of contexts call over there is what the other tests of contexts call."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "remote" / "sent"))
