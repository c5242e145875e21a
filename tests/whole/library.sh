#!/bin/sh
# usage: tests/whole/library.sh BUILD_DIR   (called by `make test`)
# The library as a C program and as a Python package use it: what it exports, its answers beside those of opt4gptq-run, vectors, errors,
# a wheel in an environment of its own.
set -u
build=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. tests/whole/expect.sh
model=$dir/demo.safetensors prompt="Once upon a time there was"
"$build/opt4gptq-convert" models/demo "$model" 2>/dev/null

nm -D --defined-only "$build/libopt4gptq.so.0" | awk '{print $3}' | sort >"$dir/exported"
grep -oE 'o4_[a-z_]+\(' engine/opt4gptq.h | tr -d '(' | sort -u >"$dir/declared"
expect "it exports what opt4gptq.h declares" cmp "$dir/declared" "$dir/exported"

# as installed: header, library
mkdir "$dir/lib" "$dir/include"
cp engine/opt4gptq.h "$dir/include"
cp "$build/libopt4gptq.so.0" "$dir/lib"
ln -s libopt4gptq.so.0 "$dir/lib/libopt4gptq.so"
expect "the example compiles" "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -I"$dir/include" -o "$dir/answer" engine/example/answer.c \
    -L"$dir/lib" -lopt4gptq -Wl,-rpath,"$dir/lib"
"$build/opt4gptq-run" -m "$model" -p "$prompt" -n 32 --temp 0 --no-display-prompt >"$dir/want" 2>/dev/null
"$dir/answer" "$model" "$prompt" >"$dir/got" 2>&1
expect "its answer is that of opt4gptq-run, and it prints nothing else" cmp "$dir/want" "$dir/got"
"$dir/answer" README.md x >"$dir/got" 2>&1
expect "a file that is no model fails" [ $? = 1 ]
expect "and says what it is" grep -q 'README.md: is not a safetensors file' "$dir/got"

if python3 -c 'import venv, ensurepip' 2>/dev/null; then
    scripts/wheel "$build" 0.0 >/dev/null
    python3 -m venv "$dir/venv"
    expect "the wheel installs without a network" "$dir/venv/bin/pip" install -q --no-index --no-deps "$build"/opt4gptq-0.0-*.whl
    rm -f "$build"/opt4gptq-0.0-*.whl
    cp tests/whole/library.py "$dir"
    expect "answers of the Python package" sh -c "cd $dir && venv/bin/python library.py $model want"
else
    skip "the Python package: no python3 with venv"
fi
echo "library: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
