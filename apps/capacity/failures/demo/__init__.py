"""`make capacity-demo`: sweep, knee, costs, memo and the four failures, on one page."""
