"""Functions that are sent to the servers of a lab: they end or wait in the middle of their work, or end a rollback's time."""

import contextlib
import json
import os
import time

from roamlet_vpn.host import act as host_act
from roamlet_vpn.host import rollback as host_rollback
from roamlet_vpn.host import system as host_system

HELD, GO_ON = "/run/roamlet-held", "/run/roamlet-go-on"


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


def act_held(steps, interface, actions, token, rollback_after):
    """host_act.act(), which waits between `steps` actions and the next one, or after the last, until the test lets it go on."""
    begun = []
    turn = host_rollback.turn

    @contextlib.contextmanager
    def held_turn(token):
        if len(begun) == steps:
            hold()
        begun.append(token)
        with turn(token):
            yield

    host_act.rollback.turn = held_turn
    answer = host_act.act(interface, actions, token, rollback_after)
    if steps >= len(actions):
        hold()
    return answer


def hold():
    with open(HELD, "w"):
        pass
    while not os.path.exists(GO_ON):
        time.sleep(0.02)


def run_out_of_time():
    """Let the time of the rollback that waits here be over; returns whether there is one."""
    waiting = host_rollback.armed()
    if waiting is not None:
        path = os.path.join(host_rollback.FOLDER, waiting["token"], "state.json")
        state = dict(json.loads(host_system.read(path).decode("utf-8")), deadline=time.monotonic())
        host_system.write(path, json.dumps(state).encode("utf-8"), 0o600)
    return waiting is not None


def forgotten_pieces():
    """Unfinished temporary files on a server."""
    folders = ("/etc/wireguard", "/etc/sysctl.d")
    return [
        name
        for folder in folders
        if os.path.isdir(folder)
        for name in os.listdir(folder)
        if name.startswith(".roamlet-")
    ]
