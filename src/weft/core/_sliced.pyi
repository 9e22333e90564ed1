from weft.core._core import *  # noqa: F403
from weft.core._core import backend as backend
