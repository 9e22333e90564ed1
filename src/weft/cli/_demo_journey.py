"""The last part of `weft demo`: a tasklet moves through two contexts in the middle of its loop, and comes home."""

from weft.cli._demo_module import load

WORK = "weft_demo_journey_work"
EACH = 3  # primes at each place


def journey() -> str:
    """Let it happen, and return a sentence that tells of it. Raises WeftError, NoCore where tasklets cannot move."""
    # Inside: see demo().
    import weft
    from weft import remote

    primes = load(WORK, "_demo_journey_work.py").primes
    wanted: weft.channel[None] = weft.channel()
    found: weft.channel[tuple[int, int]] = weft.channel()
    stops: dict[int, list[int]] = {}
    with (
        remote.local(tasklets=True, name="first") as first,
        remote.local(tasklets=True, name="behind it", via=first) as behind,
    ):
        first.allow_moves_to(behind)
        behind.allow_moves_to(weft.home)
        places = [weft.home, first, behind, weft.home]
        searching = weft.spawn(primes, (places, EACH, wanted, found))
        for _ in range(EACH * len(places)):
            wanted.send(None)
            number, process = found.receive()
            stops.setdefault(process, []).append(number)
        searching.join()
    told = [", ".join(map(str, numbers)) for numbers in stops.values()]
    processes = list(stops)
    return (
        "One more tasklet searched for primes and moved in the middle of its loop, with its variables and its two channels: "
        f"{told[1]} are from process {processes[1]}, {told[2]} from process {processes[2]} behind that, and {told[0]} from "
        "here, where it began and has come home."
    )
