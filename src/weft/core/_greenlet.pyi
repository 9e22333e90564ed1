from weft.core._core import *
from weft.core._core import backend as backend
