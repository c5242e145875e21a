/* targets_files.c: model files, checkpoints, journals. */
#include "tests/fuzz/targets.h"

#include "cli/modes/batch/journal.h"
#include "cli/modes/batch/manifest.h"
#include "convert/convert.h"
#include "convert/gguf.h"
#include "core/model/model.h"
#include "tests/fuzz/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const volatile sig_atomic_t no_stop;

/* An input that is a header stands for a file that begins with its length. */
static const char *header_file(const uint8_t *head, size_t n, const void *data, size_t bytes)
{
    uint64_t length = n;
    char *all = malloc(8 + n + bytes);
    if (!all) abort();
    memcpy(all, &length, 8);
    memcpy(all + 8, head, n);
    if (bytes) memcpy(all + 8 + n, data, bytes);
    const char *path = fuzz_file(0, all, 8 + n + bytes);
    free(all);
    return path;
}

/* ---- the header of a safetensors file; behind it 4,096 bytes */

const char *fuzz_run_safetensors(const uint8_t *data, size_t n)
{
    static const char zeros[4096];
    struct st_file s;
    struct err e = {0};
    if (st_open(&s, header_file(data, n, zeros, sizeof zeros), &e)) return fuzz_wrong_error(&e);
    const char *why = NULL;
    for (size_t i = 0; i < s.n_tensors && !why; i++) {
        const struct st_tensor *t = &s.tensors[i];
        if (t->offset > s.file_bytes || t->bytes > s.file_bytes - t->offset)
            why = "a tensor beyond the end of the file";
        if (i && strcmp(s.tensors[i - 1].name, t->name) >= 0) why = "tensors out of order";
        if (st_find(&s, t->name) != t) why = "a tensor that is not found by its name";
    }
    st_close(&s);
    return why;
}

void fuzz_seeds_safetensors(fuzz_add *add)
{
    static const char *const heads[] = {
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[16,64],"
        "\"data_offsets\":[0,4096]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[8,4,2],\"data_offsets\":[0,128]},\"b\":{\"dtype\":"
        "\"I32\",\"shape\":[],\"data_offsets\":[128,132]},\"c\":{\"dtype\":\"U8\",\"shape\":[0,3],"
        "\"data_offsets\":[132,132]},\"d\":{\"dtype\":\"BF16\",\"shape\":[1982],\"data_offsets\":["
        "132,4096]}}   "};
    for (size_t i = 0; i < 2; i++) add(heads[i], strlen(heads[i]));
}

/* ---- a model file: its header, with the checksum put right, before the data as they were */

enum { N_MODELS = 3 };

static struct {
    char *head, *data;
    size_t n, bytes;
} models[N_MODELS];

static void read_model(int i, const char *path)
{
    uint64_t length;
    FILE *f = fopen(path, "rb");
    if (!f || fread(&length, 1, 8, f) != 8) abort();
    models[i].n = length;
    models[i].head = malloc(length);
    fseek(f, 0, SEEK_END);
    models[i].bytes = (size_t)ftell(f) - 8 - length;
    models[i].data = malloc(models[i].bytes);
    fseek(f, 8, SEEK_SET);
    if (!models[i].head || !models[i].data || fread(models[i].head, 1, length, f) != length ||
        fread(models[i].data, 1, models[i].bytes, f) != models[i].bytes)
        abort();
    fclose(f);
}

static void make_models(void)
{
    static const char *const from[N_MODELS] = {
        "tests/data/gptq/qwen3-moe", "tests/data/gptq/qwen3.5-moe", "tests/data/gptq/gemma4"};
    char path[100];
    struct err e;
    for (int i = 0; i < N_MODELS && !models[i].head; i++) {
        snprintf(path, sizeof path, "%s/model.safetensors", fuzz_dir());
        const struct convert_options o = {.dir = from[i],
                                          .out = {path, 1, 0, &no_stop},
                                          .notes = {.silent = 1, .quiet = 1},
                                          .plan = {.no_tokenizer = 1}};
        if (convert_run(&o, &e)) {
            fprintf(stderr, "inputs: %s\n", e.msg);
            exit(2);
        }
        read_model(i, path);
        unlink(path);
    }
}

