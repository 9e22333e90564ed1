"""What the tests of sync share: the clock that moves only when nobody can run."""

from tests.core.conftest import clock  # noqa: F401 - a fixture
