#!/bin/sh
# usage: tests/whole/figures.sh   (called by `make test`)
# The tables and the picture of the documents are those that scripts/figures makes of
# docs/figures/*.json, and it sees a figure that was changed in one place only.
set -u
passed=0 failed=0
if ! command -v python3 >/dev/null 2>&1; then
    echo "SKIP scripts/figures: no python3"
    echo "figures: 0 passed, 0 failed, 4 skipped"
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
expect() { # WHAT PATTERN RC: of the last run
    if grep -q -- "$2" "$dir/out" && [ "$rc" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        cat "$dir/out"
    fi
}
rc=0
scripts/figures --check >"$dir/out" 2>&1 || rc=$?
expect "documents and figures agree" '^the documents agree' 0

mkdir "$dir/tree"
cp -r README.md docs scripts "$dir/tree"
cd "$dir/tree" || exit 2
sed -i '0,/"median_ts": 3.5,/s//"median_ts": 4.5,/' docs/figures/zen3.json
rc=0
scripts/figures --check >"$dir/out" 2>&1 || rc=$?
expect "a figure changed in the JSON alone is seen" 'docs/performance.md differs' 1
scripts/figures >"$dir/out" 2>&1
rc=0
scripts/figures --check >"$dir/out" 2>&1 || rc=$?
expect "scripts/figures puts it into the document" '^the documents agree' 0
record='"n_prompt": 8, "n_gen": 0, "n_depth": 0, "n_parallel": 1, "act": "i16", "median_ts": 5.5'
echo "[{$record}]" |
    scripts/figures --add zen3.json speed "a command" "shape=tiny" >"$dir/out" 2>&1
scripts/figures >>"$dir/out" 2>&1
grep 'tiny | prompt 8 .*5\.5' docs/performance.md >>"$dir/out"
rc=$?
expect "--add appends what opt4gptq-bench printed" 'tiny | prompt 8' 0
echo "figures: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
