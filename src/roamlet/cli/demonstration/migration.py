"""The last part of `roamlet demo`: a tasklet moves through two contexts in the middle of its loop, and comes home."""

from roamlet.cli.demonstration.module import load

WORK = "roamlet_demo_journey_work"
EACH = 3  # primes at each place


def journey() -> str:
    """Run it, and return a sentence that describes it. Raises RoamletError, NoCore where tasklets cannot move."""
    # Inside: see demo().
    import roamlet
    from roamlet import remote

    primes = load(WORK, "migration_work.py").primes
    wanted: roamlet.channel[None] = roamlet.channel()
    found: roamlet.channel[tuple[int, int]] = roamlet.channel()
    stops: dict[int, list[int]] = {}
    with (
        remote.local(tasklets=True, name="first") as first,
        remote.local(tasklets=True, name="second", via=first) as behind,
    ):
        first.allow_moves_to(behind)
        behind.allow_moves_to(roamlet.home)
        places = [roamlet.home, first, behind, roamlet.home]
        searching = roamlet.spawn(primes, (places, EACH, wanted, found))
        for _ in range(EACH * len(places)):
            wanted.send(None)
            number, process = found.receive()
            stops.setdefault(process, []).append(number)
        searching.join()
    told = [", ".join(map(str, numbers)) for numbers in stops.values()]
    processes = list(stops)
    return (
        "One more tasklet searched for primes and moved in the middle of its loop, with its variables and its two channels: "
        f"{told[1]} are from process {processes[1]}, {told[2]} from process {processes[2]} one hop further, and {told[0]} from "
        "here, where it began and has come home."
    )
