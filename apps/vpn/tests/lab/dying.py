"""Functions that are sent to the servers of a lab and end in the middle of their work, as by a power cut of their process alone."""

import os

from weft_vpn.host import act as host_act


def act_until(steps, interface, actions, token, rollback_after):
    """host_act.act(), whose process is gone at once when `steps` actions are done: no handler of an error runs any more."""
    done = []
    for name, function in list(host_act._DO.items()):

        def counted(interface, action, function=function):
            if len(done) == steps:
                os._exit(9)
            function(interface, action)
            done.append(action)

        host_act._DO[name] = counted
    if steps >= len(actions):
        host_act.act(interface, actions, token, rollback_after)
        os._exit(9)  # before it has answered
    return host_act.act(interface, actions, token, rollback_after)


def forgotten_pieces():
    """Temporary files that nobody has finished, on a server."""
    folders = ("/etc/wireguard", "/etc/sysctl.d")
    return [
        name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder) if name.startswith(".weft-")
    ]
