# The whole interface to building Lazaret.  Meson does the work.
#
#   make           build build/lazaret and the libraries
#   make run       build, and start the server on LISTEN (127.0.0.1:8700), with its data in LAZARET_DATA (build/data)
#   make example   build, and run the worked example
#   make test      everything that is tested, under the sanitizers
#   make sim N=    more seeded histories in the simulator   (N=20000)
#   make soak      kill -9 in a loop: 300 times inside the process, 100 times each the server under load, a map run, deliveries;
#                  and each fault of a swarm (PostgreSQL, NATS, the network between) 20 times
#   make fuzz      each fuzz target for SECONDS_EACH seconds  (60)
#   make bench     the figures, as ratios in one run
#   make lint      format, static analysis, layers
#   make install   to PREFIX (/usr/local), honouring DESTDIR
#   make deb       build/lazaret_VERSION_ARCHITECTURE.deb

PREFIX ?= /usr/local
N ?= 20000
SECONDS_EACH ?= 60
LISTEN ?= 127.0.0.1:8700
LAZARET_DATA ?= build/data

all: build/build.ninja
	@ninja -C build --quiet

build/build.ninja:
	@scripts/deps build
	@meson setup build --prefix=$(PREFIX) --buildtype=release >/dev/null

run: all
	@scripts/run-server build "$(LAZARET_DATA)" "$(LISTEN)"

example: all
	@scripts/run-example build

test:
	@scripts/deps test
	@scripts/run-tests

build-fast/build.ninja:
	@scripts/deps test
	@meson setup build-fast --buildtype=release -Dtests=true >/dev/null

sim: build-fast/build.ninja
	@ninja -C build-fast --quiet tests/sim
	@build-fast/tests/sim --seed 1 --count $(N)

soak: build-fast/build.ninja
	@ninja -C build-fast --quiet tests/kill_loop
	@build-fast/tests/kill_loop --kills 300
	@ninja -C build-fast --quiet lazaret
	@LAZARET_BIN=build-fast/lazaret tests/e2e/http_kill.py --kills 100
	@LAZARET_BIN=build-fast/lazaret tests/e2e/map_kill.py --kills 100
	@LAZARET_BIN=build-fast/lazaret tests/e2e/receipts_kill.py --kills 100
	@LAZARET_SOAK=1 LAZARET_BUILD=build-fast /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/swarm/test_faults.py

fuzz:
	@scripts/deps test
	@scripts/run-fuzz $(SECONDS_EACH)

bench: all
	-@scripts/deps bench
	@ninja -C build --quiet bench/bench
	@build/bench/bench

lint:
	@scripts/deps test
	@scripts/lint

install: all
	@meson install -C build --no-rebuild

deb: all
	@scripts/deps deb
	@scripts/make-deb build

clean:
	@rm -rf build build-*

.PHONY: all run example test sim soak fuzz bench lint install deb clean
