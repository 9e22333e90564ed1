"""A program: one tasklet goes round three places, with one receive and one send at each stop."""

import sys
from pathlib import Path

import roamlet
from roamlet import remote

sys.path.append(str(Path(__file__).parents[1] / "remote" / "sent"))
BARE = getattr(sys, "_base_executable", sys.executable)


def main(count: int) -> None:
    import move_to_functions  # from the folder that was added above

    numbers, visited = roamlet.channel(), roamlet.channel()
    with remote.local(BARE, tasklets=True, name="a") as a, remote.local(BARE, tasklets=True, name="b") as b:
        a.allow_moves_to(b)
        b.allow_moves_to(roamlet.home)
        going = roamlet.spawn(move_to_functions.hops, ([a, b, roamlet.home], count, numbers, visited))
        total = 0
        for hop in range(count):
            with roamlet.timeout(60):
                numbers.send(hop)
                total += hop
                assert visited.receive() == (hop, total)
        assert going.join() == total
    print(count, "hops")


if __name__ == "__main__":
    main(int(sys.argv[1]))
