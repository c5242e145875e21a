#!/bin/sh
# usage: tests/whole/arm64.sh BUILD ARM_BUILD   (called by `make test-arm64`)
# Runs the arm64 build under qemu-user: the small cases of checkop for every variant, whole greedy generations with their logits
# compared byte by byte with the build for this machine, and the inner loops' disassembly. qemu says nothing about speed.
set -u
build=$1 arm=$2
dir=$(mktemp -d) passed=0 failed=0
trap 'rm -rf "$dir"' EXIT
emulate() { timeout -s KILL "$@"; } # SECONDS COMMAND...: only what hangs takes that long

add() { # of a line "NAME: N passed, N failed, N skipped" in $dir/log
    line=$(grep -E ': [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$dir/log" | tail -n 1)
    if [ -n "$line" ]; then
        passed=$((passed + $(echo "$line" | sed -E 's/.*: ([0-9]+) passed.*/\1/')))
        failed=$((failed + $(echo "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')))
    else
        echo "FAIL $1 died"
        failed=$((failed + 1))
    fi
}

# -t 2 in one of the runs: threads under another memory model than this machine's
generations() { # NAME MODEL ARGS...
    name=$1 model=$2
    shift 2
    for act in f32 i16 int8; do
        "$build/opt4gptq-run" -m "$model" --temp 0 --act $act --format ids --logits-out "$dir/want" "$@" >"$dir/want.ids" 2>"$dir/err" ||
            cat "$dir/err"
        for run in "scalar 1" "neon 1" "dotprod 1" "i8mm 1" "auto 2"; do
            variant=${run% *} threads=${run#* }
            rm -f "$dir/got"
            emulate 3600 qemu-aarch64 "$arm/opt4gptq-run" -m "$model" --temp 0 --act $act --format ids --cpu $variant -t $threads \
                --logits-out "$dir/got" "$@" >"$dir/got.ids" 2>"$dir/err"
            if [ -s "$dir/want" ] && [ -s "$dir/want.ids" ] && cmp -s "$dir/want" "$dir/got" && cmp -s "$dir/want.ids" "$dir/got.ids"; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
                echo "FAIL $name --act $act: arm64 --cpu $variant -t $threads does not have the bits of this machine's build"
                cat "$dir/err"
            fi
        done
        echo "$name --act $act: logits $(md5sum <"$dir/want" | cut -c1-12), ids $(md5sum <"$dir/want.ids" | cut -c1-12)"
    done
}
"$build/opt4gptq-convert" models/demo "$dir/demo" 2>/dev/null
generations demo "$dir/demo" -n 8 -p "The heart pumps blood through the body, and the lungs take in air. Once upon a time there was"
"$build/opt4gptq-convert" tests/data/gptq/llama-act-order-asym "$dir/fixture" 2>/dev/null
generations llama-act-order-asym "$dir/fixture" -n 8 --prompt-ids 1,5,9,17,33,2,40,41,42,43,7,8
# a batch with log-probabilities, greedy and sampled, as scripts/hash-table has; pages of 4 bits are read from position 16 on
for i in 1 2 3; do
    printf '{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"prompt":"Once upon a time %d","max_tokens":24,' $i $i
    printf '"temperature":%s,"logprobs":2}}\n' "$([ $i = 2 ] && echo 0.9 || echo 0)"
done >"$dir/three.jsonl"
for kv in int8 int4; do
    rm -f "$dir"/want.jsonl* "$dir"/got.jsonl*
    "$build/opt4gptq-run" -m "$dir/demo" -i "$dir/three.jsonl" -o "$dir/want.jsonl" --same-bits --kv $kv --backend cpu 2>"$dir/err" ||
        cat "$dir/err"
    emulate 3600 qemu-aarch64 "$arm/opt4gptq-run" -m "$dir/demo" -i "$dir/three.jsonl" -o "$dir/got.jsonl" --same-bits --kv $kv -t 2 \
        2>"$dir/err" || cat "$dir/err"
    if [ -s "$dir/want.jsonl" ] && cmp -s "$dir/want.jsonl" "$dir/got.jsonl"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL a batch on arm64 with --kv $kv does not have the bytes of this machine's build"
    fi
done
"$build/tests/bin/asm" "$arm" aarch64-linux-gnu- >"$dir/log" 2>&1
grep -v ' instructions, ' "$dir/log"
add asm
emulate 3600 qemu-aarch64 "$arm/tests/bin/checkop" --quick >"$dir/log" 2>&1
cat "$dir/log"
add checkop
echo "arm64: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
