#!/bin/sh
# {{TITLE}}
#
# Usage: sh run.sh [JDK_HOME]          (without it: JAVA_HOME, else the java on the PATH)
#
# Builds agent.c with cc and Walked.java with javac, and runs them until the JVM dies.
# Environment: ATTEMPTS (default 5), SECONDS_EACH (default 60), KEEP_GOING=1 to make all attempts and count, CC.
# Exit code: 0 the JVM died in {{SITE}}, 1 it did not, 2 something is missing.
set -u
cd "$(dirname "$0")" || exit 2

headline='{{HEADLINE}}'
function='{{FUNCTION}}'
place='{{PLACE}}'
version='{{VERSION}}'
attempts=${ATTEMPTS:-5}
seconds=${SECONDS_EACH:-60}

missing() {
    echo "run.sh: $1" >&2
    exit 2
}

jdk=${1:-${JAVA_HOME:-}}
if [ -z "$jdk" ]; then
    java=$(command -v java) || missing 'no JDK: name one, or set JAVA_HOME'
    jdk=$(dirname "$(dirname "$(readlink -f "$java")")")
fi
[ -x "$jdk/bin/java" ] || missing "no bin/java in $jdk"
jdk=$(cd "$jdk" && pwd)
found=$("$jdk/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.vm\.version = //p')
echo "JVM $found in $jdk"
case $found in
"$version" | "$version"[+.-]*) ;;
*) echo "note: the finding is of $version; another JVM may behave otherwise" ;;
esac

# A runtime without a compiler is fine: any javac from 11 on will do.
javac=$jdk/bin/javac
if [ ! -x "$javac" ]; then
    javac=$(command -v javac || ls /usr/lib/jvm/*/bin/javac 2>/dev/null | head -n 1)
    [ -n "$javac" ] || missing 'no javac: put one on the PATH'
    echo "this JDK has no javac; compiling with $javac --release 11"
fi
cc=${CC:-cc}
command -v "$cc" >/dev/null || missing "no C compiler $cc"

rm -rf build
mkdir build || exit 2
"$cc" -O1 -fPIC -shared -o build/agent.so agent.c -ldl -lpthread || exit 2
"$javac" --release 11 -nowarn -d build Walked.java || exit 2

# Whether a crash log names the function, or the place in a library without symbols.
same() {
    grep -q "^#  $headline" "$1" || return 1
    if [ "$headline" = 'Internal Error' ]; then
        frames=$(grep '^V  ' "$1") # the JVM has called its own error handler: the function is further down
    else
        frames=$(sed -n '/^# Problematic frame:/{n;p;}' "$1")
    fi
    [ -n "$function" ] && printf '%s\n' "$frames" | grep -qF "]  $function(" && return 0
    [ -n "$place" ] && printf '%s\n' "$frames" | grep -qF "[$place]" && return 0
    return 1
}

ulimit -c 0
good=0
elsewhere=0
none=0
attempt=1
while [ "$attempt" -le "$attempts" ]; do
    work=build/attempt-$attempt
    mkdir "$work"
    # Neighbours of the finding's numbers find what no moment here has exactly; the numbers alone find what other crashes would hide.
    option=
    [ $((attempt % 2)) -eq 0 ] && option='=exact'
    (
        cd "$work" && exec timeout -s KILL $((seconds + 30)) \
            "$jdk/bin/java" {{FLAGS}}-agentpath:"$PWD/../agent.so$option" -cp .. Walked "$seconds"
    ) >"$work/out.txt" 2>&1
    code=$?
    log=$(ls "$work"/hs_err_pid*.log 2>/dev/null | head -n 1)
    if [ -n "$log" ] && same "$log"; then
        good=$((good + 1))
        echo "attempt $attempt: {{SITE}}, $log"
        sed -n '/^#  [A-Z]/p; /^# Problematic frame:/{n;p;}' "$log"
        cat "$work/last-words.txt"
        [ -n "${KEEP_GOING:-}" ] || exit 0
    elif [ -n "$log" ]; then
        elsewhere=$((elsewhere + 1))
        echo "attempt $attempt: another crash, $log"
        sed -n '/^#  [A-Z]/p; /^# Problematic frame:/{n;p;}' "$log"
    else
        none=$((none + 1))
        echo "attempt $attempt: no crash in $seconds seconds (exit code $code)"
    fi
    attempt=$((attempt + 1))
done
echo "died in {{SITE}}: $good of $attempts attempts; elsewhere: $elsewhere; no crash: $none"
[ "$good" -gt 0 ]
