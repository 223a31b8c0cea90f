"""Gates of routes: a candidate and the configuration in force answer the same questions.

Read in this order: `scoring` and `slicing` (one answer, one question), `judging` (slices, intervals
and budgets), `needles` (long contexts), then `starting`, `claims`, `asking` and `working`.
"""