/* The first byte: whose data stand behind the header. */
const char *fuzz_run_model(const uint8_t *data, size_t n)
{
    struct model m;
    struct err e = {0};
    uint32_t crc;
    size_t at;
    char digits[9];
    make_models();
    if (n == 0) return NULL;
    int i = data[0] % N_MODELS;
    char *head = malloc(n);
    if (!head) abort();
    memcpy(head, data + 1, n - 1);
    if (!mf_header_crc(head, n - 1, &crc, &at)) {
        snprintf(digits, sizeof digits, "%08x", crc);
        memcpy(head + at, digits, 8);
    }
    const char *path = header_file((uint8_t *)head, n - 1, models[i].data, models[i].bytes);
    free(head);
    if (model_open(&m, path, &e)) return fuzz_wrong_error(&e);
    model_close(&m);
    return NULL;
}

void fuzz_seeds_model(fuzz_add *add)
{
    make_models();
    for (int i = 0; i < N_MODELS; i++) {
        char *seed = malloc(models[i].n + 1);
        if (!seed) abort();
        seed[0] = (char)i;
        memcpy(seed + 1, models[i].head, models[i].n);
        add(seed, models[i].n + 1);
        free(seed);
    }
}

/* ---- a checkpoint: steps that change one of those of tests/data */

enum { N_CHECKPOINTS = 9, N_MORE = 8 };
static struct checkpoint_copy copies[N_CHECKPOINTS + N_MORE];
static unsigned n_copies;

/* A checkpoint of SHARED may be absent. */
static void load_copy(const char *folder, const char *name, int may_lack)
{
    char path[300];
    struct err e;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (may_lack && access(path, R_OK)) return;
    if (checkpoint_load(&copies[n_copies++], path, &e)) {
        fprintf(stderr, "inputs: %s\n", e.msg);
        exit(2);
    }
}

static void load_copies(void)
{
    static const char *const from[N_CHECKPOINTS] = {"deepseek-v3", "gemma4",    "gpt-oss",
                                                    "llama",       "qwen3-moe", "qwen3.5-moe",
                                                    "kimi-linear", "jamba",     "glm-moe-dsa"},
                             *const more[N_MORE] = {
                                 "newest/granite4-h-dense",  "newest/deepseek-v2",
                                 "newest/mistral4",          "newest/lfm2-moe",
                                 "newer/gptq/ct-asym-g-idx", "newer/gptq/qwen3-moe-ct",
                                 "newer/gptq/auto-round",    "gptq/llama-v2-zeros"};
    if (n_copies) return;
    for (int i = 0; i < N_CHECKPOINTS; i++) load_copy("tests/data/gptq", from[i], 0);
    for (int i = 0; fuzz_fixtures && i < N_MORE; i++) load_copy(fuzz_fixtures, more[i], 1);
}

struct reader {
    const uint8_t *p;
    size_t n;
};

static unsigned take(struct reader *r, unsigned below)
{
    unsigned x = 0;
    if (!below) return 0;
    for (int i = 0; i < (below > 256 ? 2 : 1) && r->n; i++, r->n--) x = x << 8 | *r->p++;
    return x % below;
}

static const char *const values[] = {"0",
                                     "1",
                                     "-1",
                                     "2",
                                     "3",
                                     "16",
                                     "32",
                                     "64",
                                     "128",
                                     "0.5",
                                     "1e400",
                                     "null",
                                     "true",
                                     "false",
                                     "\"\"",
                                     "\"x\"",
                                     "[]",
                                     "{}",
                                     "[1,2,3]",
                                     "1e-6",
                                     "65537",
                                     "2147483648",
                                     "Infinity",
                                     "\"true\"",
                                     "\"8\"",
                                     "[null]",
                                     "9223372036854775808",
                                     "{\"a\":{\"a\":1}}",
                                     "\"sliding_attention\"",
                                     "\"yarn\""};
