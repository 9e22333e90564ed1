"""The pages of the reference docs: from one run's figures to docs/reference/benchmarks.md, or to threads-and-io.md."""

from pathlib import Path
from typing import Any

from roamlet_bench import charts, plot
from roamlet_bench.show import markdown

from . import bars
from .tables import tables

TEMPLATE = """# Benchmarks

Written by `python -m bench render` from what `python -m bench` has measured; do not edit by hand. Absolute figures are this
machine's: read the ratios. The peers of a table were measured in the same run, in turns with roamlet.

{machine}

{tables}

## How it is measured, and what it does not show

- **Core**: each runtime in a process of its own, garbage collector off, turns of some milliseconds in rotation, thread
  CPU time, the best turn counts. Loops are part of the figures, and of the unit too. What a program does between two
  switches is not in them: with real work in a tasklet the ratios shrink. greenlet and bare generators have no scheduler
  and no channel, so their rows are floors. A value through a buffer is no message: few of them
  make anybody wait. The thread's row is SimpleQueue, filled and emptied by one thread.
- **Memory**: resident bytes per blocked tasklet, in a fresh process per figure; small functions with two arguments;
  page tables are not counted.
- **Files**: one file of random bytes over the same relay. roamlet's seconds include a checksum at both ends, fsync and the
rename, of
  which Mitogen's file service has none. The relay and both ends share two cores, which limits what is shown at 0 ms.
- **Import**: the far interpreter is a bare virtual environment of the same Python, which gets sources, as over ssh. The bytes
  pass a relay of our own that holds each for half a round trip. It does not model TCP slow start (some 5 round trips for
  450 kB on a fresh connection), so it flatters a sender of large pieces. With losses, a packet that is lost comes a round trip
  later and all later ones wait for it; the window does not shrink as TCP's would. Which packets are lost is the same for both
  sides, and there the median turn counts, elsewhere the fastest. A turnaround is the parent sending something
  after it had heard from the child: counted on the wire, for both sides alike. "Scan warm": the parent has served an
  earlier context. Otherwise a new parent process for each run, which has to find and read everything first; the files are in
  the page cache all the same. Two lines in a row are a context that was opened through another one.
- **Calls**: wall time, the best turn. Where the kernel places two processes that talk to each other matters more than
  most code, so the median turn stands beside the best. Mitogen's pipelined calls come from one thread with a sliding
  window of `call_async`, roamlet's from as many tasklets.
- **Starts**: contexts opened one after the other and held together, in a new parent process each turn, which had opened one
  before. The least CPU time of the turns counts and the median of the memory, which is resident bytes.
- **Streams**: wall time from the call to the last value. roamlet's is a generator function and `iterate`; Mitogen's a function
  with a `Sender`, whose blocks go unpickled, as its own file service sends them. Memory is the parent's peak of resident bytes
  above what it had before the stream, in a fresh process. Both processes share two cores.
- **Threads that hand over**: two threads that each wait for the other, on one core in CPU time, on two by the clock. That is
  all waking up; on two cores it depends most on where the kernel puts them, so the median of many turns counts.
- **What threads sleep on**: a C program without Python, so the floor of a hand-over. A futex with a limit has the kernel set a
  timer for each wait; a limit nearer than the kernel's next tick has the machine's own timer set too.
- **Calls to worker threads**: wall time of a function that does nothing, the median turn; each peer with the pool that it brings.
  With a hundred outstanding, most of what is saved is wake-ups: one thread does many short jobs in a row. Calls that block
  for long take a thread each in every peer, and there the ratios shrink to nothing.
- **Delivery**: CPU time of the parent, all of its threads, from opening a context to its end; the least of the turns. Each turn
  has a cache folder of its own, and the next run is a new process with that folder. The parent has imported the packages before.
- **Executors**: calls that do nothing are all submitted to one worker before the first result is asked for; the CPU time is
  that of the process which submits, with all of its threads. Calls of 1 ms use the CPU for so long, so that of two cores the
  executor itself and what carries the calls take their part.
- **Dask clusters**: by the clock, the best turn, closing the worst. roamlet's workers run on a bare virtual environment of the
  same Python, behind one context, to which everything is sent compressed, as over ssh; a cluster before has filled the cache
  folder. Dask's LocalCluster has everything installed, and a Nanny for each worker. Both preload dask.array and dask.dataframe.
  roamlet's connections are always TLS, those of LocalCluster as the row says. Workers, scheduler and client share the cores.
- **Event loops in tasklets**: CPU time of the process, in turns with asyncio's loop in a process of its own; the median of the
  ratios of neighbouring turns. An echo is 100 bytes over asyncio's streams, the clients being in another process, each with one
  message under way. `await_` and `wrap` are compared with a task that is made and awaited; the function of `wrap` switches once.
- **Libraries**: CPU time of the client process for one operation, the same program on each side, 50 tasklets, greenlets or
  threads at once; the median of the turns. The column "alone" is one thread with nothing patched, one operation after the
  other: what the library itself, its Python code and the system's calls, takes on every side. Where "Bars" says that urllib3,
  requests, or requests over TLS were missed, this is why: alone they take 0.7 to 0.95 of gevent's time, so that a patch which
  costs nothing could not be below that. Of the memory of a request that waits about 28 kB are objects of requests, urllib3 and
  http.client.
- **Flask in gunicorn**: requests per second of the worker's CPU time. gunicorn reads the request and calls the application in
  the same way on each side; that and Flask alone take about 190 us, of 255 with our worker and 275 with gevent's. So a worker
  which costs nothing would be 1.4 to 1.5 times gevent's.
- **Snapshots**: CPU time of the thread, garbage collector off, each side in a process of its own, the best turn. The function
  of the tasklet is plain Python; that of dispatch-py is written as generators with a `yield from` for each call. Its bytes are
  pickles; roamlet's have a header with a digest and the fingerprints of the code besides, which are checked. pyteleport, which
  writes the whole program into a .pyc, is not measured. Many chains: by the clock, with the garbage collector as it comes, one
  turn; the peak is that of the whole process, the chains themselves included. Travel: by the clock, the median; to a bare
  interpreter as above, which has had roamlet's core and the functions from an earlier one.
- **Seeing**: wall time of a process in which two tasklets exchange messages at full speed and all others wait, in turns with
  and without `roamlet top --json` on the other core; the stops are those that top reports, from its first look to its last.
- **Ansible**: ansible-playbook with the default strategy, with Mitogen's, or with roamlet's connection, each with a new home
  folder, on servers of a lab: Debian in namespaces of this machine, which share its cores with the controller, so the walls of
  many hosts are those of CPU time. A ratio is the median of the rounds' own ratios. CPU time is that of control groups:
  everything that ansible-playbook starts, and everything that the servers' sshds start, until all of it has ended. Hosts beyond
  the tenth are further accounts on the same ten servers. The relay of the lab delays packets and has no limit of bytes per
  second. Stock takes part in each round where a bar compares with it, elsewhere in the first one, for its results. Core alone is
  ansible-core with its own strategy and a connection plugin that reaches no host: each command has the answer that ssh got in a run
  before. No connection plugin can take less under that strategy, but for what is kept between tasks and runs: what roamlet loads
  before the workers are forked, and modules that an earlier run has packed.
"""

