"""What `roamlet ps` needs to find asyncio's tasks in the memory of this process. Since 3.14 asyncio has a list of its own."""

import asyncio
from typing import Any

from roamlet.core import published


def publish() -> None:
    """Name the sets that asyncio keeps its tasks in, and their class."""
    tasks: Any = asyncio.tasks
    scheduled = getattr(tasks, "_scheduled_tasks", None)  # since 3.12
    scheduled = scheduled if scheduled is not None else tasks._all_tasks
    published["asyncio tasks"] = scheduled.data  # the set in it, of weak references
    eager = getattr(tasks, "_eager_tasks", None)
    if eager is not None:
        published["asyncio eager tasks"] = eager
    published["asyncio.Task"] = asyncio.Task
