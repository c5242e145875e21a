#!/bin/sh
# usage: tests/whole/setup.sh BUILD   (called by `make test`)
# What somebody meets who lacks something: packages at make, files at scripts/quality.
set -u
build=$(realpath "$1") root=$(pwd) passed=0 failed=0 skipped=0
dir=$(mktemp -d)
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests
trap 'rm -rf "$dir"' EXIT
expect() { # WHAT PATTERN LINES: of $dir/out
    if grep -q -- "$2" "$dir/out" && [ "$(wc -l <"$dir/out")" -le "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        head -5 "$dir/out"
    fi
}

# a machine where no package is installed
printf '#!/bin/sh\nexit 1\n' >"$dir/dpkg-query"
chmod +x "$dir/dpkg-query"
PATH=$dir:$PATH make -n CC=gcc >"$dir/out" 2>&1
expect "make names what is not installed" 'not installed: gcc make libc6-dev libjansson-dev .*Run scripts/deps' 1
PATH=$dir:$PATH make -n clean >"$dir/out" 2>&1
expect "make clean needs nothing" '^rm -rf build' 1
PATH=$dir:$PATH scripts/deps --missing >"$dir/out" 2>&1
expect "scripts/deps --missing installs nothing" '^gcc make .* libmd-dev$' 1

if command -v python3 >/dev/null 2>&1; then
    "$build/opt4gptq-convert" -q models/demo "$dir/demo.safetensors"
    cd "$dir" || exit 2
    "$root/scripts/quality" demo.safetensors --build "$build" --text nowhere.txt >out 2>&1
    expect "scripts/quality names the text that is not there" '^scripts/quality: nowhere.txt: no such file' 1
    "$root/scripts/quality" demo.safetensors --build "$build" --text "$root/README.md" --arc "$dir" >out 2>&1
    expect "scripts/quality names the questions that are not there" 'arc_easy.jsonl: no such file' 1
    echo "too short" >text
    "$root/scripts/quality" demo.safetensors --build "$build" --text text >out 2>&1
    expect "scripts/quality shows what the program says" 'opt4gptq-run: the text has .* tokens, one window 512' 8
    "$root/scripts/quality" demo.safetensors --build "$build" --text "$root/LICENSE" -c 64 --windows 2 --acts i16 --kvs f16,int4 --records records >out 2>&1
    expect "scripts/quality works from any folder" '^| i16, f16 | ' 9
    cp records out
    expect "scripts/quality leaves its rows as JSON" '"act": "i16", "kv": "int4", "perplexity": "[0-9.,]*", "beside_exact": "[-+][0-9.]* ± [0-9.]*%"' 4
else
    echo "SKIP scripts/quality: no python3"
    skipped=4
fi
echo "setup: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
