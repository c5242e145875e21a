#!/bin/sh
# usage: tests/whole/hybrid.sh BUILD_DIR
# A GPU (the kernels as host code, or a gfx906's interpreted) and the CPU in one run: in --act i16 and int8 a file of answers has
# the bytes of the CPU alone and of the GPU alone however layers and experts are split, also one that is begun in one split, killed
# and continued in another; f16 is continued in the same split only; what cannot be is refused in a line.
set -u
build=$1 passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run=$build/opt4gptq-run
gpu="--hip-library $build/tests/bin/libhip-fibers.so"
ok() { # WHAT CODE: counts the exit code of the check before
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}
is() { # WHAT A B: files of the same bytes
    cmp -s "$2" "$3" && [ -s "$2" ]
    ok "$1: $(cmp "$2" "$3" 2>&1 | head -n 1)" $?
}
if [ ! -e "$build/tests/bin/libhip-fibers.so" ]; then
    echo "SKIP CPU and GPU in one run: built without clang-19"
    echo "hybrid: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
records() { # COUNT TOKENS LENGTH
    for i in $(seq "$1"); do
        ids=$(for k in $(seq "$3"); do printf '%d,' $(((i * 7 + k * k * 3) % 97 + 1)); done)
        printf '{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"prompt":[%s],"max_tokens":%d,"temperature":%s}}\n' \
            "$i" "${ids%,}" "$2" "$([ $((i % 2)) = 0 ] && echo 0 || echo 0.9)"
    done
}
records 4 6 21 >"$dir/few.jsonl"
records 30 12 9 >"$dir/many.jsonl"
for name in llama gemma3-capped qwen3-moe qwen3.5-moe; do
    "$build/opt4gptq-convert" tests/data/gptq/$name "$dir/$name.safetensors" >"$dir/log" 2>&1 || cat "$dir/log"
done
answer() { # MODEL INPUT OUTPUT OPTION...
    model=$1 in=$2 out=$3
    shift 3
    "$run" -m "$dir/$model.safetensors" -i "$dir/$in.jsonl" -o "$dir/$out" --format ids -np 3 -b 16 -c 64 "$@" >"$dir/log" 2>&1
}
# by layers and by experts
for model in llama gemma3-capped qwen3-moe qwen3.5-moe; do
    answer $model few cpu --same-bits --backend cpu
    answer $model few gpu --same-bits --backend gpu $gpu
    is "$model, GPU" "$dir/cpu" "$dir/gpu"
    case $model in
    *moe) set -- "-cmoe" "-ngl 2 -ncmoe 2" "--experts-on gpu:1 --no-prefix-cache" ;;
    *) set -- "-ngl 1" ;;
    esac
    for split; do
        answer $model few split --same-bits $gpu $split
        is "$model, $split" "$dir/cpu" "$dir/split"
        rm -f "$dir"/split*
    done
    rm -f "$dir"/cpu* "$dir"/gpu*
done
for split in "-ngl 1 --kv int4" "-cmoe --kv int4"; do
    answer qwen3.5-moe few cpu --same-bits --act int8 --kv int4 --backend cpu
    answer qwen3.5-moe few split --same-bits --act int8 $gpu $split
    is "int8, $split" "$dir/cpu" "$dir/split"
    rm -f "$dir"/cpu* "$dir"/split*
done
# the machine code of gfx906s, interpreted, beside the CPU and beside one another (sanitized, it would take minutes)
gfx906="--hip-library $build/tests/bin/libamdhip64-gfx906.so"
export GFX906_DEVICES=8
records 3 3 7 >"$dir/three.jsonl"
interpreted() { # MODEL SPLIT
    answer $1 three cpu --same-bits --backend cpu
    answer $1 three split --same-bits $gfx906 -b 15 $2
    is "$1, gfx906, $2" "$dir/cpu" "$dir/split"
    rm -f "$dir"/cpu* "$dir"/split*
}
case $build in
*-san) ;;
*)
    interpreted llama "-ngl 1"
    interpreted qwen3-moe "-cmoe"
    interpreted llama "--devices 0,1,2,3 --parallel-mode tensor"
    interpreted qwen3-moe "--devices 0,1,2 --parallel-mode layers"
    interpreted llama "--devices all --parallel-mode data"
    ;;
