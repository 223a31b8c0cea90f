"""What tokens cost on a machine that was measured, and when owning it wins.

Exact: money is micros of the site's currency as whole numbers or fractions, and a throughput is
taken as it was written, not as its float. `rates`, `splitting`, `mixing`, `amortising` and
`breaking_even` are pure; `selectors` and `booked` read; `services` sets a price in the gateway.
"""
