#!/bin/sh
# usage: tests/whole/hardening.sh BUILD   (called by `make test`)
# What the compiler and linker were told to do against overflows is in the programs: position-independent, relocations read-only
# before main, no executable stack, stack protectors, checked copies, landing pads for indirect jumps.
set -u
build=$1 passed=0 failed=0
has() { # WHAT COMMAND...
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
    fi
}
says() { # PATTERN readelf's arguments
    pattern=$1
    shift
    LC_ALL=C readelf -W "$@" | grep -Eq "$pattern"
}
hasnt() { ! says "$@"; }
for program in opt4gptq-run opt4gptq-convert opt4gptq-quantize opt4gptq-bench; do
    p=$build/$program
    has "$program: position-independent" says 'Type: +DYN' -h "$p"
    has "$program: GNU_RELRO" says GNU_RELRO -l "$p"
    has "$program: all symbols bound at start" says 'BIND_NOW|FLAGS_1.*NOW' -d "$p"
    has "$program: GNU_STACK" says GNU_STACK -l "$p"
    has "$program: no executable stack" hasnt 'GNU_STACK.*E' -l "$p"
    has "$program: no segment is writable and executable" hasnt 'LOAD.* RWE ' -l "$p"
    has "$program: no text relocations" hasnt TEXTREL -d "$p"
    has "$program: stack protector" says __stack_chk_fail -s "$p"
done
case $build in
*-san) ;; # the sanitizers look at copies themselves
*) has "opt4gptq-run: checked copies" says '__snprintf_chk|__memcpy_chk' -s "$build/opt4gptq-run" ;;
esac
for o in cli/main core/base/safetensors convert/plan backend-cpu/cpu cli/modes/batch/record; do
    has "$o: stack protector" says __stack_chk_fail -s "$build/$o.o"
    [ "$(uname -m)" != x86_64 ] || has "$o: landing pads, shadow stack" says 'IBT, SHSTK' -n "$build/$o.o"
done
echo "hardening: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
