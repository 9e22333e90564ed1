"""What `roamlet demo` runs in its contexts, loaded here and there as roamlet_demo_work. Needs Django, nothing of roamlet."""

import platform
import sys

import django
from django.db import models


def imported() -> dict[str, object]:
    """What is there after `django.db.models` has been imported from memory."""
    names = [name for name in sys.modules if name.split(".")[0] == "django"]
    return {
        "python": platform.python_version(),
        "django": django.get_version(),
        "modules": len(names),
        "fields": sorted(name for name in models.__all__ if name.endswith("Field")),
    }


def lookups(field: str) -> list[str]:
    """The names of the comparisons that Django knows for one type of database field."""
    return sorted(getattr(models, field).get_lookups())
