"""stacklesslib for old programs: what its public modules gave, on roamlet's locks, time-outs, timers and worker threads.

`python -m roamlet.stackless SCRIPT` finds it. Written anew after the library's documentation and tests. It has base, errors, util,
app, events, main, wait, locks, futures and threadpool; docs/howto/port-from-stackless.md says what is different.
"""
