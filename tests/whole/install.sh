#!/bin/sh
# usage: tests/whole/install.sh BUILD   (called by `make test`)
# make install under a DESTDIR: which files, stripped, usable; make uninstall leaves none.
set -u
build=$(realpath "$1")
. tests/whole/expect.sh
dir=$(mktemp -d)
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests
trap 'rm -rf "$dir"' EXIT
to() { make "$1" DESTDIR="$dir/root" PREFIX=/opt/x B="$build" PROGRAMS="$build/opt4gptq-run $build/opt4gptq-convert $build/opt4gptq-quantize $build/opt4gptq-bench" \
    -o "$build/opt4gptq-run" -o "$build/opt4gptq-convert" -o "$build/opt4gptq-quantize" -o "$build/opt4gptq-bench"; }
at=$dir/root/opt/x
quiet() { ! "$@" 2>&1 | grep .; }

expect "make install with DESTDIR" to install
for p in run convert bench; do
    expect "opt4gptq-$p is installed and runs" "$at/bin/opt4gptq-$p" --version
    expect "the manual page of opt4gptq-$p" grep -q '^\.SH OPTIONS' "$at/share/man/man1/opt4gptq-$p.1"
    expect "bash completion of opt4gptq-$p" bash -n "$at/share/bash-completion/completions/opt4gptq-$p"
    if command -v readelf >/dev/null; then
        expect "opt4gptq-$p is stripped" sh -c "! readelf -S '$at/bin/opt4gptq-$p' | grep -q '\.symtab'"
    else
        skip "opt4gptq-$p is stripped: no readelf"
    fi
    if command -v mandoc >/dev/null; then
        expect "mandoc finds no fault in the page of opt4gptq-$p" quiet mandoc -T lint -W warning "$at/share/man/man1/opt4gptq-$p.1"
    else
        skip "the page of opt4gptq-$p: no mandoc"
    fi
    if command -v zsh >/dev/null; then
        expect "zsh completion of opt4gptq-$p" zsh -n "$at/share/zsh/site-functions/_opt4gptq-$p"
    else
        skip "zsh completion of opt4gptq-$p: no zsh"
    fi
done
case $build in
*-san) ;;
*)
    scripts/budget "$build"
    expect "the parts of opt4gptq-run keep to their budgets" scripts/budget "$build"
    sed 's/^\(program\t\).*/\11\tsmall/' tests/data/budget.tsv >"$dir/budget.tsv"
    expect "a part beyond its budget is found" sh -c "! scripts/budget '$build' '$dir/budget.tsv'"
    ;;
esac
expect "the documents" test -s "$at/share/doc/opt4gptq-run/manual.md"
expect "merge-shards" test -x "$at/bin/opt4gptq-merge-shards"
touch "$at/bin/of-another"
expect "make uninstall" to uninstall
find "$dir/root" -type f >"$dir/left"
expect "make uninstall removes what make install wrote, and nothing else" test "$(cat "$dir/left")" = "$at/bin/of-another"
echo "install: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
