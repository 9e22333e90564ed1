"""What the tests of sync share: the core's clock, which moves only when nobody can run."""

from tests.core.conftest import clock  # noqa: F401 - a fixture
