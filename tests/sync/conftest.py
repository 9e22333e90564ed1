"""What the tests of sync share: the clock that moves only when no tasklet can run."""

from tests.core.conftest import clock  # noqa: F401 - a fixture
