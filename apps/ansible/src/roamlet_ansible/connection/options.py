"""The options of core's ssh plugin for ours, without reading its documentation again in each worker.

Core reads the documentation of a collection's plugin anew in each worker process, since nothing has loaded the plugin in the
process that forks them: 13 ms of CPU for each task. It does not when the options are known, as those of its own plugins are.
"""

from typing import Any

from ansible import constants

VIA: dict[str, Any] = {"type": "str", "vars": [{"name": "roamlet_via"}]}  # doc_fragments/via.py describes it


def share_options(name: str, with_options_of: str) -> None:
    """Give the connection plugin `name` the options of core's plugin `with_options_of`, if core has read those already.

    Otherwise core reads the documentation of `name`, which says the same.
    """
    config = constants.config
    if not config.has_configuration_definition("connection", name):
        known = config.get_configuration_definitions("connection", with_options_of)
        if known:
            config.initialize_plugin_configuration_definitions("connection", name, {**known, "roamlet_via": VIA})
