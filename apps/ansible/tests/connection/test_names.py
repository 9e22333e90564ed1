"""The class that goes before core's in the bases replaces what it means to replace, and nothing else."""

import pytest

MEANT = {
    "__init__",
    "close",
    "exec_command",
    "fetch_file",
    "get_option",
    "has_pipelining",
    "module_implementation_preferences",
    "connected",
    "put_file",
    "reset",
    "set_options",
}


@pytest.mark.parametrize("name", ["ssh", "local"])
def test_no_step_of_core_is_replaced_by_accident(name):
    connections = pytest.importorskip(f"ansible.plugins.connection.{name}")
    # Inside: it imports ansible.
    from roamlet_ansible.connection.plugin import RoamletConnection

    own = {one for one in vars(RoamletConnection) if not one.startswith("__") or one == "__init__"}
    of_core = {one for each in connections.Connection.__mro__[:-1] for one in vars(each)}
    assert own & of_core <= MEANT
