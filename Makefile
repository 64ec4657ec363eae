# SPDX-License-Identifier: Apache-2.0
# A thin cover over meson and ninja: one word for each task. `make` and `make install` install no
# packages: they say what is missing. `make deps` installs it on Debian 12 (as root, or with sudo);
# demo, check, bench-* and mutants begin with what they need of it.

PREFIX ?= /usr/local
BUILD = build/release
HOLDFAST = $(BUILD)/src/cli/holdfast

# A build folder that was copied along with the tree builds the tree that it came from.
ifneq ($(wildcard $(BUILD)/build.ninja),)
ifneq ($(shell grep -lF '"source": "$(CURDIR)"' $(BUILD)/meson-info/meson-info.json),$(BUILD)/meson-info/meson-info.json)
$(info $(BUILD) belongs to another copy of this tree: it is made anew)
$(shell rm -rf $(BUILD))
endif
endif

.PHONY: all build deps demo check check-all bench bench-etcd bench-memcached bench-redis bench-sql bench-zookeeper mutants soak install site deb format clean

all: build

build: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@tools/install-dependencies --look build
	meson setup --buildtype=release -Db_lto=true -Dtests=false $(BUILD)

# Installs what the build and the tests need; WHAT=build only what the build needs.
deps:
	tools/install-dependencies $(or $(WHAT),check)

# The flash sale, without a lock and with one: of the embedded engine alone, which needs few packages.
# URL names another store: make demo URL=redis://127.0.0.1
demo:
ifeq ($(filter-out local:%,$(URL)),)
	@tools/install-dependencies demo
	@[ -f build/demo/build.ninja ] || meson setup --buildtype=release -Dauto_features=disabled -Dengine_local=enabled -Dtests=false build/demo
	ninja -C build/demo examples/flash_sale
	@build/demo/examples/flash_sale $(if $(URL),--url '$(URL)')
else
	@tools/install-dependencies build
	$(MAKE) build
	@$(BUILD)/examples/flash_sale --url '$(URL)'
endif

# The tests of every engine and every promise, in at most 25 minutes on two processors. The last line
# has the result, the one before what was left out.
check: deps
	tools/check

# The same, and what check leaves out: more versions of other libraries, more builds, longer runs.
check-all: WHAT = check-all
check-all: deps
	tools/check --all

bench: build
	$(HOLDFAST) $(if $(URL),-e '$(URL)') bench

# Locks on Redis beside bare round trips, hand-made locks and, where they can be installed, Redisson,
# redis-py and node-redlock; on a server of its own, in about eight minutes. FLAGS="--only threads,unix"
# measures less, in less time; the head of bench_redis.py has the others.
bench-redis:
	tools/install-dependencies bench
	$(MAKE) build
	ninja -C $(BUILD) bench/redis/bench-redis-worker
	python3 bench/redis/bench_redis.py $(BUILD)/bench/redis/bench-redis-worker $(BUILD)/peers $(FLAGS)

# Locks at etcd beside bare transactions, Go's concurrency package and "etcdctl lock"; on a server of
# its own, whose commits wait for the disk, in about three minutes. FLAGS=--no-fsync waits for none.
bench-etcd:
	tools/install-dependencies bench-etcd
	$(MAKE) build
	ninja -C $(BUILD) bench/etcd/bench-etcd-worker
	python3 bench/etcd/bench_etcd.py $(BUILD)/bench/etcd/bench-etcd-worker $(HOLDFAST) $(BUILD)/etcd $(FLAGS)

# Locks at memcached beside bare round trips and the commands of Symfony and Laravel; on a server of its
# own, in about two minutes.
bench-memcached:
	tools/install-dependencies bench-memcached
	$(MAKE) build
	ninja -C $(BUILD) bench/memcached/bench-memcached-worker
	python3 bench/memcached/bench_memcached.py $(BUILD)/bench/memcached/bench-memcached-worker $(FLAGS)

# Locks in MariaDB and PostgreSQL beside bare statements, GET_LOCK, advisory locks, and rows that are
# inserted and deleted; on servers of its own, with durable commits, in about three minutes.
bench-sql:
	tools/install-dependencies bench-sql
	$(MAKE) build
	ninja -C $(BUILD) bench/sql/bench-sql-worker
	python3 bench/sql/bench_sql.py $(BUILD)/bench/sql/bench-sql-worker $(BUILD)/databases $(FLAGS)

# Locks on ZooKeeper beside bare round trips and, where they can be installed, Curator and kazoo; on a
# server of its own (Debian's libzookeeper-java), in about five minutes.
bench-zookeeper:
	tools/install-dependencies bench-zookeeper
	$(MAKE) build
	ninja -C $(BUILD) bench/zookeeper/bench-zookeeper-worker
	python3 bench/zookeeper/bench_zookeeper.py $(BUILD)/bench/zookeeper/bench-zookeeper-worker $(BUILD)/peers $(FLAGS)

# Breaks the code on purpose, one place after the other: each time a test has to notice. Then tortures
# locks that are wrong on purpose.
mutants:
	tools/install-dependencies check
	tools/run-mutants
	tools/run-torture-mutants

# Rounds of aimed faults for as long as you like: make soak HOURS=4
soak: build
	tools/run-torture $(HOLDFAST) --hours $(or $(HOURS),1)

# DESTDIR is honoured. The command finds the library beside itself, whatever the prefix.
install: build
	meson configure $(BUILD) -Dprefix='$(PREFIX)'
	meson install -C $(BUILD)
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

# The documentation as a site with a search, in build/site/html: a page for each document, man page and function.
site:
	tools/install-dependencies site
	tools/make-site build/site

# Packages for Debian in build/deb, built from a copy of this tree. DEB_BUILD_OPTIONS=nocheck leaves out
# the tests.
deb:
	tools/install-dependencies deb
	rm -rf build/deb
	mkdir -p build/deb/source
	tar -c --exclude=./build --exclude=./.git . | tar -x -C build/deb/source
	cd build/deb/source && dpkg-buildpackage -us -uc -b

format:
	find include src examples tests \( -name '*.[ch]' -o -name '*.[ch]pp' \) -print0 | \
	    xargs -0 clang-format -i

clean:
	rm -rf build
