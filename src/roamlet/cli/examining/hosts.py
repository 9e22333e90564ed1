"""A host, for `roamlet doctor -H`: its Python, and what of roamlet it can do."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roamlet.remote import Context, Facts

ROUNDS = 3  # of a call that does nothing; the fastest counts


def examined(context: "Context", timeout: float | None = None) -> dict[str, Any]:
    """What is there: "python", "executable", "system", "round_trip" in seconds, and "lacks", a list of what does not work there.

    `timeout`: seconds for each call. Blocks this tasklet. Raises what context.call does.
    """
    import time  # here, as the command line loads without it

    facts = context.facts
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        context.call(abs, (1,), timeout=timeout)
        times.append(time.perf_counter() - started)
    return {
        "python": f"{facts.implementation} {facts.version}",
        "executable": facts.executable,
        "system": f"{facts.platform} {facts.machine}" + (f", {facts.libc}" if facts.libc else ""),
        "round_trip": min(times),
        "lacks": lacks(facts),
    }


def lacks(facts: "Facts") -> list[str]:
    """What does not work with the Python that these facts are of."""
    from roamlet.remote.modules.native.platforms import here  # as above

    there, own = facts.for_extensions, here()
    version = "{}.{}".format(*own.python)
    if (there.implementation, there.python) != (own.implementation, own.python):
        return [
            f"tasklets do not move there, and what is compiled does not load: both take {own.implementation} {version}, as here"
        ]
    if (there.system, there.machine, there.abi) != (own.system, own.machine, own.abi):
        return ["tasklets do not move there, and what is compiled does not load: it is another kind of system"]
    if own.glibc is not None and (there.glibc or (0, 0)) < own.glibc:
        return [f"what was compiled for {own.libc}, as here, may not load there"]
    return []


def shown(found: dict[str, Any]) -> str:
    """In a line."""
    line = f"{found['python']}, {found['system']}, {found['round_trip'] * 1000:.1f} ms"
    return "; ".join([line, *found["lacks"]])
