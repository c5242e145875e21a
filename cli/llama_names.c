#include "cli/llama_names.h"

#define DOWNLOAD                                                                                   \
    "nothing is downloaded here: hf download USER/MODEL --local-dir DIR, then opt4gptq-convert "   \
    "DIR "                                                                                         \
    "OUT.safetensors, then -m OUT.safetensors"
#define BY_LAYERS "--gpu-layers N and --experts-on gpu:N say what a GPU computes, the CPU the rest"
#define CHAT_LOOP "-cnv is the interactive mode; a line that ends with \\ goes on in the next"
#define SAMPLERS "there is no such sampler: --samplers names those that are here"
#define NO_DRAFT "there is no draft model: --speculate prompt takes drafts from texts"
#define ROPE                                                                                       \
    "positions are as the checkpoint's config.json has them: change it there and convert again"
#define NO_ADAPTER                                                                                 \
    "adapters and control vectors are not applied: merge them into the model before it is "        \
    "quantized"
#define AFFINITY "threads run on the processors of the process: taskset -c LIST opt4gptq-run ..."
#define TEXT_ONLY "models of text alone are served"
#define NO_SERVER "there is no server: -i FILE -o FILE answers a file of requests"
#define NO_EMBEDDING "embeddings and scores are lines of a batch: -i FILE with /v1/embeddings, " \
                     "/v1/score or /v1/rerank"
#define ON_DISK "--prefix-cache-dir DIR keeps what was computed of prompts on disk"
#define ON_STDERR "messages are plain lines on stderr"
#define MAPPED "the model file is always mapped, its pages belong to the system's cache"

