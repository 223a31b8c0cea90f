"""Failures made on purpose, on engines of their own: what breaks, what clients see, what cures it.

`manage.py show-failure NAME` starts engines on loopback, sends them load, and writes what came of
it: requests with the time of every piece, figures, a chart, and sentences computed from them.
"""
