#!/bin/sh
# What a container begins with: takes the kernels that were compiled for processors like this one, then runs tercet.
#
# Numba compiles for the very processor it runs on, and takes no code that was compiled for another. So the image has code for
# the levels of x86-64 (v2, v3, v4: what all processors of ten years and more have in common), and the best one that this
# processor can run is asked for. Without such code, as on a processor before these levels, kernels are compiled here.
set -eu

TERCET=${TERCET_HOME:-/opt/tercet}
IMAGE=$TERCET/kernels

# The levels of this processor, the best first, as the loader of the C library tells them.
levels() {
    case $(uname -m) in
        x86_64) /lib64/ld-linux-x86-64.so.2 --help | sed -n 's/^ *\(x86-64-v[234]\) (supported.*/\1/p' ;;
        *) echo generic ;;
    esac
}

if [ "${1-}" = compile-for-image ]; then
    mkdir "$IMAGE"
    for level in $(levels); do
        NUMBA_CACHE_DIR=$IMAGE NUMBA_CPU_NAME=$level NUMBA_CPU_FEATURES='' "$TERCET/bin/tercet" warm search serve
        echo "compiled for $level"
        : >"$IMAGE/$level"
    done
    chmod -R a+rX "$IMAGE"
    exit
fi

if [ -z "${NUMBA_CPU_NAME+set}" ]; then
    for level in $(levels); do
        if [ -e "$IMAGE/$level" ]; then
            export NUMBA_CPU_NAME="$level" NUMBA_CPU_FEATURES=''
            break
        fi
    done
fi

# Into the cache, where what is still missing can be compiled and kept; where that cannot be written to, from the image.
umask 077
for kernels in "$IMAGE"/tercet-*; do
    there=$NUMBA_CACHE_DIR/${kernels##*/}
    if [ ! -d "$there" ]; then
        new=$NUMBA_CACHE_DIR/.new-$$
        if cp -R "$kernels" "$new" 2>/dev/null && chmod -R go= "$new" && mv -T "$new" "$there" 2>/dev/null; then :; else
            rm -rf "$new"
            [ -d "$there" ] || export NUMBA_CACHE_DIR="$IMAGE"
        fi
    fi
done

exec "$TERCET/bin/tercet" "$@"