const struct args_other llama_names[] = {
    /* changes nothing here */
    {"--mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io", ARGS_ACCEPTED, MAPPED},
    {"-lm --load-mode", ARGS_WITH_VALUE, MAPPED},
    {"-fa --flash-attn", ARGS_WITH_SWITCH, "there is one way to compute attention"},
    {"-ub --ubatch-size", ARGS_WITH_VALUE, "-b alone says how many tokens a step computes"},
    {"--jinja", ARGS_ACCEPTED, "--chat always takes the model's Jinja template"},
    {"--warmup --no-warmup", ARGS_ACCEPTED, "there is no warm-up"},
    {"--log-disable --log-enable --log-new --log-append --log-prefix --no-log-prefix "
     "--log-timestamps --no-log-timestamps --simple-io",
     ARGS_ACCEPTED, ON_STDERR},
    {"--log-colors -co --color", ARGS_WITH_SWITCH, "nothing is coloured"},
    {"-lv --verbosity --log-verbosity", ARGS_WITH_VALUE, "-v says more"},
    {"--perf --no-perf --show-timings --no-show-timings", ARGS_ACCEPTED,
     "times are always said at the end, on stderr"},
    {"--offline", ARGS_ACCEPTED, "this program never uses a network"},
    {"-kvo --kv-offload -nkvo --no-kv-offload", ARGS_ACCEPTED,
     "keys and values are kept where the model is computed"},
    {"--repack -nr --no-repack --no-host", ARGS_ACCEPTED,
     "opt4gptq-convert has packed the weights"},
    {"--op-offload -nopo --no-op-offload", ARGS_ACCEPTED, "all operations run on the one backend"},
    {"--swa-full", ARGS_ACCEPTED, "the KV cache keeps every position"},
    {"-dt --defrag-thold", ARGS_WITH_VALUE, "the KV cache consists of pages, none need moving"},
    {"-kvu --kv-unified -no-kvu --no-kv-unified", ARGS_ACCEPTED,
     "all sequences take their pages from one KV cache"},
    {"-cb --cont-batching", ARGS_ACCEPTED, "sequences of a batch always join as others end"},
    {"--cache-prompt", ARGS_ACCEPTED, "equal beginnings of a batch's prompts are computed once"},
    {"-bs --backend-sampling", ARGS_ACCEPTED, "a GPU takes its part in sampling by itself"},
    {"--display-prompt", ARGS_ACCEPTED, "the prompt is printed but for --no-display-prompt"},
    {"-no-cnv --no-conversation", ARGS_ACCEPTED, "a prompt is continued as it is but for --chat"},
    {"--no-context-shift", ARGS_ACCEPTED, "a text always ends with its context"},
    {"--no-mmproj --no-mmproj-auto --mmproj-auto --no-mmproj-offload --mmproj-offload",
     ARGS_ACCEPTED, TEXT_ONLY},
    {"-fit --fit", ARGS_WITH_SWITCH, "what does not fit is always refused with its sizes"},
    {"--poll --poll-batch --cpu-strict --cpu-strict-batch", ARGS_WITH_VALUE,
     "threads sleep when they have nothing to do, where the system puts them"},
    {"-mmq --mul-mat-q -nommq --no-mul-mat-q", ARGS_ACCEPTED, "--act says how is multiplied"},
    {"--penalize-nl --no-penalize-nl", ARGS_ACCEPTED, "penalties treat all tokens alike"},

    /* model and download */
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo "
     "-cl --cache-list --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default "
     "--vision-gemma-12b-default --fim-qwen-1.5b-default --fim-qwen-3b-default "
     "--fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default",
     ARGS_REFUSED, DOWNLOAD},
    {"--lora --lora-scaled --lora-base --lora-init-without-apply --control-vector "
     "--control-vector-scaled --control-vector-layer-range",
     ARGS_REFUSED, NO_ADAPTER},
    {"--override-kv -gqa --gqa -eps --rms-norm-eps", ARGS_REFUSED,
     "a model's settings are those of its config.json: change it there and convert again"},
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
     "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast -gan --grp-attn-n "
     "-gaw "
     "--grp-attn-w",
     ARGS_REFUSED, ROPE},
    {"-a --alias --tags", ARGS_REFUSED, "a model's name in answers is that of its file"},
    {"-mm --mmproj -mmu --mmproj-url -mmdev --mmproj-device --image --audio --video "
     "--image-min-tokens --image-max-tokens --mtmd-batch-max-tokens --video-fps "
     "--video-timestamp-interval --video-ffmpeg-dir -mv --model-vocoder --tts-use-guide-tokens "
     "--tts-speaker-file --tts-oute-default -hfv -hfrv --hf-repo-v -hffv --hf-file-v --media-path",
     ARGS_REFUSED, TEXT_ONLY},

    /* prompt and chat */
    {"--verbose-prompt", ARGS_REFUSED, "--tokenize -p TEXT prints the ids of a prompt"},
    {"--interactive -if --interactive-first -ins --instruct --in-prefix "
     "--in-prefix-bos --in-suffix",
     ARGS_REFUSED, CHAT_LOOP},
    {"-cml --chatml --chat-template", ARGS_REFUSED,
     "--chat applies the model's own template, --chat-template-file FILE the one in a file"},
    {"--no-jinja", ARGS_REFUSED, "--chat applies a Jinja template; without it there is none"},
    {"--reasoning-format -rea", ARGS_REFUSED,
     "--reasoning keep, hide or only says what is printed of it, of a batch --reasoning-parser"},
    {"--reasoning-effort --think", ARGS_REFUSED,
     "--chat-template-kwargs JSON sets it where the chat template reads it: "
     "{\"reasoning_effort\": \"low\"}, {\"enable_thinking\": false}"},
    {"--skip-chat-parsing --no-skip-chat-parsing --reasoning-budget "
     "--reasoning-budget-message --reasoning-preserve "
     "--no-reasoning-preserve --prefill-assistant --no-prefill-assistant",
     ARGS_REFUSED,
     "an answer is printed as the model writes it; chat_template_kwargs of a batch line are the "
     "template's settings"},
    {"-r --reverse-prompt", ARGS_REFUSED, "--stop TEXT ends an answer before TEXT"},
    {"--random-prompt --spm-infill -ptc --print-token-count", ARGS_REFUSED,
     "nothing like it is here"},

    /* context and memory */
    {"--keep --context-shift", ARGS_REFUSED,
     "a text ends with its context, nothing is shifted out"},
    {"--memory-f32", ARGS_REFUSED, "--kv f32 stores keys and values so"},
    {"-fitt --fit-target -fitc --fit-ctx -cram --cache-ram", ARGS_REFUSED,
     "--mem SIZE is what a batch may take, -c N its context"},
    {"--no-cache-prompt", ARGS_REFUSED, "--no-prefix-cache"},
    {"--prompt-cache --prompt-cache-all --prompt-cache-ro --session --cache-reuse --slot-save-path "
     "-ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step --cache-idle-slots "
     "--no-cache-idle-slots --kv-unified-per-slot",
     ARGS_REFUSED, ON_DISK},
    {"-nocb --no-cont-batching", ARGS_REFUSED, "-np 1 computes one sequence after the other"},

    /* sampling */
    {"--tfs --adaptive-target --adaptive-decay --dynatemp-range --dynatemp-exp "
     "--cfg-negative-prompt --cfg-negative-prompt-file --cfg-scale",
     ARGS_REFUSED, SAMPLERS},
    {"-md --model-draft --spec-draft-model --draft-min --draft-n-min "
     "--draft-p-min --draft-p-split -hfd -hfrd --hf-repo-draft --spec-draft-hf -td --threads-draft "
     "--spec-draft-threads -tbd --threads-batch-draft --spec-draft-threads-batch -cd "
     "--ctx-size-draft -Cd --cpu-mask-draft --spec-draft-cpu-mask -Crd --cpu-range-draft "
     "--spec-draft-cpu-range --cpu-strict-draft --spec-draft-cpu-strict --prio-draft "
     "--spec-draft-prio --poll-draft --spec-draft-poll -Cbd --cpu-mask-batch-draft "
     "--spec-draft-cpu-mask-batch -Crbd --cpu-range-batch-draft --cpu-strict-batch-draft "
     "--spec-draft-cpu-strict-batch --prio-batch-draft --spec-draft-prio-batch --poll-batch-draft "
     "--spec-draft-poll-batch -otd --override-tensor-draft --spec-draft-override-tensor -cmoed "
     "--cpu-moe-draft --spec-draft-cpu-moe -ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe "
     "--spec-draft-ncmoe --spec-draft-n-min --spec-draft-p-split "
     "--spec-draft-p-min --spec-draft-backend-sampling --no-spec-draft-backend-sampling -devd "
     "--device-draft --spec-draft-device -ngld --gpu-layers-draft --n-gpu-layers-draft "
     "--spec-draft-ngl -ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft "
     "--spec-draft-type-v --spec-draft-replace --spec-replace --spec-type --spec-default "
     "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match "
     "--spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits "
     "--spec-ngram-map-k-size-n --spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits "
     "--spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits "
     "--lookup-ngram-min -lcs --lookup-cache-static -lcd --lookup-cache-dynamic",
     ARGS_REFUSED, NO_DRAFT},

    /* machine */
    {"-sm --split-mode", ARGS_REFUSED,
     "--devices 0,1 with --parallel-mode layers (llama.cpp's layer), tensor (row) or data; "
     "--device "
     "N alone is none"},
    {"-ts --tensor-split", ARGS_REFUSED, "--devices names the GPUs, which have equal shares"},
    {"-mg --main-gpu", ARGS_REFUSED, "--device N, or the first of --devices"},
    {"-dev", ARGS_REFUSED, "--device N, or --devices 0,1 of several"},
    {"--rpc", ARGS_REFUSED,
     "--devices names the GPUs of a machine, --shard I/N divides a batch among processes"},
    {"-ot --override-tensor", ARGS_REFUSED, BY_LAYERS},
    {"-C --cpu-mask -Cr --cpu-range -Cb --cpu-mask-batch -Crb --cpu-range-batch", ARGS_REFUSED,
     AFFINITY},
    {"--prio --prio-batch", ARGS_REFUSED, "nice -n N opt4gptq-run ... sets the priority"},
    {"-tb --threads-batch", ARGS_REFUSED, "-t N is for prompts, too"},

    /* output */
    {"--log-file -ld --logdir --log-test --log-prompts-dir", ARGS_REFUSED,
     "messages go to stderr: 2>FILE keeps them"},
    {"--license", ARGS_REFUSED, "the file LICENSE has it (MIT)"},
    {"--completion-bash", ARGS_REFUSED,
     "make install installs it; --print-completion bash (or zsh) prints it"},
    {"--mtest --dump-kv-cache -dkvc --infill", ARGS_REFUSED, "nothing like it is here"},

    /* other programs: perplexity, server, embedding */
    {"--ppl-stride --ppl-output-type --hellaswag --hellaswag-tasks --winogrande --winogrande-tasks "
     "--kl-divergence --kl-divergence-base --save-all-logits --all-logits --no-ppl -ppl",
     ARGS_REFUSED,
     "--perplexity MODE and --multiple-choice FILE evaluate; --samples and --logits-out keep what "
     "they are made of"},
    {"--embedding --embeddings -embd --attention --embd-output-format "
     "--embd-separator --cls-separator --rerank --reranking --chunk-size --chunk-separator "
     "--context-file",
     ARGS_REFUSED, NO_EMBEDDING},
    {"--host --port --reuse-port --path --api-prefix --api-key --api-key-file --ssl-key-file "
     "--ssl-cert-file -to --timeout --threads-http --sse-ping-interval --metrics --props --slots "
     "--no-slots --ui --no-ui --webui --no-webui --ui-config --webui-config --ui-config-file "
     "--webui-config-file --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy "
     "--cors-origins --cors-methods --cors-headers --cors-credentials --no-cors-credentials "
     "--tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent -no-ag "
     "--no-agent "
     "--models-dir --models-preset --models-max --models-autoload --no-models-autoload "
     "--server-base -sps --slot-prompt-similarity --lora-hotswap --sleep-idle-seconds",
     ARGS_REFUSED, NO_SERVER},
    {"-npp -ntg -npl -pps -tgs", ARGS_REFUSED, "opt4gptq-bench measures: -p, -n and -np are its"},
    {0},
};
