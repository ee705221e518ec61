# The face of the project; CMake does the work (see CMakePresets.json).

PREFIX ?= /usr/local
DESTDIR ?=
export PREFIX DESTDIR
BUILD = tools/build.sh
RUEDA = build/release/rueda

.DEFAULT_GOAL := help
.PHONY: help build wheel demo test test-long bench install uninstall docs format lint clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

build: ## the library and the program, in build/release
	@$(BUILD) release

wheel: ## the Python package, dist/rueda-*.whl
	@tools/wheel.sh

demo: ## trains MNIST on 4 workers, Adasum beside averaging; about a minute
	@tools/deps.sh demo
	@$(BUILD) release
	@examples/c/mnist/demo.sh $(RUEDA) build/release/examples/c/mnist/mnist

test: ## everything: all suites, sanitizers, style, docs
	@tools/test.sh

test-long: ## what takes longer: every step of a plan fails, hundreds of random deaths, minutes of fuzzing
	@tools/test.sh long

bench: build ## the measurements of bench/README.md, about 4 minutes
	@bench/run.sh $(RUEDA)

install: build ## to PREFIX (/usr/local), below DESTDIR
	@tools/install.sh build/release

uninstall: ## removes exactly what install has put there
	@tools/uninstall.sh

docs: build ## docs/configuration.md, from the table of settings
	@tools/docs.sh write

format: ## all C files, by .clang-format
	@tools/format.sh -i

lint: build ## clang-tidy
	@tools/lint.sh

clean: ## removes build/ and dist/
	rm -rf build dist
