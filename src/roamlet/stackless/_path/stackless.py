"""What `import stackless` finds: it puts roamlet.stackless in its own place."""

import sys

try:
    import roamlet.stackless
except ModuleNotFoundError as error:
    if error.name != "roamlet":
        raise
    # roamlet lies where only the program that started this one looks, in its working directory perhaps.
    sys.path.append(__file__.rpartition("/roamlet/stackless/")[0])
    import roamlet.stackless

sys.modules[__name__] = roamlet.stackless
