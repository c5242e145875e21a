/* quantize_tools.h: what the tests of opt4gptq-quantize share: made-up checkpoints in bf16, the
 * project's fixtures without their quantization, runs of the program. */
#ifndef TESTS_QUANTIZE_TOOLS_H
#define TESTS_QUANTIZE_TOOLS_H

#include "convert/unpack.h"
#include "core/base/safetensors.h"
#include "quantize/shard.h"
#include "tests/harness.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIM = 64, FFN = 96, VOCAB = 4096, LAYERS = 2, EXPERTS = 4, EXPERT_FFN = 32 };

static char dir[] = "/tmp/opt4gptq-quantize-XXXXXX", quantize[512], convert[512], run[512];
static unsigned seed = 1;

static inline float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (1 << 23) - 1;
}

/* ---- checkpoints */

struct weights {
    struct shard_tensor t[256];
    char name[256][128];
    size_t n;
};

static inline void add(struct weights *w, const char *name, int64_t a, int64_t b, int64_t c)
{
    int64_t n = a * (b ? b : 1) * (c ? c : 1);
    uint16_t *data = malloc((size_t)n * 2);
    int norm = strstr(name, "norm") != NULL;
    for (int64_t i = 0; i < n; i++) {
        float x = norm ? 1 + 0.1f * uniform() : 0.2f * uniform() * uniform();
        uint32_t bits;
        memcpy(&bits, &x, 4);
        data[i] = (uint16_t)(bits >> 16);
    }
    snprintf(w->name[w->n], sizeof w->name[0], "%s", name);
    w->t[w->n] = (struct shard_tensor){.name = w->name[w->n],
                                       .dtype = DT_BF16,
                                       .n_dims = c   ? 3
                                                 : b ? 2
                                                     : 1,
                                       .shape = {a, b, c},
                                       .bytes = (uint64_t)n * 2,
                                       .data = data};
    w->n++;
}

static inline void add_in(struct weights *w, int layer, const char *what, int64_t a, int64_t b)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, what);
    add(w, name, a, b, 0);
}

static inline void add_mlp(struct weights *w, int layer, int experts, int fused)
{
    char name[96];
    add_in(w, layer, experts ? "mlp.gate" : "mlp.gate_proj", experts ? EXPERTS : FFN, DIM);
    if (!experts) {
        add_in(w, layer, "mlp.up_proj", FFN, DIM);
        add_in(w, layer, "mlp.down_proj", DIM, FFN);
    } else if (fused) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.gate_up_proj", layer);
        add(w, name, EXPERTS, 2 * EXPERT_FFN, DIM);
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj", layer);
        add(w, name, EXPERTS, DIM, EXPERT_FFN);
    }
    for (int x = 0; x < EXPERTS && experts && !fused; x++) {
        snprintf(name, sizeof name, "mlp.experts.%d.gate_proj", x);
        add_in(w, layer, name, EXPERT_FFN, DIM);
        snprintf(name, sizeof name, "mlp.experts.%d.up_proj", x);
        add_in(w, layer, name, EXPERT_FFN, DIM);
        snprintf(name, sizeof name, "mlp.experts.%d.down_proj", x);
        add_in(w, layer, name, DIM, EXPERT_FFN);
    }
}

static inline void fill(struct weights *w, int experts, int fused)
{
    add(w, "model.embed_tokens.weight", VOCAB, DIM, 0);
    add(w, "model.norm.weight", DIM, 0, 0);
    for (int l = 0; l < LAYERS; l++) {
        add_in(w, l, "input_layernorm", DIM, 0);
        add_in(w, l, "post_attention_layernorm", DIM, 0);
        add_in(w, l, "self_attn.q_proj", DIM, DIM);
        add_in(w, l, "self_attn.k_proj", 32, DIM);
        add_in(w, l, "self_attn.v_proj", 32, DIM);
        add_in(w, l, "self_attn.o_proj", DIM, DIM);
        if (experts)
            add_in(w, l, "self_attn.q_norm", 32, 0), add_in(w, l, "self_attn.k_norm", 32, 0);
        add_mlp(w, l, experts, fused);
    }
}

