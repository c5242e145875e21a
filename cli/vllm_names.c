#include "cli/vllm_names.h"

#define ONE_PROCESS "one process drives all GPUs (--devices)"
#define NO_DRAFT "there is no draft model: --speculate prompt takes drafts from texts"
#define NO_ADAPTER                                                                                 \
    "adapters are not applied: merge them into the model before it is quantized"
#define TEXT_ONLY "models of text alone are served"
#define NO_SERVER "there is no server: -i FILE -o FILE answers a file of requests"
#define IN_THE_FILE "the model file has it: opt4gptq-convert took it from the checkpoint"
#define IN_THE_CHECKPOINT                                                                          \
    "a model's settings are those of its config.json: change it there and convert again"
#define EXPERTS "experts are computed where everything is"
#define EXACT "a constraint is always kept to exactly, by the one way there is"
#define PREFIXES "equal beginnings of a batch's prompts are computed once; --no-prefix-cache not"
#define PAGES "keys and values are kept in pages of 16 positions"

const struct args_other vllm_names[] = {
    /* changes nothing here */
    {"run-batch", ARGS_ACCEPTED, "-i FILE -o FILE is a batch"},
    {"--enforce-eager --no-enforce-eager", ARGS_ACCEPTED,
     "steps are always computed as they are, but for graphs that a GPU replays"},
    {"--trust-remote-code --no-trust-remote-code", ARGS_ACCEPTED,
     "no code of a checkpoint is ever run"},
    {"--enable-prefix-caching", ARGS_ACCEPTED, PREFIXES},
    {"--prefix-caching-hash-algo", ARGS_WITH_VALUE, PREFIXES},
    {"--enable-chunked-prefill --no-enable-chunked-prefill --disable-chunked-mm-input",
     ARGS_ACCEPTED, "prompts are computed in parts of -b tokens, beside answers"},
    {"--enable-auto-tool-choice --no-enable-auto-tool-choice", ARGS_ACCEPTED,
     "calls are read from every answer whose record has tools"},
    {"--quantization -q --load-format --config-format --tokenizer-mode --model-impl "
     "--hf-config-path --generation-config",
     ARGS_WITH_VALUE, IN_THE_FILE},
    {"--block-size --preemption-mode", ARGS_WITH_VALUE, PAGES},
    {"--swap-space", ARGS_WITH_VALUE, "nothing is swapped out: what does not fit waits"},
    {"--distributed-executor-backend --max-parallel-loading-workers", ARGS_WITH_VALUE, ONE_PROCESS},
    {"--disable-custom-all-reduce --no-disable-custom-all-reduce", ARGS_ACCEPTED, ONE_PROCESS},
    {"--disable-log-stats --disable-log-requests --enable-log-requests --no-enable-log-requests "
     "--aggregate-engine-logging --disable-uvicorn-access-log --use-tqdm-on-load "
     "--no-use-tqdm-on-load",
     ARGS_ACCEPTED, "messages are plain lines on stderr; --report FILE has the figures of a run"},
    {"--max-log-len --uvicorn-log-level --log-config-file", ARGS_WITH_VALUE,
     "messages are plain lines on stderr; --report FILE has the figures of a run"},
    {"--async-scheduling --no-async-scheduling --disable-async-output-proc "
     "--disable-hybrid-kv-cache-manager --no-disable-hybrid-kv-cache-manager "
     "--disable-cascade-attn --no-disable-cascade-attn --multi-step-stream-outputs",
     ARGS_ACCEPTED, "there is one way to schedule and to compute attention"},
    {"--scheduling-policy --max-num-partial-prefills --max-long-partial-prefills "
     "--long-prefill-token-threshold --num-lookahead-slots --num-scheduler-steps "
     "--scheduler-delay-factor --scheduler-cls --max-seq-len-to-capture",
     ARGS_WITH_VALUE, "there is one way to schedule and to compute attention"},
    {"--guided-decoding-backend --structured-outputs-config", ARGS_WITH_VALUE, EXACT},
    {"--guided-decoding-disable-fallback", ARGS_ACCEPTED, EXACT},
    {"--disable-fastapi-docs --enable-server-load-tracking", ARGS_ACCEPTED, NO_SERVER},
    {"--max-logprobs", ARGS_WITH_VALUE, "a record may ask for up to 20 log-probabilities a token"},
    {"--revision --code-revision --tokenizer-revision", ARGS_WITH_VALUE,
     "the model file is taken as it is"},
    {"--calculate-kv-scales", ARGS_ACCEPTED, "--kv int8 and int4 find their scales themselves"},

    /* has a name here */
    {"--max-model-len", ARGS_REFUSED, "-c N is the context"},
    {"--max-num-seqs", ARGS_REFUSED, "-np N sequences run at once"},
    {"--max-num-batched-tokens", ARGS_REFUSED, "-b N tokens are computed in one step"},
    {"--kv-cache-dtype --mamba-cache-dtype --mamba-ssm-cache-dtype", ARGS_REFUSED,
     "--kv f16, f32, int8 or int4 is how keys and values are stored; states are fp32"},
    {"--gpu-memory-utilization --kv-cache-memory-bytes --cpu-offload-gb", ARGS_REFUSED,
     "--mem SIZE is what a batch may take (default: 9/10 of what is free)"},
    {"--num-gpu-blocks-override", ARGS_REFUSED, "--kv-pages N are the pages of 16 positions"},
    {"--mamba-block-size", ARGS_REFUSED, PAGES},
    {"--no-enable-prefix-caching --disable-radix-cache", ARGS_REFUSED, "--no-prefix-cache"},
    {"--dtype --override-attention-dtype", ARGS_REFUSED,
     "--act f16, i16, int8, int4 or f32 is how linears are computed"},
    {"--guided-decoding-disable-any-whitespace", ARGS_REFUSED,
     "--compact-json is JSON without white space"},
    {"--guided-decoding-disable-additional-properties", ARGS_REFUSED,
     "\"additionalProperties\": false in the schema says so"},
    {"--override-generation-config", ARGS_REFUSED, "--temp, --top-p and the others are defaults"},
    {"--tokenizer --skip-tokenizer-init --detokenizer", ARGS_REFUSED,
     "the model file holds its tokenizer; --prompt-ids and --format ids do without"},
    {"--download-dir --model-loader-extra-config --safetensors-load-strategy --ignore-patterns "
     "--pt-load-map-location --max-model-size",
     ARGS_REFUSED,
     "nothing is downloaded here: hf download USER/MODEL --local-dir DIR, then opt4gptq-convert "
     "DIR OUT.safetensors, then -m OUT.safetensors"},
    {"--served-model-name --lora-modules --prompt-adapters", ARGS_REFUSED,
     "a model's name in answers is that of its file"},
    {"--hf-overrides --rope-theta --disable-sliding-window", ARGS_REFUSED, IN_THE_CHECKPOINT},
    {"--chat-template-content-format", ARGS_REFUSED,
     "what the template reads, text or parts, is found by looking at it"},
    {"--response-role", ARGS_REFUSED, "the role of an answer is assistant"},
    {"--reasoning-parser-plugin --tool-parser-plugin --tool-server --io-processor-plugin "
     "--logits-processors --logits-processor-pattern --middleware --worker-cls "
     "--worker-extension-cls --all2all-backend",
     ARGS_REFUSED,
     "no plugins are loaded; --tool-call-parser and --reasoning-parser name what "
     "there is"},
    {"--convert --runner --task --pooler-config --override-pooler-config", ARGS_REFUSED,
     "embeddings and scores are lines of a batch; --pooling says how rows become one"},
    {"--logprobs-mode --return-tokens-as-token-ids", ARGS_REFUSED,
     "log-probabilities are those of the model; return_token_ids of a record gives ids"},
    {"--exclude-tools-when-tool-choice-none --enable-prompt-tokens-details "
     "--enable-force-include-usage",
     ARGS_REFUSED, "an answer has the fields of docs/batch.md"},
    {"--output-tmp-dir", ARGS_REFUSED, "what is not complete lies beside -o, as FILE.journal"},
    {"--enable-metrics --url --otlp-traces-endpoint --collect-detailed-traces "
     "--show-hidden-metrics-for-version --kv-events-config --enable-logging-iteration-details",
     ARGS_REFUSED, "--report FILE has the figures of a run, --trace FILE its steps"},

    /* not served */
    {"--tensor-parallel-size -tp", ARGS_REFUSED,
     "--devices 0,1,.. (or all) --parallel-mode tensor"},
    {"--pipeline-parallel-size -pp", ARGS_REFUSED,
     "--devices 0,1,.. (or all) --parallel-mode layers"},
    {"--data-parallel-size -dp --data-parallel-size-local -dpl", ARGS_REFUSED,
     "--devices 0,1,.. (or all) --parallel-mode data"},
    {"--data-parallel-rank -dpn --data-parallel-start-rank -dpr "
     "--data-parallel-address -dpa --data-parallel-rpc-port -dpp --data-parallel-backend -dpb "
     "--data-parallel-hybrid-lb --data-parallel-external-lb --decode-context-parallel-size -dcp "
     "--prefill-context-parallel-size -pcp --nnodes --node-rank --master-addr --master-port "
     "--ray-workers-use-nsight --num-gpus",
     ARGS_REFUSED,
     "--devices names the GPUs of a machine, --shard I/N divides a batch among processes"},
    {"--enable-expert-parallel --enable-eplb --eplb-config --expert-placement-strategy "
     "--num-redundant-experts --enable-dbo --dbo-decode-token-threshold "
     "--dbo-prefill-token-threshold --moe-backend",
     ARGS_REFUSED, EXPERTS},
    {"--enable-lora --enable-lora-bias --max-loras --max-lora-rank --lora-dtype --max-cpu-loras "
     "--fully-sharded-loras --default-mm-loras --lora-extra-vocab-size --long-lora-scaling-factors "
     "--enable-prompt-adapter --max-prompt-adapters --max-prompt-adapter-token",
     ARGS_REFUSED, NO_ADAPTER},
    {"--speculative-config --speculative-model --num-speculative-tokens", ARGS_REFUSED, NO_DRAFT},
    {"--limit-mm-per-prompt --media-io-kwargs --mm-processor-kwargs --mm-processor-cache-gb "
     "--mm-processor-cache-type --mm-encoder-tp-mode --mm-encoder-attn-backend "
     "--interleave-mm-strings --skip-mm-profiling --video-pruning-rate --allowed-local-media-path "
     "--allowed-media-domains --enable-mm-embeds --disable-mm-preprocessor-cache "
     "--enable-multimodal-encoder-data-parallel --language-model-only",
     ARGS_REFUSED, TEXT_ONLY},
    {"--enable-prompt-embeds", ARGS_REFUSED, "prompts are text or token ids"},
    {"--kv-transfer-config --ec-transfer-config --kv-sharing-fast-prefill --enable-sleep-mode "
     "--numa-bind",
     ARGS_REFUSED, "keys and values stay where the model is computed"},
    {"--kv-offloading-size --kv-offloading-backend", ARGS_REFUSED,
     "--prefix-cache-dir DIR keeps what was computed of prompts on disk"},
    {"--compilation-config -O --additional-config --attention-backend --attention-config "
     "--optimization-level --profiler-config",
     ARGS_REFUSED, "nothing is compiled at run time: --variant and --cpu pin what computes"},
    {"--uds --root-path --allowed-origins --allowed-methods --allowed-headers --allow-credentials "
     "--ssl-keyfile --ssl-certfile --ssl-ca-certs --ssl-cert-reqs --enable-ssl-refresh "
     "--enable-request-id-headers --enable-tokenizer-info-endpoint --h11-max-incomplete-event-size "
     "--h11-max-header-count --api-server-count --headless --enable-log-outputs",
     ARGS_REFUSED, NO_SERVER},
    {"serve chat complete bench collect-env", ARGS_REFUSED,
     "this program has no such command: -cnv converses, -i FILE -o FILE is a batch, "
     "opt4gptq-bench measures"},
    {0},
};
