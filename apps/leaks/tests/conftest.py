from tests.programs import program, python  # noqa: F401 - fixtures