static inline const char *make(const char *name, int experts, int fused)
{
    static struct weights w;
    static char path[600], file[700];
    struct err e;
    json_t *meta = json_pack("{s:s}", "format", "pt");
    w.n = 0;
    fill(&w, experts, fused);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    shell_ok("mkdir %s && cp models/demo/tokenizer.json models/demo/tokenizer_config.json "
             "models/demo/chat_template.jinja models/demo/generation_config.json %s",
             path, path);
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    check_that(!shard_write(file, w.t, w.n, meta, NULL, &e), "%s: %s", name, e.msg);
    json_decref(meta);
    json_t *c = json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:i, s:i}", "architectures",
        experts ? "Qwen3MoeForCausalLM" : "LlamaForCausalLM", "model_type",
        experts ? "qwen3_moe" : "llama", "hidden_size", DIM, "intermediate_size", FFN,
        "num_hidden_layers", LAYERS, "num_attention_heads", 2, "num_key_value_heads", 1, "head_dim",
        32, "vocab_size", VOCAB, "max_position_embeddings", 256, "tie_word_embeddings", 1,
        "rms_norm_eps", 1e-6, "bos_token_id", 0, "eos_token_id", 1);
    json_object_update_new(c, json_pack("{s:i, s:i, s:i, s:b}", "num_experts", EXPERTS,
                                        "num_experts_per_tok", 2, "moe_intermediate_size",
                                        EXPERT_FFN, "norm_topk_prob", 1));
    snprintf(file, sizeof file, "%s/config.json", path);
    json_dump_file(c, file, JSON_INDENT(1));
    json_decref(c);
    for (size_t i = 0; i < w.n; i++) free((void *)(uintptr_t)w.t[i].data);
    return path;
}

/* ---- what the result says, read by the converter's functions */

struct result {
    struct st_file q, source;
};

static inline void *tensor(const struct st_file *s, const char *module, const char *what,
                           const struct st_tensor **t)
{
    char name[160];
    struct err e;
    snprintf(name, sizeof name, "%s.%s", module, what);
    *t = st_find(s, name);
    if (!*t) return NULL;
    void *data = malloc((*t)->bytes + 64);
    if (st_read(s, data, (*t)->offset, (*t)->bytes, &e)) exit(2);
    return data;
}

/* Relative square error of a module; negative: it is not there as it should be. */
static inline double error_of(const struct result *r, const char *module, int bits)
{
    const struct st_tensor *t, *ts;
    uint32_t *words = tensor(&r->q, module, "qweight", &t),
             *z = tensor(&r->q, module, "qzeros", &t);
    uint16_t *scales = tensor(&r->q, module, "scales", &ts),
             *w = tensor(&r->source, module, "weight", &t);
    const struct st_tensor *tg;
    int32_t *g_idx = tensor(&r->q, module, "g_idx", &tg);
    if (!words || !z || !scales || !w || !g_idx) return -1;
    int64_t out = t->shape[0], in = t->shape[1];
    uint8_t *codes = malloc((size_t)in * UNPACK_COLS);
    uint16_t *zeros = malloc((size_t)out * 2);
    double lost = 0, all = 0;
    for (int64_t o = 0; o < out; o += UNPACK_COLS) {
        unpack_codes(codes, words + o, (size_t)out, in, UNPACK_STREAM, bits);
        for (int64_t i = 0; i < in; i++) {
            unpack_zero_row(zeros, z + (size_t)g_idx[i] * (size_t)(out * bits / 32), out,
                            UNPACK_STREAM, bits, ZEROS_PLUS_1, NULL);
            for (int64_t k = 0; k < UNPACK_COLS; k++) {
                double have = (double)f32_from_f16(scales[g_idx[i] * out + o + k]) *
                              ((int)codes[i * UNPACK_COLS + k] - (int)zeros[o + k]),
                       want = (double)f32_from_bf16(w[(o + k) * in + i]);
                lost += (have - want) * (have - want);
                all += want * want;
            }
        }
    }
    free(codes), free(zeros), free(words), free(z), free(scales), free(w), free(g_idx);
    return lost / all;
}

static inline void open_result(struct result *r, const char *source, const char *q)
{
    char path[700];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s/model.safetensors", dir, source);
    int bad = st_open(&r->source, path, &e);
    snprintf(path, sizeof path, "%s/%s/model.safetensors", dir, q);
    check_that(!bad && !st_open(&r->q, path, &e), "%s opens: %s", q, e.msg);
}

static inline void close_result(struct result *r)
{
    st_close(&r->source);
    st_close(&r->q);
}

/* ---- runs */

/* Words of a command line, separated by blanks, with directories of the test in front of those that
 * begin with "@". */