THREADS_TEMPLATE = """# Threads, the GIL and servers

Written by `make bench-threads` (`python -m bench render`, from one run of `python -m bench gil server`); do not edit by hand.
`roamlet bench gil` and `roamlet bench server` take the same figures on your machine. Absolute figures are this machine's: read the
ratios. Everything was measured in the same run, in turns.

{machine}

{tables}

{plots}

## How it is measured, and what it does not show

- **Turns**: each row has processes of its own, stock rows with nothing of roamlet in them. Rows take turns and the median of
  the turns counts; the JSON has all of them. Rows of threads are ordinary programs on `threading`, `queue` and
  `socketserver`; with roamlet.threads on they are the same files, run by `python -m roamlet.threads`.
- **Hand-overs**: one there and back again: two threads that each wait for the other. That is the case where waking up is all
  there is, and where it matters most on which cores the kernel puts the two: figures of a pair come in two sizes, and an idle
  core next door makes them slower, not faster. In a program that does something between two waits the differences shrink.
- **Beside a CPU-bound thread**: that thread counts up in pure Python and never waits. A thread that waits for the GIL
then waits for
  the switch interval, unless the operating system happens to take the core from the thread that holds it. So a machine that is busy
  with something else shows better figures here.
- **Server**: HTTP/1.0, a connection for each request, as the threaded server of the standard library does it. The threads read
  the request line by line through a file object; gevent, asyncio and roamlet read until the empty line. The load is one process
  with one thread; a figure with + was limited by it. It runs on the last core; the server may use all, so on two cores they
  meet. No network, no disk, no work for a request: a real server's figures are nearer to each other.
- **What other locks can win for a threaded server**: "one thread" is the same server without its pool: the thread that accepts
  answers too, and what it saves is all that handing over costs. So stock / one thread, in CPU, is the most that any lock or
  queue could win. The queue itself is a part of that only: with a pool a thread waits some three times a request, on stock and
  on roamlet's queue alike (the columns "waits"), as accept(), recv() and send() each give the GIL up, another thread takes it, and
  the thread that comes back from the system waits for it. roamlet.threads makes the queue and its lock cheaper and
  leaves those calls as they are. A program gets rid of them with [roamlet.io](io.md): the rows "roamlet" answer in
  tasklets, whose system calls keep the GIL. Where "Bars" says that 1.3 x was missed, this is why.
"""