esac
# prompts and states on disk, read by another run of the same split
for round in 1 2; do
    answer qwen3.5-moe few disk$round --same-bits $gpu -ngl 2 -cmoe --prefix-cache-dir "$dir/prompts"
done
answer qwen3.5-moe few cpu --same-bits --backend cpu
is "prompts to disk" "$dir/cpu" "$dir/disk1"
is "prompts from disk" "$dir/cpu" "$dir/disk2"
rm -f "$dir"/cpu* "$dir"/disk*
# begun in one split, killed, continued in others
begin() { # OUTPUT OPTION...: runs until answers are there, then kills it
    out=$1
    shift
    "$run" -m "$dir/qwen3-moe.safetensors" -i "$dir/many.jsonl" -o "$dir/$out" --format ids -np 3 -b 16 -c 64 "$@" >"$dir/log" 2>&1 &
    pid=$!
    for wait in $(seq 1800); do
        [ "$(grep -ac . "$dir/$out.journal" 2>/dev/null)" -ge 8 ] 2>/dev/null && break
        sleep 0.05
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    n=$(grep -ac . "$dir/$out.journal" 2>/dev/null)
    [ -e "$dir/$out.journal" ] && [ ! -e "$dir/$out" ]
    ok "the kill came too late or too early ($n lines)" $?
}
answer qwen3-moe few table --same-bits $gpu -cmoe
grep -q "experts of the CPU come to the GPU" "$dir/log" && grep -q "0 .* ms  (this run)" "$dir/log"
ok "a table says what lies where: $(cat "$dir/log")" $?
"$run" -m "$dir/qwen3-moe.safetensors" --info -np 3 -b 16 -c 64 --same-bits $gpu -cmoe | sed -n '/^split/,/^   2/p' >"$dir/info"
sed -n '/^split/,/^   2/p' "$dir/log" >"$dir/said"
is "--info says the same" "$dir/said" "$dir/info"
answer qwen3-moe many whole --same-bits --backend cpu
begin both --same-bits $gpu -cmoe
answer qwen3-moe many both --same-bits $gpu -ngl 1
is "begun with experts on the CPU, continued with a layer on the GPU" "$dir/whole" "$dir/both"
begin float --act f16 $gpu -cmoe
! answer qwen3-moe many float --act f16 $gpu -ncmoe 2 && grep -q 'instruction set was .*experts of 0.* is .*experts of' "$dir/log"
ok "f16 is not continued in another split: $(tail -n 1 "$dir/log")" $?
answer qwen3-moe many float --act f16 $gpu --experts-on cpu
ok "f16 is continued in the same split" $?
grep -q "bytes of answers are those of this split" "$dir/log"
ok "f16 says that bytes depend on the split" $?
# what does not fit the card's memory
refused() { # CODE TEXT OPTION...
    code=$1 text=$2
    shift 2
    "$run" -m "$dir/qwen3-moe.safetensors" --prompt-ids 1,2,3 -n 2 --format ids "$@" >"$dir/log" 2>&1
    [ $? = "$code" ] && [ "$(wc -l <"$dir/log")" = 1 ] && grep -qF -- "$text" "$dir/log"
    ok "$*: $(cat "$dir/log")" $?
}
refused 2 "--gpu-layers few: is no number of layers, all or auto" -ngl few $gpu
refused 2 "--gpu-layers -3: is no number" --gpu-layers -3 $gpu
refused 2 "--experts-on gpu:: is none of auto, gpu, cpu, gpu:N" --experts-on gpu: $gpu
refused 2 "--gpu-memory 5X" --gpu-memory 5X $gpu
refused 2 "--n-cpu-moe and --experts-on gpu:1 exclude each other" -ncmoe 1 --experts-on gpu:1 $gpu
refused 2 "not with --backend cpu" --backend cpu -cmoe
refused 2 "not with --backend gpu" --backend gpu -ngl 0 $gpu
"$run" -m "$dir/llama.safetensors" --prompt-ids 1,2,3 -n 2 --format ids -cmoe $gpu >"$dir/log" 2>&1
[ $? = 1 ] && grep -q "the model has no experts" "$dir/log"
ok "experts of a model without: $(cat "$dir/log")" $?
echo "hybrid: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
