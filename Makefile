.PHONY: run test fast check bench bench-ingest bench-search bench-ledger bench-gateway bench-chat bench-load bench-agreement gallery capacity-demo soak setup clean

run: ## the one-machine stack; ONCE=1 ends it after the first answer, PORT= moves it
	@scripts/serve

test: ## every test
	@scripts/test

fast: ## tests that need no model, worker or browser
	@scripts/test -n auto -m "not slow"

check: ## lint, types, layers, settings, migrations
	@scripts/check

bench: ## measure the whole stack
	@scripts/bench

bench-ingest: ## measure ingestion: throughput, precision, fairness, memory, huge files; ONLY= chooses
	@scripts/bench-ingest

bench-search: ## measure vector search by tenant size: recall, latency, HNSW builds
	@scripts/bench-search

bench-ledger: ## measure the usage ledger at a million rows: figures, rollups, booking
	@scripts/bench-ledger

bench-gateway: ## measure what the gateway adds: first token, total, CPU; ROUNDS=, EACH=, STREAMS=
	@scripts/bench-gateway

bench-chat: ## measure the chat's sockets: frames' delay, memory, CPU; IDLE=, ASKING=, PROCESSES=
	@scripts/bench-chat

bench-load: ## measure the load generator's own ceiling; EACH_S=
	@scripts/bench-load

bench-agreement: ## compare the load generator with guidellm; REPEATS=, PART=
	@scripts/bench-agreement

capacity-demo: ## measure the embedded engine: sweep, knee, costs, memo, four failures; 15 minutes
	@scripts/capacity-demo

soak: ## kill every part again and again while documents are ingested; MINUTES= (10)
	@scripts/soak

gallery: ## take the pictures of the chat in docs/pictures; ONLY= chooses
	@scripts/gallery

setup: ## .venv with the locked dependencies
	@scripts/setup

clean: ## remove what setup, tests and tools made; var/ with your documents stays
	rm -rf .venv staticfiles .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
