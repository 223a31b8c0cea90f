"""Telling who is responsible that a limit is being met: once, by mail and to a webhook.

`thresholds` makes a row for each threshold that is met and was not before, `refusing` for each
budget that has turned a request away; `sending` tells what the rows say, and again what failed.
"""
