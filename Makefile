# Each target is a command a person could type; see CONTRIBUTING.md.
.PHONY: demo test bench experiments soak setup

demo:
	@scripts/setup demo
	scripts/demo

test: setup
	scripts/test

bench: setup
	scripts/bench

experiments: setup
	scripts/experiments

soak: setup
	scripts/soak

setup:
	@scripts/setup
