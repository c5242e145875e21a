#!/bin/sh
# usage: tests/whole/documents.sh BUILD   (called by `make test`)
# Every command line of the README and the documents, as it is written there: in a folder where the files that they name exist, small
# ones (models/demo in place of a downloaded checkpoint), with the programs on PATH. What measures for minutes is stopped after some
# seconds and must have said nothing wrong until then. Commands of other programs (hf) are not run; make's are looked up.
set -u
build=$(realpath "$1") root=$(pwd) passed=0 failed=0 skipped=0
dir=$(mktemp -d)
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests
trap 'rm -rf "$dir"' EXIT
result() { # RC WHAT: prints what the command said when it failed
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $2"
        tail -n 5 "$dir/said"
    fi
}
skip() {
    skipped=$((skipped + 1))
    echo "SKIP $1"
}

# What a reader has: a home with a checkpoint, the programs, the repository's folders, and files of the names in the documents.
mkdir -p "$dir/home/hub" "$dir/bin" "$dir/work/build" "$dir/lib"
work=$dir/work
ln -s "$root/models/demo" "$dir/home/hub/TinyLlama-1.1B-Chat-GPTQ"
ln -s "$root/models/demo" "$work/TinyLlama-GPTQ"
ln -s "$root/models" "$root/scripts" "$root/tests" "$root/Makefile" "$work"
for p in run convert quantize bench; do
    ln -s "$build/opt4gptq-$p" "$dir/bin"
    ln -s "$build/opt4gptq-$p" "$work/build"
done
"$build/tests/bin/quantize" "$build" "$dir/home/hub/SmolLM2-135M" || exit 2 # published weights, made up
command -v less >/dev/null || ln -s /bin/cat "$dir/bin/less"
"$build/opt4gptq-convert" -q models/demo "$work/tinyllama.safetensors" || exit 2
ln "$work/tinyllama.safetensors" "$work/model.safetensors"
ln -s "$root/scripts/merge-shards" "$dir/bin/opt4gptq-merge-shards"
# SLURM, as far as the batch script asks for it
printf '#!/bin/sh\nwhile case $1 in --*) ;; *) false ;; esac; do shift; done\nexec "$@"\n' >"$dir/bin/srun"
printf '#!/bin/sh\nexit 0\n' >"$dir/bin/scontrol"
chmod +x "$dir/bin/srun" "$dir/bin/scontrol"
export HOME="$dir/home" PATH="$dir/bin:$PATH" SLURM_CPUS_PER_TASK=1 SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1
# a GPU: the kernels as host code, in a build that has kernels
gpu=
if [ -e "$build/gpu/gfx90a.co" ] && [ -e "$build/tests/bin/libhip-fibers.so" ]; then
    gpu=1
    for v in 7 6 5; do ln -s "$build/tests/bin/libhip-fibers.so" "$dir/lib/libamdhip64.so.$v"; done
fi
cd "$work" || exit 2
awk 'BEGIN { for (i = 0; i < 200; i++) print "The cat sat on the mat and looked at the " i ". dog." }' >wiki.test.raw
echo "Once upon a time" >prompt.txt
printf '%s\n' '{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "The heart", "max_tokens": 8}}' \
    '{"custom_id": "b", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}}' >prompts.jsonl
printf 'id,review\n1,"Good, very good"\n' >reviews.csv
printf 'The heart\nA house\n' | gzip >prompts.txt.gz
printf '{"query": "One and one is", "choices": ["two", "three"], "gold": 0}\n' | tee arc_easy.jsonl arc_challenge.jsonl >/dev/null
mkdir questions
printf '{"goal": "To eat,", "sol1": "cook", "sol2": "sing", "label": 0}\n' >questions/piqa.jsonl
printf '{"sentence": "The cat sat and _ slept.", "option1": "it", "option2": "he", "answer": "1"}\n' >questions/winogrande.jsonl
printf '{"activity_label": "A", "ctx_a": "B.", "ctx_b": "c", "endings": ["d", "e", "f", "g"], "label": 1}\n' >questions/hellaswag.jsonl
for n in 1 2 3 4 5 6; do
    printf '{"question": "%s?", "answer": "#### %s"}\n' $n $n | tee -a questions/gsm8k_train.jsonl >>questions/gsm8k_test.jsonl
    printf '{"question": "%s?", "subject": "anatomy", "choices": ["1", "2", "3", "4"], "answer": 1}\n' $n |
        tee -a questions/mmlu_dev.jsonl >>questions/mmlu_test.jsonl
done
for t in arc_easy arc_challenge; do printf '{"query": "Question: One and one is?", "choices": ["two", "three"], "gold": 0}\n' >questions/$t.jsonl; done
printf '{"text": "A first document."}\n{"text": "Another one."}\n' >documents.jsonl
printf '{"name": "one", "schema": {"type": "object"}, "tests": [{"valid": true, "data": {"a": 1}}]}\n' >schemas.jsonl

# A backslash at the end of a line joins it with the next; what a program printed in an example begins like none of the patterns.
(cd "$root" && awk '
        FNR == 1 { inside = 0; whole = "" }
        /^```/ { inside = !inside; python = /python/; next }
        !inside || python { next }
        sub(/\\$/, "") { whole = whole $0; next }
        { print FILENAME "\t" whole $0; whole = "" }' README.md docs/*.md) >"$dir/lines"
limit=3 # seconds of what measures
of=
while IFS='	' read -r document line; do
    case $line in *--shard*) of= ;; esac
    [ "$document" = "$of" ] || rm -f answers.jsonl* # each document begins with none, and a batch of shards
    of=$document
    case $line in
    opt4gptq-*:*MB\ in*ms | scripts/\ *) continue ;; # what a program prints; a tree of the folders
    make\ * | make)
        target=${line%%#*}
        # shellcheck disable=SC2086
        (cd "$root" && make -n ${target#make} >"$dir/said" 2>&1 </dev/null)
        result $? "$document: $line"
        continue
        ;;
    scripts/deps\ *) continue ;; # installs packages
    scripts/quality*) command -v python3 >/dev/null || { skip "$document: $line: no python3"; continue; } ;;
    opt4gptq-* | build/opt4gptq-* | scripts/* | srun\ * | echo\ *\|* | printf\ *\|*) ;;
    *) continue ;;
    esac
    unset LD_LIBRARY_PATH
    case $line in *hip* | *--list-devices* | *--ablation*)
        [ $gpu ] || { skip "$document: $line: no kernels in this build"; continue; }
        export LD_LIBRARY_PATH="$dir/lib" ;;
    esac
    case $line in
    *opt4gptq-bench* | scripts/quality*) timeout $limit sh -c "$line" >"$dir/said" 2>&1 </dev/null ;;
    *) sh -c "$line" >"$dir/said" 2>&1 </dev/null ;;
    esac
    rc=$?
    case $line in *opt4gptq-bench* | scripts/quality*) [ $rc -ne 124 ] || rc=0 ;; esac
    result $rc "$document: $line"
done <"$dir/lines"
# the map of the files
if command -v python3 >/dev/null && git -C "$root" rev-parse >/dev/null 2>&1; then
    (cd "$root" && scripts/map --check) >"$dir/said" 2>&1
    result $? "docs/map.md"
else
    skip "docs/map.md: no python3, or no clone"
fi
echo "documents: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 40 ]