static const char *const dtypes[] = {"F16", "BF16", "F32", "I32", "I64", "U8", "BOOL", "F8_E4M3"};
enum { N_VALUES = sizeof values / sizeof *values, N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* One key of a small file, at most two objects deep. */
static void change_text(struct checkpoint_copy *c, struct reader *r)
{
    struct checkpoint_text *t = &c->text[take(r, (unsigned)c->n_texts)];
    json_t *object = t->json;
    for (int depth = 0; depth < 3; depth++) {
        void *at = json_object_iter(object);
        for (unsigned k = take(r, (unsigned)json_object_size(object)); k; k--)
            at = json_object_iter_next(object, at);
        if (!at) return;
        if (json_is_object(json_object_iter_value(at)) && take(r, 4)) {
            object = json_object_iter_value(at);
            continue;
        }
        t->object = object;
        t->key = json_object_iter_key(at);
        t->is_dropped = take(r, 8) == 0;
        t->is_twice = take(r, 8) == 0;
        t->value = values[take(r, N_VALUES)];
        return;
    }
}

static void change_tensor(struct checkpoint_tensor *t, const struct checkpoint_tensor *other,
                          struct reader *r)
{
    unsigned d = t->n_dims ? take(r, (unsigned)t->n_dims) : 0;
    switch (take(r, 8)) {
    case 0: t->is_dropped = 1; break;
    case 1: t->twin = 1; break;
    case 2: snprintf(t->dtype, sizeof t->dtype, "%s", dtypes[take(r, N_DTYPES)]); break;
    case 3: t->shape[d] = (int64_t)take(r, 4) * t->shape[d]; break;
    case 4: t->shape[d] += (int64_t)take(r, 9) - 4; break;
    case 5:
        if (t->n_dims > 1) t->shape[0] *= t->shape[t->n_dims - 1], t->n_dims--;
        break;
    case 6: memcpy(t->name, other->name, sizeof t->name); break;
    default: t->n_dims = other->n_dims; memcpy(t->shape, other->shape, sizeof t->shape);
    }
}

/* What converts is a model that the program opens. */
static const char *convert_copy(const char *dir)
{
    char path[100];
    struct model m;
    struct err e = {0};
    snprintf(path, sizeof path, "%s.out", dir);
    const struct convert_options o = {.dir = dir,
                                      .out = {path, 1, 0, &no_stop},
                                      .notes = {.silent = 1, .quiet = 1},
                                      .plan = {.no_tokenizer = 1}};
    if (convert_run(&o, &e)) {
        if (access(path, F_OK) == 0) return "failed, and left a file";
        return fuzz_wrong_error(&e);
    }
    const char *why = NULL;
    if (model_open(&m, path, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        why = "converted into a model that is refused";
    } else {
        model_close(&m);
    }
    unlink(path);
    return why;
}

const char *fuzz_run_checkpoint(const uint8_t *data, size_t n)
{
    struct reader r = {data, n};
    struct err e;
    load_copies();
    struct checkpoint_copy *c = &copies[take(&r, n_copies)];
    struct checkpoint_tensor *old = malloc(c->n_tensors * sizeof *old);
    unsigned char *byte = NULL, before = 0;
    if (!old) abort();
    memcpy(old, c->tensor, c->n_tensors * sizeof *old);
    for (int i = 0; i < 6 && r.n; i++) {
        unsigned kind = take(&r, 5);
        size_t k = take(&r, (unsigned)c->n_tensors);
        if (kind < 2) change_text(c, &r);
        else if (kind < 4) change_tensor(&c->tensor[k], &old[take(&r, (unsigned)c->n_tensors)], &r);
        else if (old[k].bytes && !byte) { /* one byte of a tensor */
            byte = c->data[old[k].shard] + old[k].offset + take(&r, 65535) % old[k].bytes;
            before = *byte;
            *byte = (unsigned char)take(&r, 256);
        }
    }
    const char *why = checkpoint_write(c, fuzz_dir(), &e) ? "cannot be written" : NULL;
    if (!why) why = convert_copy(fuzz_dir());
    memcpy(c->tensor, old, c->n_tensors * sizeof *old);
    free(old);
    if (byte) *byte = before;
    for (int i = 0; i < c->n_texts; i++) {
        struct checkpoint_text *t = &c->text[i];
        char path[200];
        t->key = NULL, t->is_dropped = t->is_twice = 0;
        snprintf(path, sizeof path, "%s/%s", fuzz_dir(), t->name);
        unlink(path);
    }
    return why;
}

/* One change, three, five: libFuzzer's inputs are at first as long as the longest to begin with. */
void fuzz_seeds_checkpoint(fuzz_add *add)
{
    uint8_t b[61] = {0};
    for (unsigned i = 0; i < N_CHECKPOINTS; i++)
        for (unsigned k = 0; k < 3; k++) {
            b[0] = (uint8_t)i;
            for (unsigned j = 1; j < sizeof b; j++)
                b[j] = (uint8_t)(j % 12 == 1 ? 2 * k + j / 12 : (i + 1) * (7 * k + 29 * j) % 251);
            add(b, 13 + 24 * k);
        }
}

/* ---- GGUF */

const char *fuzz_run_gguf(const uint8_t *data, size_t n)
{
    struct gguf g;
    struct err e = {0};
    const char *path = fuzz_file(0, data, n), *why = NULL;
    if (gguf_open(&g, path, &e)) return fuzz_wrong_error(&e);
    for (size_t i = 0; i < g.n_tensors && !why; i++)
        if (g.tensors[i].offset > n || g.tensors[i].bytes > n - g.tensors[i].offset)
            why = "a tensor beyond the end of the file";
    gguf_close(&g);
    return why ? why : convert_copy(path);
}

static struct {
    char p[16384];
    size_t n;
} gguf;

static void put(const void *p, size_t n)
{
    memcpy(gguf.p + gguf.n, p, n);
    gguf.n += n;
}

static void put_number(uint64_t x, size_t bytes) { put(&x, bytes); }

static void put_text(const char *s)
{
    put_number(strlen(s), 8);
    put(s, strlen(s));
}

static void put_keys(void)
{
    static const struct {
        const char *key, *text;
        uint32_t type, number;
    } keys[] = {{"general.architecture", "llama", 8, 0},
                {"llama.context_length", NULL, 4, 64},
                {"llama.embedding_length", NULL, 4, 32},
                {"llama.block_count", NULL, 4, 1},
                {"llama.feed_forward_length", NULL, 4, 32},
                {"llama.attention.head_count", NULL, 4, 2},
                {"llama.attention.head_count_kv", NULL, 4, 1},
                {"llama.attention.layer_norm_rms_epsilon", NULL, 6, 0x3727c5ac},
                {"tokenizer.ggml.model", "llama", 8, 0},
                {"tokenizer.ggml.bos_token_id", NULL, 4, 1}};
    put_number(sizeof keys / sizeof *keys + 1, 8);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        put_text(keys[i].key);
        put_number(keys[i].type, 4);
        if (keys[i].text) put_text(keys[i].text);
        else put_number(keys[i].number, 4);
    }
    put_text("tokenizer.ggml.tokens");
    put_number(9, 4), put_number(8, 4), put_number(4, 8);
    put_text("<unk>"), put_text("<s>"), put_text("</s>"), put_text("a");
}

/* A model of one layer; linears in blocks of this type of 32 numbers. */
static void make_gguf(uint32_t type, uint64_t block)
{
    static const struct {
        const char *name;
        int rows; /* 0: numbers [32] */
    } tensors[] = {{"token_embd.weight", 4},
                   {"output_norm.weight", 0},
                   {"output.weight", 4},
                   {"blk.0.attn_norm.weight", 0},
                   {"blk.0.ffn_norm.weight", 0},
                   {"blk.0.attn_q.weight", 32},
                   {"blk.0.attn_k.weight", 16},
                   {"blk.0.attn_v.weight", 16},
                   {"blk.0.attn_output.weight", 32},
                   {"blk.0.ffn_gate.weight", 32},
                   {"blk.0.ffn_up.weight", 32},
                   {"blk.0.ffn_down.weight", 32}};
    enum { N = sizeof tensors / sizeof *tensors };
    uint64_t at = 0;
    gguf.n = 0;
    put("GGUF", 4), put_number(3, 4), put_number(N, 8);
    put_keys();
    for (int i = 0; i < N; i++) {
        int rows = tensors[i].rows;
        put_text(tensors[i].name);
        put_number(rows ? 2 : 1, 4), put_number(32, 8);
        if (rows) put_number((uint64_t)rows, 8);
        put_number(rows ? type : 0, 4), put_number(at, 8);
        at += ((rows ? (uint64_t)rows * block : 128) + 31) / 32 * 32;
    }
    while (gguf.n % 32) put("", 1);
    for (uint64_t i = 0; i < at; i++) put("\0\x3c" + i % 2, 1);
}

void fuzz_seeds_gguf(fuzz_add *add)
{
    static const struct {
        uint32_t type;
        uint64_t block;
    } types[] = {{8, 34}, {2, 18}, {3, 20}, {6, 22}, {1, 64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        make_gguf(types[i].type, types[i].block);
        add(gguf.p, gguf.n);
    }
}

/* ---- a journal: the answers that are in it are read, those that are not are added */

enum { SLOTS = 5 };

static const char *use_journal(struct journal *j)
{
    struct out all = {0};
    struct err e = {0};
    const char *why = NULL;
    uint64_t at = 0, n_held = 0;
    size_t n_manifest, m;
    const char *manifest = journal_manifest(j, &n_manifest);
    int64_t started;
    int more;
    uint64_t seed;
    if (manifest && manifest_started(manifest, n_manifest, &started, &e))
        why = fuzz_wrong_error(&e);
    if (manifest && manifest_seed(manifest, n_manifest, &seed, &e)) why = fuzz_wrong_error(&e);
    if (journal_completion(j, &m)) return why;
    if (!manifest) {
        if (journal_start(j, "{\"started\":1}\n", 14, &e)) why = fuzz_wrong_error(&e);
    }
    for (uint64_t i = 0; i < SLOTS && !why; i++) {
        n_held += (uint64_t)journal_has(j, i);
        if (journal_has(j, i) ? journal_read(j, i, &all, &e)
                              : journal_add(j, i, 0, "again\n", 6, &e))
            why = fuzz_wrong_error(&e);
    }
    while (!why && (more = journal_walk(j, &at, &all, &e)))
        if (more < 0) why = fuzz_wrong_error(&e);
    if (!why && journal_count(j) != SLOTS) why = "an answer is missing";
    if (!why && journal_errors(j) > n_held) why = "more errors than there were answers";
    out_free(&all);
    return why;
}

const char *fuzz_run_journal(const uint8_t *data, size_t n)
{
    struct journal *j;
    struct err e = {0};
    char path[100], note[256];
    const char *why;
    snprintf(path, sizeof path, "%s/journal", fuzz_dir());
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) abort();
    if (journal_open(&j, path, SLOTS, note, &e)) {
        why = fuzz_wrong_error(&e);
    } else {
        why = use_journal(j);
        int is_whole = journal_count(j) == SLOTS;
        journal_close(j);
        /* after that it is sound */
        if (!why && is_whole && journal_open(&j, path, SLOTS, note, &e)) why = fuzz_wrong_error(&e);
        else if (!why && is_whole) {
            if (*note || journal_count(j) != SLOTS) why = "is not whole the second time";
            journal_close(j);
        }
    }
    unlink(path);
    return why;
}

void fuzz_seeds_journal(fuzz_add *add)
{
    struct journal *j;
    struct err e;
    char path[100], note[256], text[60];
    snprintf(path, sizeof path, "%s/journal", fuzz_dir());
    unlink(path);
    if (journal_open(&j, path, SLOTS, note, &e) ||
        journal_start(j, "{\"started\":1,\"seed\":7}\n", 23, &e))
        abort();
    for (uint64_t i = 0; i < SLOTS - 1; i++) {
        int n = snprintf(text, sizeof text, "{\"answer\":%d}\n", (int)i);
        if (journal_add(j, SLOTS - 1 - i, i == 2, text, (size_t)n, &e)) abort();
    }
    journal_close(j);
    fuzz_seed_file(add, path, 4096);
    if (journal_open(&j, path, SLOTS, note, &e) || journal_complete(j, "{\"bytes\":1}\n", 12, &e))
        abort();
    journal_close(j);
    fuzz_seed_file(add, path, 4096);
    unlink(path);
}
