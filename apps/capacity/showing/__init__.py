"""Load tests as pages show them: rows, sentences, charts and timelines. No I/O but of rows."""
