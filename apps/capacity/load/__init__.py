"""The load generator. It runs in a process of its own, `python -m apps.capacity.load`, that knows
nothing of Django: neither the site nor a worker's other threads take its time.

A `Job` comes as one JSON line on standard input; what happens goes out as JSON lines, `Event`s, on
standard output; the target's key is in the environment variable LOADTEST_KEY.
"""