static inline int quantizes(struct process *p, const char *words)
{
    static char text[2000];
    char *argv[40] = {quantize}, *at = text;
    int n = 1;
    size_t used = 0;
    for (const char *c = words; *c && used + 80 < sizeof text; c++)
        if (*c == '@') used += (size_t)sprintf(text + used, "%s/", dir);
        else text[used++] = *c;
    text[used] = 0;
    for (char *w; (w = strsep(&at, " "));)
        if (*w) argv[n++] = w;
    process_run(p, argv, NULL);
    return p->code;
}

static inline void good(const char *words)
{
    struct process p;
    check(quantizes(&p, words) == 0, words, &p);
    process_free(&p);
}

static inline void bad(const char *words, int code, const char *says)
{
    struct process p;
    quantizes(&p, words);
    check(p.code == code && strstr(p.err, says) && lines(p.err) == 1, words, &p);
    process_free(&p);
}

static inline int is_there(const char *name)
{
    char path[700];
    struct stat sb;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !lstat(path, &sb);
}

static inline int same(const char *a, const char *b)
{
    return shell_code("diff -r %s/%s %s/%s >/dev/null", dir, a, dir, b) == 0;
}

static inline void converts(const char *name)
{
    shell_ok("%s -q %s/%s %s/%s.st 2>/dev/null && %s -m %s/%s.st -p 'Once upon' -n 4 --temp 0 "
             "</dev/null >/dev/null 2>&1",
             convert, dir, name, dir, name, run, dir, name);
}

