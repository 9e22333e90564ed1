from roamlet.core._core import *  # noqa: F403
from roamlet.core._core import backend as backend
