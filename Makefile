# The whole interface to building Lazaret.  Meson does the work.
#
#   make           build build/lazaret and the libraries
#   make run       build, and run the worked example
#   make test      everything that is tested, under the sanitizers
#   make sim N=    more seeded histories in the simulator   (N=20000)
#   make soak      the kill -9 loop, 300 times
#   make fuzz      each fuzz target for SECONDS_EACH seconds  (60)
#   make bench     the figures, as ratios in one run
#   make lint      format, static analysis, layers
#   make install   to PREFIX (/usr/local), honouring DESTDIR

PREFIX ?= /usr/local
N ?= 20000
SECONDS_EACH ?= 60

all: build/build.ninja
	@ninja -C build --quiet

build/build.ninja:
	@scripts/deps build
	@meson setup build --prefix=$(PREFIX) --buildtype=release >/dev/null

run: all
	@scripts/deps build
	@scripts/run-example build

test:
	@scripts/deps test
	@scripts/run-tests

sim: all
	@ninja -C build --quiet tests/sim/sim
	@build/tests/sim/sim --seed 1 --count $(N)

soak: all
	@ninja -C build --quiet tests/e2e/kill_loop
	@tests/e2e/kill.py --program build/tests/e2e/kill_loop --kills 300

fuzz:
	@scripts/deps test
	@scripts/run-fuzz $(SECONDS_EACH)

bench: all
	@build/bench/bench

lint:
	@scripts/deps test
	@scripts/lint

install: all
	@meson install -C build --no-rebuild

clean:
	@rm -rf build build-*

.PHONY: all run test sim soak fuzz bench lint install clean
