"""Can be imported where it lies. Where it is sent a module is missing, of which it says something else, as numpy does."""

if __file__.startswith("roamlet:"):
    try:
        import roamlet_nowhere  # noqa: F401
    except ImportError:
        raise ImportError("you are in the wrong folder.")


def never():
    pass
