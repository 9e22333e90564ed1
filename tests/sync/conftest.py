"""What the tests of sync share: the clock that moves only when no tasklet can run, and several stacks."""

from tests.core.conftest import clock, several_stacks  # noqa: F401 - fixtures
