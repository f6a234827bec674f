# shellcheck shell=bash
# The tests of another architecture under qemu-user, sourced by scripts/test: `$target` is what is tested.
# A part of those of the workspace, so that it takes minutes: what touches registers, signals, stacks and HotSpot's frames.

# What has code of its own for each architecture, and what that rests on.
PACKAGES_EMULATED=(context guard vmstructs reference engine walkers)
# The JDKs that are walked; WALKFUZZ_EMULATED_JDKS names others.
read -r -a EMULATED_JDKS <<<"${WALKFUZZ_EMULATED_JDKS:-25 17}"

need_basics
# shellcheck disable=SC2154 # scripts/test sets it
for_target "$target"
need_cargo_fuzz

# Live tests of JVMs are left to the fuzz target.
emulated_tests() {
    local packages=()
    local name
    for name in "${PACKAGES_EMULATED[@]}"; do
        packages+=(--package "walkfuzz-$name")
    done
    # Those that look for a JDK say that they skip. Random cases cost ten times as much here, and the same code has seen them natively.
    PROPTEST_CASES=32 WALKFUZZ_TEST_JDKS='' cargo_tests --locked "${TARGET[@]}" "${packages[@]}" --no-fail-fast
}

# This machine's program brings JDKs for the other one.
emulated_jdk() {
    cargo run --quiet --locked --package walkfuzz -- jdk install "$1" --arch "$target"
}

fuzz_emulated() {
    local jdk=$1 runs=$2 folder status=0
    folder=$(mktemp -d)
    mkdir "$folder/corpus"
    WALKFUZZ_JDK=$jdk WALKFUZZ_RUNS=$folder/runs cargo fuzz run -s none "${TARGET[@]}" walk_ucontext "$folder/corpus" -- \
        -runs="$runs" -seed=1 -verbosity=0 2>&1 | tee "$folder/log" || status=$?
    # It walked frames of that architecture, and said that an emulator ran it.
    grep -Eq "^walkfuzz fuzz agct: ${jdk}[. ].*aarch64.*emulated" "$folder/log" || status=1
    grep -Eq '^  frames +[0-9,]{4,} ' "$folder/log" || status=1
    rm -rf "$folder"
    return "$status"
}

if [ "$DRY_RUN" = 1 ]; then
    run cargo test --locked "${TARGET[@]}" "${PACKAGES_EMULATED[@]/#/--package=walkfuzz-}"
    run cargo fuzz build -s none "${TARGET[@]}" walk_ucontext
    for jdk in "${EMULATED_JDKS[@]}"; do
        run cargo run --locked --package walkfuzz -- jdk install "$jdk" --arch "$target"
        run cargo fuzz run -s none "${TARGET[@]}" walk_ucontext -- -runs=2000
    done
    exit
fi
step "tests for $target" emulated_tests
step "walk_ucontext for $target" cargo fuzz build -s none "${TARGET[@]}" walk_ucontext
for jdk in "${EMULATED_JDKS[@]}"; do
    step "JDK $jdk for $target" emulated_jdk "$jdk"
    step "fuzz walk_ucontext for $target, JDK $jdk" fuzz_emulated "$jdk" 2000
done
skip_step "what else scripts/test does, for $target" 'it is the same program, and an emulator takes ten times as long'
finish_steps
