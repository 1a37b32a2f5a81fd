# Each target is a command a person could type; see CONTRIBUTING.md.
.PHONY: demo test bench soak setup

demo:
	@scripts/setup demo
	scripts/demo

test: setup
	scripts/test

bench: setup
	scripts/bench

soak: setup
	scripts/soak

setup:
	@scripts/setup
