# Each target is a command a person could type; see CONTRIBUTING.md.
.PHONY: demo test bench dist drills experiments soak setup

demo:
	@scripts/setup demo
	scripts/demo

test: setup
	scripts/test

bench: setup
	scripts/bench

dist: setup
	scripts/dist

experiments: setup
	scripts/experiments

drills: setup
	scripts/drills

soak: setup
	scripts/soak

setup:
	@scripts/setup
