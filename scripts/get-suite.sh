# shellcheck shell=bash
# What scripts/get-renaissance and scripts/get-dacapo share: one pinned file, by its sha256, into the cache folder.
# Sourced after `set -euo pipefail`.

# get_suite NAME VERSION FILE URL ARGUMENT...: prints the file's path; SUITE_FILE is that path as well.
get_suite() {
    local name=$1 version=$2 file=$3 url=$4 digest='' given=''
    shift 4
    while [ $# -gt 0 ]; do
        case $1 in
        --sha256) digest=${2:?--sha256 needs a value} && shift 2 ;;
        --file) given=${2:?--file needs a path} && shift 2 ;;
        -h | --help)
            sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
            exit 0
            ;;
        *)
            echo "get-$name: no such option: $1" >&2
            exit 2
            ;;
        esac
    done
    if ! [[ $digest =~ ^[0-9a-f]{64}$ ]]; then
        echo "get-$name: give the sha256 of $file: --sha256 HEX (64 digits)." >&2
        echo "None is pinned here, since nobody of this project has checked one. The release page of $name $version has the file: $url" >&2
        echo "A file of your own is tried by: sha256sum FILE; $0 --sha256 HEX --file FILE" >&2
        exit 2
    fi
    SUITE_FILE=${given:-${WALKFUZZ_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/walkfuzz}/suites/$file}
    if [ -z "$given" ] && ! [ -e "$SUITE_FILE" ]; then
        command -v curl >/dev/null || { echo "get-$name: curl is missing; bring it with: apt-get install curl" >&2 && exit 3; }
        mkdir -p "$(dirname "$SUITE_FILE")"
        # What is there in part is gone on with.
        curl --fail --location --silent --show-error --continue-at - --output "$SUITE_FILE.part" "$url" >&2 ||
            { echo "get-$name: $url did not come" >&2 && exit 3; }
        check_suite "$name" "$SUITE_FILE.part" "$digest"
        mv "$SUITE_FILE.part" "$SUITE_FILE"
    else
        check_suite "$name" "$SUITE_FILE" "$digest"
    fi
}

check_suite() {
    local found
    [ -f "$2" ] || { echo "get-$1: no file $2" >&2 && exit 2; }
    found=$(sha256sum <"$2")
    found=${found%% *}
    if [ "$found" != "$3" ]; then
        echo "get-$1: $2 has sha256 $found, expected $3; if the download was cut short or is the wrong one, remove it" >&2
        exit 1
    fi
}
