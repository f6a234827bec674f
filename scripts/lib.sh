# shellcheck shell=bash
# What scripts/run, scripts/test and .ci/run share: prerequisites, pinned cargo tools, steps with their times.
# Sourced after `set -euo pipefail`. Downloads go through apt-get, cargo, pip and mvn as the user has configured them.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${WALKFUZZ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/walkfuzz}
TOOLS=$CACHE/tools
PATH=$TOOLS/bin:$PATH
DRY_RUN=${DRY_RUN:-0}
MIN_RUST=1.91
MIN_QEMU=7.2
CARGO_FUZZ_VERSION=0.13.1
CARGO_AFL_VERSION=0.18.2

# Documented exit codes, the program's as well.
# shellcheck disable=SC2034  # scripts/run says EXIT_USAGE
readonly EXIT_USAGE=2 EXIT_ENVIRONMENT=3 EXIT_INTERRUPTED=130

note() { printf '%s\n' "$*" >&2; }

# Runs a command, or with --dry-run says that it would.
run() {
    if [ "$DRY_RUN" = 1 ]; then
        printf '+ %s\n' "$*"
    else
        "$@"
    fi
}

MISSING=()  # what people call it
PACKAGES=() # the Debian packages that hold it

# need WHAT PACKAGE TEST...: remembers WHAT as missing if TEST fails.
need() {
    local what=$1 package=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        MISSING+=("$what")
        PACKAGES+=("$package")
    fi
}

in_container() {
    [ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -n "${container:-}" ] || [ -n "${CI:-}" ]
}

# Only root in a container, and only if nobody said no: elsewhere the machine is the user's to change.
may_install() {
    [ "$(id -u)" = 0 ] && in_container && [ "${WALKFUZZ_NO_INSTALL:-0}" != 1 ] && command -v apt-get >/dev/null
}