ABOUT = ("format", "taken", "quick", "machine", "versions", "bars", "runs")
THREADS_PARTS = {"gil": charts.gil_panels, "server": charts.server_panels}


def page(run: dict[str, Any]) -> str:
    """The whole page as Markdown: of threads and servers when the run is of nothing else."""
    of_threads = is_of_threads(run)
    if not of_threads:  # threads have their own page, from their own run
        run = {key: value for key, value in run.items() if key not in THREADS_PARTS}
        run["bars"] = [bar for bar in run["bars"] if bar["part"] not in THREADS_PARTS]
    *figures, verdicts = tables(run)  # first the verdicts, which readers look for
    body = "\n".join(markdown(table) for table in [verdicts, *figures]).rstrip()
    if not of_threads:
        return TEMPLATE.format(machine=machine_lines(run), tables=body)
    images = "\n\n".join(f"![{part} as a plot, with a logarithmic scale](threads-{part}.svg)" for part in plotted(run))
    return THREADS_TEMPLATE.format(machine=machine_lines(run), tables=body, plots=images)


def plots(run: dict[str, Any], folder: Path) -> None:
    """Draw what the page of threads shows beside its tables."""
    if is_of_threads(run):
        for part in plotted(run):
            plot.draw(f"roamlet bench {part}", THREADS_PARTS[part](run[part]), folder / f"threads-{part}.svg")


def is_of_threads(run: dict[str, Any]) -> bool:
    """Whether nothing but threads and servers was measured."""
    return bool(plotted(run)) and set(run) <= {*THREADS_PARTS, *ABOUT}


def plotted(run: dict[str, Any]) -> list[str]:
    return [part for part in THREADS_PARTS if part in run]


def merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One run out of several on one machine: of each part the figures of the last run that has it, and which run that is."""
    whole = {key: value for run in runs for key, value in run.items()}
    last = {part: index for index, run in enumerate(runs) for part in run if part not in ABOUT}
    whole["runs"] = [
        {
            "taken": run["taken"],
            "load": run["machine"]["load"][0],
            "roamlet": run["versions"].get("roamlet", ""),
            "parts": parts,
        }
        for index, run in enumerate(runs)
        if (parts := [part for part in run if last.get(part) == index and part not in THREADS_PARTS])
    ]
    whole["versions"] = {name: version for run in runs for name, version in run["versions"].items()}
    whole["bars"] = bars.verdicts(whole)
    return whole


def taken_lines(run: dict[str, Any]) -> list[str]:
    """When the figures were taken, a line for each run."""
    if len(runs := run.get("runs", ())) < 2:
        quick, load = " (a quick run)" if run["quick"] else "", run["machine"]["load"][0]
        return [f"- Taken {run['taken'][:10]}{quick}, load {load:.1f} at the start"]
    return [
        f"- {', '.join(one['parts'])}: taken {one['taken'][:10]}, load {one['load']:.1f} at the start, roamlet {one['roamlet']}"
        for one in runs
    ]


def machine_lines(run: dict[str, Any]) -> str:
    machine, versions = run["machine"], run["versions"]
    peers = ", ".join(f"{name} {version}" for name, version in versions.items() if name not in ("python", "compiler"))
    lines = [
        *taken_lines(run),
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; {machine['system']}",
        f"- {versions['python']} ({versions['compiler']}); {peers}",
    ]
    return "\n".join(lines)