/* Kills a run once a unit is there, again and again. */
static inline void kill_run(const char *out, int units, const char *more)
{
    char name[64], path[700];
    pid_t pid = fork();
    if (!pid) {
        char in[600], to[600];
        snprintf(in, sizeof in, "%s/dense", dir);
        snprintf(to, sizeof to, "%s/%s", dir, out);
        execl(quantize, quantize, in, to, "-q", "--group", "32", "--tokens", "512", "--sequence",
              "128", more, (char *)NULL);
        _exit(99);
    }
    snprintf(name, sizeof name, "%s.work/unit-%05d", out, units);
    snprintf(path, sizeof path, "%s/%s", dir, out);
    while (!is_there(name) && !is_there(out) && !waitpid(pid, NULL, WNOHANG)) usleep(200);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Puts a number into a tensor of a copy of the dense checkpoint. */
static inline void spoil(const char *name, const char *tensor_name, uint16_t value)
{
    struct st_file s;
    struct err e;
    char path[700];
    shell_ok("cp -r %s/dense %s/%s", dir, dir, name);
    snprintf(path, sizeof path, "%s/%s/model.safetensors", dir, name);
    if (st_open(&s, path, &e)) exit(2);
    const struct st_tensor *t = st_find(&s, tensor_name);
    FILE *f = fopen(path, "r+");
    for (uint64_t i = 0; i < (t->n_dims == 1 ? t->bytes : 2); i += 2) {
        fseek(f, (long)(t->offset + i), SEEK_SET);
        fwrite(&value, 2, 1, f);
    }
    fclose(f);
    st_close(&s);
}

/* ---- the project's quantized fixtures as plain checkpoints */

/* A tokenizer of the letters and the blank. */
static inline void write_letters(const char *path)
{
    char file[700];
    json_t *vocab = json_object();
    for (int i = 0; i < 26; i++)
        json_object_set_new(vocab, (char[]){(char)('a' + i), 0}, json_integer(i));
    json_object_set_new(vocab, "\xc4\xa0", json_integer(26));
    json_t *t = json_pack("{s:s, s:[], s:n, s:{s:s, s:b}, s:n, s:{s:s}, s:{s:s, s:o, s:[]}}",
                          "version", "1.0", "added_tokens", "normalizer", "pre_tokenizer", "type",
                          "ByteLevel", "add_prefix_space", 0, "post_processor", "decoder", "type",
                          "ByteLevel", "model", "type", "BPE", "vocab", vocab, "merges");
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    json_dump_file(t, file, 0);
    json_decref(t);
}

/* The weights of a quantized module, bf16; plus: added to its zero points. */
static inline uint16_t *plain_weights(const struct st_file *s, const char *module, int plus,
                                      int64_t *in, int64_t *out)
{
    const struct st_tensor *t, *ts, *tg;
    uint32_t *words = tensor(s, module, "qweight", &t), *z = tensor(s, module, "qzeros", &ts);
    uint16_t *scales = tensor(s, module, "scales", &ts), *w;
    int32_t *g_idx = tensor(s, module, "g_idx", &tg);
    *in = t->shape[0] * 8, *out = t->shape[1];
    w = malloc((size_t)(*in * *out) * 2);
    for (int64_t i = 0; i < *in; i++)
        for (int64_t o = 0; o < *out; o++) {
            int64_t g = g_idx ? g_idx[i] : i / (*in / ts->shape[0]);
            int code = (int)(words[i / 8 * *out + o] >> (4 * (i % 8)) & 15),
                zero = (int)(z[g * (*out / 8) + o / 8] >> (4 * (o % 8)) & 15) + plus;
            uint32_t bits = f32_bits(f32_from_f16(scales[g * *out + o]) * (float)(code - zero));
            w[o * *in + i] = (uint16_t)(bits >> 16);
        }
    free(words), free(z), free(scales), free(g_idx);
    return w;
}

static inline void add_data(struct weights *w, const char *name, const struct st_tensor *like,
                            void *data)
{
    CHECK(w->n < sizeof w->t / sizeof *w->t);
    snprintf(w->name[w->n], sizeof w->name[0], "%s", name);
    w->t[w->n] = (struct shard_tensor){.name = w->name[w->n],
                                       .dtype = like->dtype,
                                       .n_dims = like->n_dims,
                                       .bytes = like->bytes,
                                       .data = data};
    memcpy(w->t[w->n++].shape, like->shape, sizeof like->shape);
}

/* Adds tensor number i of a fixture, or the weights of the module whose qweight it is. */
static inline void add_plain(struct weights *w, const struct st_file *s, int plus,
                             const struct st_tensor *t)
{
    static const char *const parts[] = {".qzeros", ".scales", ".g_idx"};
    char module[128], name[128];
    struct err e;
    size_t n = strlen(t->name);
    snprintf(module, sizeof module, "%s", t->name);
    for (int i = 0; i < 3; i++)
        if (n > strlen(parts[i]) && !strcmp(t->name + n - strlen(parts[i]), parts[i])) return;
    if (n > 8 && !strcmp(t->name + n - 8, ".qweight")) {
        int64_t in, out;
        module[n - 8] = 0;
        uint16_t *data = plain_weights(s, module, plus, &in, &out);
        const struct st_tensor like = {
            .dtype = DT_BF16, .n_dims = 2, .shape = {out, in}, .bytes = (uint64_t)(in * out) * 2};
        snprintf(name, sizeof name, "%.119s.weight", module);
        add_data(w, name, &like, data);
        return;
    }
    void *data = malloc(t->bytes + 1);
    if (st_read(s, data, t->offset, t->bytes, &e)) exit(2);
    add_data(w, t->name, t, data);
}

/* The checkpoint `source` without its quantization, as NAME. */
static inline void make_plain(const char *source, int plus, const char *name)
{
    static struct weights w;
    struct st_file s;
    struct err e;
    char file[800];
    w.n = 0;
    shell_ok("mkdir %s/%s", dir, name);
    snprintf(file, sizeof file, "%s/model.safetensors", source);
    if (st_open(&s, file, &e)) exit(2);
    for (size_t i = 0; i < s.n_tensors; i++) add_plain(&w, &s, plus, &s.tensors[i]);
    st_close(&s);
    json_t *meta = json_object();
    snprintf(file, sizeof file, "%s/%s/model.safetensors", dir, name);
    check_that(!shard_write(file, w.t, w.n, meta, NULL, &e), "%s: %s", name, e.msg);
    json_decref(meta);
    for (size_t i = 0; i < w.n; i++) free((void *)(uintptr_t)w.t[i].data);
    snprintf(file, sizeof file, "%s/config.json", source);
    json_t *config = json_load_file(file, 0, NULL);
    json_object_del(config, "quantization_config");
    snprintf(file, sizeof file, "%s/%s/config.json", dir, name);
    json_dump_file(config, file, 0);
    json_decref(config);
}

static inline void begin(const char *build)
{
    if (!mkdtemp(dir)) exit(2);
    snprintf(quantize, sizeof quantize, "%s/opt4gptq-quantize", build);
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", build);
    snprintf(run, sizeof run, "%s/opt4gptq-run", build);
}

/* Letters that make words, for the fixtures. */
static inline void write_text(void)
{
    shell_ok("for i in 1 2 3 4 5 6 7 8 9; do printf 'the sea and all the hills of a far land were "
             "quiet so that we could jump over every box '; done >%s/letters.txt",
             dir);
}

#endif