# Brings what need() found missing, or names it with the command that brings it.
bring_missing() {
    [ ${#MISSING[@]} -gt 0 ] || return 0
    local names
    names=$(printf ', %s' "${MISSING[@]}")
    names=${names:2}
    local install=(apt-get install -y --no-install-recommends "${PACKAGES[@]}")
    if may_install; then
        note "missing: $names; installing, since this is root in a container (WALKFUZZ_NO_INSTALL=1 forbids it)"
        run apt-get update -q
        run env DEBIAN_FRONTEND=noninteractive "${install[@]}"
    else
        note "missing: $names"
        note "bring it with: ${install[*]}"
        exit "$EXIT_ENVIRONMENT"
    fi
    MISSING=() PACKAGES=()
}

need_rust() {
    local version
    if ! version=$(cd "$ROOT" && cargo --version 2>/dev/null && rustc --version 2>/dev/null); then
        note "missing: cargo and rustc $MIN_RUST or newer"
        note "bring it with: rustup default stable (rustup itself is a package of newer Debian and Ubuntu)"
        exit "$EXIT_ENVIRONMENT"
    fi
    version=${version##*rustc }
    version=${version%% *}
    if ! at_least "$version" "$MIN_RUST"; then
        note "missing: rustc $MIN_RUST or newer (this is $version)"
        note "bring it with: rustup update stable"
        exit "$EXIT_ENVIRONMENT"
    fi
}

need_basics() {
    need git git command -v git
    need 'a C compiler' gcc command -v cc
    need 'a C++ compiler' g++ command -v c++
    need python3 python3 command -v python3
    need pip python3-pip python3 -m pip --version
    bring_missing
    need_rust
}

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# What cargo and cargo-fuzz are told to build for a target that is not this machine's; empty for this machine.
TARGET=()

# for_target NAME: sets cargo up for an architecture. On a machine of that architecture there is nothing to do; on x86_64 aarch64 is
# cross-built, and cargo runs what it built through qemu-user. The kernel need not know of qemu (binfmt_misc).
for_target() {
    local machine
    machine=$(uname -m)
    [ "$1" != "$machine" ] || return 0
    if [ "$1" != aarch64 ]; then
        note "--target is x86_64 or aarch64, not '$1'"
        exit "$EXIT_USAGE"
    fi
    if [ "$machine" != x86_64 ]; then
        note "aarch64 is emulated on x86_64 only, and this machine is $machine"
        exit "$EXIT_ENVIRONMENT"
    fi
    local triple=aarch64-unknown-linux-gnu gcc=aarch64-linux-gnu-gcc qemu
    # Where qemu looks for a program's loader and libraries. In the environment, so that what a program starts finds them as well.
    export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}
    need 'a C compiler for aarch64' gcc-aarch64-linux-gnu command -v "$gcc"
    need 'a C++ compiler for aarch64' g++-aarch64-linux-gnu command -v aarch64-linux-gnu-g++
    need 'the C library for aarch64' libc6-dev-arm64-cross test -e "$QEMU_LD_PREFIX/lib/libc.so.6"
    need 'qemu for programs of aarch64' qemu-user qemu_for_aarch64
    bring_missing
    qemu=$(qemu_for_aarch64 || echo qemu-aarch64)
    # A dry run has installed none.
    if [ "$DRY_RUN" != 1 ] || command -v "$qemu" >/dev/null; then
        need_qemu_version "$qemu"
    fi
    need_rust_target "$triple"
    # shellcheck disable=SC2034 # those who source this use it
    TARGET=(--target "$triple")
    export CC_aarch64_unknown_linux_gnu=$gcc CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$qemu
    # The JDK of this machine is of no use there, and a JAVA_HOME that cannot be used is an error.
    if [ -n "${JAVA_HOME:-}" ] && [ "$(elf_machine "$JAVA_HOME/lib/server/libjvm.so")" != 183 ]; then
        note "JAVA_HOME ($JAVA_HOME) is no JDK for aarch64; left out"
        unset JAVA_HOME
    fi
}

# Debian's two packages of it: qemu-user, qemu-user-static.
qemu_for_aarch64() { command -v qemu-aarch64 || command -v qemu-aarch64-static; }

# The machine that an ELF file is built for, as a number (183 is aarch64).
elf_machine() { od -An -tu2 -j18 -N2 "$1" 2>/dev/null | tr -d ' '; }

need_qemu_version() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/^qemu-aarch64[a-z-]* version \([0-9.]*\).*/\1/p' || true)
    if ! at_least "${version:-0}" "$MIN_QEMU"; then
        note "missing: qemu-user $MIN_QEMU or newer ($1 is ${version:-of no version that it says})"
        note 'bring it with: apt-get install -y --no-install-recommends qemu-user (Debian 12, Ubuntu 24.04 or newer)'
        exit "$EXIT_ENVIRONMENT"
    fi
}

# Rust's own libraries for the target: from rustup, or beside Debian's rustc.
need_rust_target() {
    local libraries
    libraries=$(cd "$ROOT" && rustc --print target-libdir --target "$1")
    ! compgen -G "$libraries/libstd-*.rlib" >/dev/null || return 0
    if command -v rustup >/dev/null; then
        if [ "${WALKFUZZ_NO_INSTALL:-0}" = 1 ]; then
            note "missing: Rust's libraries for aarch64"
            note "bring them with: rustup target add $1"
            exit "$EXIT_ENVIRONMENT"
        fi
        (cd "$ROOT" && run rustup target add "$1")
        return 0
    fi
    # Debian has a rustc that is new enough under this name, and its libraries for the other architecture as that one's package.
    note "missing: Rust's libraries for aarch64"
    note 'bring them with: dpkg --add-architecture arm64 && apt-get update && apt-get install -y --no-install-recommends rustc-web cargo-web libstd-rust-web-dev:arm64'
    exit "$EXIT_ENVIRONMENT"
}

# The version that a cargo tool says it has: most say it for --version, cargo-afl only behind its sub-command.
tool_version() {
    local said
    said=$("$1" --version 2>/dev/null || "$1" "${1#cargo-}" --version 2>/dev/null || true)
    said=${said#"$1 "}
    printf '%s\n' "${said%% *}"
}

# need_cargo_tool NAME VERSION [OPTION...]: the tool in that very version; built into our cache unless it is on PATH.
need_cargo_tool() {
    local name=$1 version=$2
    shift 2
    if [ "$(tool_version "$name")" != "$version" ]; then
        note "bringing $name $version into $TOOLS"
        run cargo install "$name" --version "$version" --locked --quiet --root "$TOOLS" "$@"
    fi
}

need_cargo_fuzz() { need_cargo_tool cargo-fuzz "$CARGO_FUZZ_VERSION"; }

# cargo-afl brings AFL++'s sources and builds them when it is installed: that takes make and a C compiler, no LLVM.
need_cargo_afl() {
    need_cargo_tool cargo-afl "$CARGO_AFL_VERSION"
    # Its runtime belongs to one version of rustc; fails where it is there already.
    run cargo afl config --build >/dev/null 2>&1 || true
}

STEPS_PASSED=0
STEPS_FAILED=0
STEPS_SKIPPED=0
FAILURES= # what failed, with the part of its log that says why
FLAKY=    # tests that passed only when they were tried again

# step NAME COMMAND...: runs it, says how long it took, counts it; goes on after a failure so that all of them show.
# A command that is itself made of steps is counted by its own closing line.
step() {
    local name=$1 began=$SECONDS outcome=passed status=0 log
    shift
    log=$(mktemp)
    printf '\n==== %s\n' "$name"
    # Not under `if` or `||`: a function among the commands would lose its `set -e`.
    set +e
    (
        set -euo pipefail
        "$@"
    ) 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    set -e
    if [ "$status" != 0 ]; then
        outcome="FAILED (exit code $status)"
        FAILURES+=$(printf '\n---- %s\n' "$name" && why_failed "$log")$'\n'
    fi
    FLAKY+=$(grep -a '^passed only when tried again: ' "$log" || true)
    count_tests "$log" "$status"
    rm -f "$log"
    printf '==== %s: %s, %d s\n' "$name" "$outcome" "$((SECONDS - began))"
}

# The part of a failed step's log that says why: the summary of its own steps, else its failed tests and panics, else how it ended.
why_failed() {
    local log=$1
    if grep -q '^==== what failed' "$log"; then
        sed '1,/^==== what failed/d' "$log" | head -n -2
    elif ! grep -aE -A 15 '^---- .* stdout ----$|panicked at |^error(\[|:)' "$log" | head -n 120; then
        tail -n 25 "$log"
    fi
}

# cargo_tests OPTION...: `cargo test` of them; what failed once more, alone and one after the other. These are tests of live JVMs under timers, on machines
# that may have other work: a test that passes then is named and no failure. One that cannot pass fails again.
cargo_tests() {
    local log again status=0 lost=0 passed failed skipped targets target names
    log=$(mktemp) again=$(mktemp)
    cargo test "$@" 2>&1 | tee "$log" || status=$?
    targets=$(sed -n '/^error: [0-9]* targets\? failed:$/,$s/^    `\(-.*\)`$/\1/p' "$log" | sort -u)
    if [ "$status" != 0 ] && [ -n "$targets" ]; then
        names=$(sed -n '/^failures:$/,/^test result/s/^    \([A-Za-z0-9_:]*\)$/\1/p' "$log" | sort -u)
        status=0
        while read -r target; do
            printf '\n---- once more, alone: %s\n' "$target"
            # shellcheck disable=SC2086 # words
            if try_again "$again" "$target" $names; then
                printf 'passed only when tried again: %s %s\n' "$target" "$(sed -n 's/^test \(.*\) \.\.\. ok$/\1/p' "$again" | paste -sd ' ')"
            else
                status=1
                lost=$((lost + $(awk '/^test result:/ { f += $6 } END { print f ? f : 1 }' "$again")))
            fi
        done <<<"$targets"
        read -r passed failed skipped < <(awk '/^test result:/ { p += $4; f += $6; s += $8 } END { print p + 0, f + 0, s + 0 }' "$log")
        printf '%d passed, %d failed, %d skipped\n' "$((passed + failed - lost))" "$lost" "$skipped"
    fi
    rm -f "$log" "$again"
    return "$status"
}

# try_again LOG TARGET [NAME...]: those tests of a target; all of a target that names none.
try_again() {
    local log=$1 target=$2 status=0
    shift 2
    # shellcheck disable=SC2086 # words
    cargo test --locked $target -- --test-threads=1 --exact "$@" 2>&1 | tee "$log" || status=$?
    if [ "$status" = 0 ] && grep -q '^test result: ok\. 0 passed' "$log"; then
        # None of the names is its own: it ended without naming any.
        # shellcheck disable=SC2086 # words
        cargo test --locked $target 2>&1 | tee "$log" || status=$?
    fi
    return "$status"
}

# Adds what a step's log says of tests: our own closing line, else cargo's result lines, else the step counts as one.
count_tests() {
    local log=$1 status=$2 counts passed failed skipped
    counts=$(awk '
        /^test result:/ { passed += $4; failed += $6; skipped += $8; seen = 1 }
        # Includes what went before.
        /^[0-9]+ passed, [0-9]+ failed/ { passed = $1; failed = $3; skipped = $5; seen = 1 }
        END { if (seen) print passed + 0, failed + 0, skipped + 0 }
    ' "$log")
    read -r passed failed skipped <<<"${counts:-$([ "$status" = 0 ] && echo 1 || echo 0) 0 0}"
    # A failure that no test admits to (it did not build, it crashed) is one nevertheless.
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
        failed=1
    fi
    STEPS_PASSED=$((STEPS_PASSED + passed))
    STEPS_FAILED=$((STEPS_FAILED + failed))
    STEPS_SKIPPED=$((STEPS_SKIPPED + skipped))
}

skip_step() {
    printf '\n==== %s: SKIPPED, %s\n' "$1" "$2"
    STEPS_SKIPPED=$((STEPS_SKIPPED + 1))
}

# The closing line, and the exit code that goes with it.
finish_steps() {
    # Once more, at the end: that is what is seen of a long log.
    [ -z "$FLAKY" ] || printf '\n%s\n' "$FLAKY"
    [ -z "$FAILURES" ] || printf '\n==== what failed\n%s' "$FAILURES"
    printf '\ntook %d min %d s\n' "$((SECONDS / 60))" "$((SECONDS % 60))"
    printf '%d passed, %d failed, %d skipped\n' "$STEPS_PASSED" "$STEPS_FAILED" "$STEPS_SKIPPED"
    [ "$STEPS_FAILED" = 0 ]
}

trap 'exit $EXIT_INTERRUPTED' INT
