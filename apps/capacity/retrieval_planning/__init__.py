"""What search takes as a corpus grows: bytes by formula, time and recall by measurement.

`scratch` and `measuring` measure the site's own statements on tables of growing size; `fits` draws
the line through what was measured, with its band; `sizes` are formulas over PostgreSQL's and
pgvector's page layouts; `planning` and `deciding` make a plan of both.
"""
