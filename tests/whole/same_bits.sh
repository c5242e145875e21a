#!/bin/sh
# usage: tests/whole/same_bits.sh BUILD_DIR [SHARED]
# In --act i16 and int8 a file of answers has the same bytes on the CPU and on GPUs: the kernels as host code of an AMD GPU, of
# sm_80 and sm_90a, and as the machine code of a gfx906, interpreted. A batch that one begins and a kill ends the other continues.
set -u
build=$1 passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run=$build/opt4gptq-run
is() { # WHAT A B: files of the same bytes
    if cmp -s "$2" "$3" && [ -s "$2" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL $1: $(cmp "$2" "$3" 2>&1 | head -n 1)"
    fi
}
record() { # NUMBER TOKENS
    printf '{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"prompt":"Once upon a time %d","max_tokens":%d,' \
        "$1" "$1" "$2"
    printf '"temperature":%s,"logprobs":2}}\n' "$([ $(($1 % 2)) = 0 ] && echo 0 || echo 0.9)"
}
for i in 1 2 3; do record $i 6; done >"$dir/three.jsonl"
for i in 1 2; do record $i 2; done >"$dir/two.jsonl"
for i in $(seq 40); do record "$i" 12; done >"$dir/many.jsonl"
"$build/opt4gptq-convert" models/demo "$dir/demo.safetensors" >"$dir/log" 2>&1 || cat "$dir/log"
answer() { # MODEL INPUT OUTPUT OPTION...
    model=$1 in=$2 out=$3
    shift 3
    "$run" -m "$dir/$model.safetensors" -i "$dir/$in" -o "$dir/$out" --same-bits "$@" >"$dir/log" 2>&1 || tail -n 3 "$dir/log"
}
on="--backend hip --hip-library $build/tests/bin"
for act in i16 int8; do
    answer demo three.jsonl cpu.$act --backend cpu --act $act
    for gpu in hip-fibers cuda-fibers-80 cuda-fibers-90; do
        [ $act = i16 ] || [ $gpu = cuda-fibers-90 ] || continue
        answer demo three.jsonl $gpu.$act $on/lib$gpu.so --act $act -np 3
        is "$gpu, $act" "$dir/cpu.$act" "$dir/$gpu.$act"
    done
done
# keys and values in 8 bits above and below, which --same-bits takes by itself
answer demo two.jsonl cpu.kv16 --backend cpu --kv f16
for gpu in hip-fibers cuda-fibers-80 cuda-fibers-90; do
    answer demo two.jsonl $gpu.kv16 $on/lib$gpu.so --kv f16 -np 2
    is "$gpu, keys and values in fp16" "$dir/cpu.kv16" "$dir/$gpu.kv16"
done
answer demo two.jsonl cpu.own --backend cpu
answer demo two.jsonl cpu.kv8 --backend cpu --kv int8
is "--same-bits takes --kv int8" "$dir/cpu.own" "$dir/cpu.kv8"
# pages that a step begins, fills and packs, in other steps on the CPU
words=$(for i in $(seq 9); do printf 'the people of the state were %d ' "$i"; done)
printf '{"custom_id":"p","method":"POST","url":"/v1/completions","body":{"prompt":"%s","max_tokens":4,"logprobs":2,"temperature":0.9}}\n' \
    "$words" >"$dir/pages.jsonl"
answer demo pages.jsonl cpu.kv4 --backend cpu --kv int4 -b 23
for gpu in hip-fibers cuda-fibers-80 cuda-fibers-90; do
    answer demo pages.jsonl $gpu.kv4 $on/lib$gpu.so --kv int4 -b 37
    is "$gpu, keys and values in 4 bits" "$dir/cpu.kv4" "$dir/$gpu.kv4"
done
# choices under masks and log-probabilities of prompts, which a GPU makes itself
for i in 1 2 3; do
    printf '{"custom_id":"m%d","method":"POST","url":"/v1/completions","body":{"prompt":"the people were %d","max_tokens":7,"seed":%d,' "$i" "$i" "$i"
    printf '"temperature":0.9,"top_p":0.8,"logit_bias":{"5":2},"guided_regex":"[a-z ]{9,40}"%s}}\n' "$([ $i = 3 ] && echo ',"prompt_logprobs":3,"logprobs":1')"
done >"$dir/masks.jsonl"
answer demo masks.jsonl cpu.masks --backend cpu
for gpu in hip-fibers cuda-fibers-90; do
    answer demo masks.jsonl $gpu.masks $on/lib$gpu.so -np 3
    is "masks, $gpu" "$dir/cpu.masks" "$dir/$gpu.masks"
done
# drafts from texts that repeat themselves: some are right, and no byte depends on them
for i in 1 2 3; do
    printf '{"custom_id":"d%d","method":"POST","url":"/v1/completions","body":{"prompt":"%s %s","max_tokens":24,' "$i" "$words" "$words"
    printf '"temperature":%s,"logprobs":2,"n":%d}}\n' "$([ $i = 1 ] && echo 0 || echo 0.4)" "$i"
done >"$dir/drafts.jsonl"
answer demo drafts.jsonl cpu.drafts --backend cpu --speculate off
for kv in int8 int4; do
    answer demo drafts.jsonl cpu.off.$kv --backend cpu --kv $kv --speculate off
    answer demo drafts.jsonl cpu.on.$kv --backend cpu --kv $kv --draft-max 7 --speculate prompt --report "$dir/report"
    is "drafts, --kv $kv" "$dir/cpu.off.$kv" "$dir/cpu.on.$kv"
    sed -n 's/.*"accepted_draft_tokens":\([0-9]*\).*/\1/p' "$dir/report" | grep -q '^[1-9]' || {
        failed=$((failed + 1))
        echo "FAIL no draft was right: $(cat "$dir/report")"
    }
done
for gpu in hip-fibers cuda-fibers-90; do
    answer demo drafts.jsonl $gpu.drafts $on/lib$gpu.so --speculate prompt
    is "drafts, $gpu" "$dir/cpu.drafts" "$dir/$gpu.drafts"
done
if [ -e "$build/tests/bin/libamdhip64-gfx906.so" ]; then
    answer demo two.jsonl cpu.two --backend cpu
    answer demo two.jsonl gfx906.two $on/libamdhip64-gfx906.so
    is "gfx906, interpreted" "$dir/cpu.two" "$dir/gfx906.two"
fi
# logits of other architectures and formats: mixtures of experts, hybrids, sinks, caps, act-order, 8-bit codes, chosen positions
same_logits() { # FOLDER: of a checkpoint
    name=${1##*/}
    "$build/opt4gptq-convert" "$1" "$dir/$name.safetensors" >"$dir/log" 2>&1 || cat "$dir/log"
    for to in "cpu --backend cpu" "hip $on/libhip-fibers.so" "cuda $on/libcuda-fibers-80.so"; do
        "$run" -m "$dir/$name.safetensors" --prompt-ids 3,5,7,11,13,17,19,23,29,31,37,41,43,47,53,59,61,67 -n 4 --temp 0 --format ids --same-bits \
            --logits-out "$dir/$name.${to%% *}" ${to#* } >"$dir/log" 2>&1 || tail -n 3 "$dir/log"
    done
    is "$name, AMD" "$dir/$name.cpu" "$dir/$name.hip"
    is "$name, NVIDIA" "$dir/$name.cpu" "$dir/$name.cuda"
}
for name in qwen3-moe qwen3.5-moe gpt-oss gemma4 gemma3-capped llama-act-order-asym bits8 glm-moe-dsa kimi-linear jamba; do
    same_logits "tests/data/gptq/$name"
done
# Mamba-2, short convolutions, q, k and v of DeltaNet apart
for name in nemotron-h nemotron-h-moe granite4-h granite4-h-dense bamba falcon-h1 lfm2 lfm2-moe olmo-hybrid; do
    folder=${2:-../shared}/fixtures/newest/$name
    if [ -e "$folder" ]; then same_logits "$folder"; else echo "SKIP $folder: not here"; fi
done
# begun on a GPU, killed, continued on the CPU
answer demo many.jsonl whole --backend cpu
"$run" -m "$dir/demo.safetensors" -i "$dir/many.jsonl" -o "$dir/both" --same-bits $on/libcuda-fibers-80.so -np 4 >"$dir/log" 2>&1 &
pid=$!
for wait in $(seq 1800); do # 3 minutes: other tests run beside it
    [ "$(grep -c custom_id "$dir/both.journal" 2>/dev/null)" -ge 4 ] 2>/dev/null && break
    sleep 0.1
done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
done_before=$(grep -c custom_id "$dir/both.journal")
answer demo many.jsonl both --backend cpu
is "begun on a GPU, continued on the CPU" "$dir/whole" "$dir/both"
if [ "$done_before" -ge 4 ] && [ "$done_before" -lt 40 ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL the kill came after $done_before answers"
fi
echo "same_bits: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
