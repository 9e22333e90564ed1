"""Tasklets that wait for each other, by what a Reader has found that their frames refer to.

Inside, the collector knows all that can reach an object. Here references are counted, and what they prove is less.
"""

from roamlet.diagnose import graphs, model
from roamlet.diagnose.outside.reader import Reader
from roamlet.diagnose.outside.referring import MOST_TASKLETS

# Waits that code of the process ends, and nothing else: what tasklets can be in a cycle of.
INSIDE = (
    *(model.SEND, model.RECEIVE, model.SELECT, model.LOCK, model.CONDITION, model.SEMAPHORE, model.EVENT, model.QUEUE),
    *(model.WAKEUP, model.JOIN),
)
PROOF = "roamlet.diagnose.dump() in the process tells whether any can"


def add_cycles(process: model.Process, reader: Reader) -> None:
    """Find them, and add them to `process`. Raises what DAMAGED lists."""
    some = any(found.get("owner") or "joined" in found or "scope" in found for found in reader.waits.values())
    if not some and reader.references is None:
        return
    everyone = {tasklet.id: tasklet for _, tasklet in process.tasklets()}
    waiting = {
        tasklet.id: tasklet.wait
        for tasklet in everyone.values()
        if tasklet.wait is not None
        and (
            tasklet.wait.owner or tasklet.wait.kind == model.JOIN or (reader.references and tasklet.wait.kind in INSIDE)
        )
    }
    if not waiting:
        return
    if len(everyone) > MOST_TASKLETS:
        process.problems.append(
            f"cycles of waiting: there are more than {MOST_TASKLETS:,} tasklets; locks and joins were looked at"
        )
    below = _joined(reader, everyone)
    edges, surely, perhaps = dict[int, list[int]](), set[int](), set[int]()
    others: dict[tuple[object, ...], list[int]] = {}  # who could end a wait: the same for all that wait alike
    for number, wait in waiting.items():
        by_tasklets = wait.owner is not None or wait.kind == model.JOIN
        if by_tasklets:
            found = [wait.owner] if wait.owner is not None else below.get(wait.address or 0, [])
            edges[number] = [each for each in found if each in everyone]
        else:
            of = wait.kind, wait.address, wait.channels
            if of not in others:
                others[of] = [each for each in _users(reader, wait) if not _waits_alike(everyone[each], wait)]
            edges[number] = others[of]
        if wait.due is not None or not edges[number]:
            continue
        if by_tasklets:
            surely.add(number)
        if by_tasklets or (len(edges[number]) <= graphs.FOLLOWED and _is_known(reader, wait)):
            perhaps.add(number)
    stuck, possible = graphs.closed(surely, edges), graphs.closed(perhaps, edges)
    graphs.add_cycles(process, everyone, edges, waiting, stuck, possible, PROOF)


def _joined(reader: Reader, everyone: dict[int, model.Tasklet]) -> dict[int, list[int]]:
    """The tasklets whose end is waited for, by the address of the Event."""
    by_scope: dict[int, list[int]] = {}
    for t, (_, _, scope) in reader.parents.items():
        if t in everyone:
            by_scope.setdefault(scope, []).append(t)
    below = {}
    for at, found in reader.waits.items():
        if "joined" in found:
            below[at] = [found["joined"][0]]
        elif "scope" in found:
            below[at] = by_scope.get(found["scope"][0], [])
    return below


def _users(reader: Reader, wait: model.Wait) -> list[int]:
    """The tasklets that refer to what is waited for."""
    if reader.references is None:
        return []
    found = [each for at in wait.channels or (wait.address or 0,) for each in reader.references.users.get(at, ())]
    return list(dict.fromkeys(found))


def _waits_alike(other: model.Tasklet, wait: model.Wait) -> bool:
    """Whether a tasklet waits in the same way for the same: it wakes no other that does."""
    return other.wait is not None and other.wait.kind == wait.kind and other.wait.address == wait.address


def _is_known(reader: Reader, wait: model.Wait) -> bool:
    """Whether nothing but the frames that were looked at, and names of modules, refers to what is waited for."""
    if reader.references is None:
        return False
    for at in wait.channels or (wait.address or 0,):
        count = reader.memory.word(at + reader.numbers["object.references"]) & 0xFFFFFFFF
        if reader.references.found[at] < count:
            return False
    return True
