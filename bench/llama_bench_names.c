#include "bench/llama_bench_names.h"

#define DOWNLOAD                                                                                   \
    "nothing is downloaded here: hf download USER/MODEL --local-dir DIR, then opt4gptq-convert "   \
    "DIR "                                                                                         \
    "OUT.safetensors, then -m OUT.safetensors"
#define ONE_DEVICE "there is one GPU: --backend hip --device N"

const struct args_other llama_bench_names[] = {
    /* changes nothing here */
    {"-mmp --mmap -lm --load-mode -dio --direct-io -lzm --lazy-mode", ARGS_WITH_VALUE,
     "the model file is always mapped"},
    {"-fa --flash-attn", ARGS_WITH_SWITCH, "there is one way to compute attention"},
    {"-ub --ubatch-size", ARGS_WITH_VALUE, "-b alone says how many tokens a step computes"},
    {"-nkvo --no-kv-offload", ARGS_WITH_SWITCH,
     "keys and values are kept where the model is computed"},
    {"-nopo --no-op-offload", ARGS_WITH_SWITCH, "all operations run on the one backend"},
    {"--repack -nr --no-repack --no-host", ARGS_WITH_SWITCH,
     "opt4gptq-convert has packed the weights"},
    {"--poll --cpu-strict --prio-batch --delay", ARGS_WITH_VALUE,
     "repetitions follow each other, threads run where the system puts them"},
    {"--no-warmup", ARGS_ACCEPTED, "one run of each test always comes first and is not counted"},
    {"--n-gen-warmup", ARGS_WITH_VALUE,
     "one run of each test always comes first and is not counted"},
    {"--progress", ARGS_ACCEPTED,
     "a run on a terminal, or of more than 30 s, says where it is anyway"},
    {"-v --verbose", ARGS_ACCEPTED, "the line above the table says all there is"},
    {"--offline", ARGS_ACCEPTED, "this program never uses a network"},

    /* something else to do */
    {"-pg", ARGS_REFUSED,
     "a prompt and what is generated are timed apart: -p N -n M, -n M -d N for the depth"},
    {"-gp", ARGS_REFUSED, "-n M -d N generates at depth N"},
    {"-ctk --cache-type-k -ctv --cache-type-v", ARGS_REFUSED,
     "--kv f16,int8,int4 is how keys and values are stored, both alike"},
    {"-sm --split-mode -mg --main-gpu -ts --tensor-split -dev -rpc --rpc", ARGS_REFUSED,
     ONE_DEVICE},
    {"-ot --override-tensor --moe-cache", ARGS_REFUSED,
     "--gpu-layers N and --experts-on gpu:N say what a GPU computes, the CPU the rest"},
    {"--list-devices", ARGS_REFUSED, "opt4gptq-run --list-devices"},
    {"-C --cpu-mask", ARGS_REFUSED,
     "threads run on the processors of the process: taskset -c LIST opt4gptq-bench ..."},
    {"--prio", ARGS_REFUSED, "nice -n N opt4gptq-bench ... sets the priority"},
    {"-oe --output-err", ARGS_REFUSED, "-o FORMAT goes to stdout, nothing to stderr"},
    {"-fitt --fit-target -fitc --fit-ctx", ARGS_REFUSED,
     "what does not fit is refused with its sizes"},
    {"-embd --embeddings", ARGS_REFUSED, "text is generated, embeddings are not computed"},
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -hfd", ARGS_REFUSED, DOWNLOAD},
    {"-c --ctx-size", ARGS_REFUSED, "the context is what -p, -n and -d need"},
    {"-tb --threads-batch", ARGS_REFUSED, "-t N is for prompts, too"},
    {"-nommq --no-mul-mat-q -mmq --mul-mat-q", ARGS_WITH_SWITCH, "--act says how is multiplied"},
    {"-npp -ntg -npl -pps -tgs", ARGS_REFUSED, "-p, -n and -np are their names here"},
    {0},
};
