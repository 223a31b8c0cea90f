"""The plan of a model on GPUs in six steps: bytes, bounds, demand, gains, economics, test.

Pure, but for `ledger`, which reads, and `forms`, which parses. Figures come with their formula and
what was put in: `apps.capacity.arithmetic.Derived`. A figure that is not measured is a bound, and
is called one.
"""
