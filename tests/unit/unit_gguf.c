/* unit_gguf.c: GGUF files that are made here: blocks of every type against their definition, bit by
 * bit; a small model as the checkpoint it is seen as; cut and damaged files. */
#include "convert/convert.h"
#include "convert/gguf_checkpoint.h"
#include "core/base/dtype.h"
#include "core/model/modelfile.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t seed = 7;

static uint32_t draw(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(seed >> 33);
}

/* ---- a file in memory */

enum { U32 = 4, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9, U64 = 10 };

static struct {
    uint8_t p[1 << 19];
    size_t n;
} file;

static void add(const void *p, size_t n)
{
    assert_true(file.n + n <= sizeof file.p);
    memcpy(file.p + file.n, p, n);
    file.n += n;
}

static void u32(uint32_t x) { add(&x, 4); }
static void u64(uint64_t x) { add(&x, 8); }

static void text(const char *s)
{
    u64(strlen(s));
    add(s, strlen(s));
}

static void key(const char *name, uint32_t kind)
{
    text(name);
    u32(kind);
}

static void key_u32(const char *name, uint32_t x) { key(name, U32), u32(x); }
static void key_text(const char *name, const char *s) { key(name, STRING), text(s); }

static void key_f32(const char *name, float x)
{
    key(name, F32);
    add(&x, 4);
}

struct made {
    const char *name;
    uint32_t type;
    int n_dims;
    uint64_t size[2];
};

enum { DIM = 256, FFN = 96, VOCAB = 8, HEADS = 2, HEAD = 32 };
static const struct made tensors[] = {
    {"token_embd.weight", 8, 2, {DIM, VOCAB}},
    {"output_norm.weight", 0, 1, {DIM, 1}},
    {"output.weight", 14, 2, {DIM, VOCAB}},
    {"blk.0.attn_norm.weight", 0, 1, {DIM, 1}},
    {"blk.0.ffn_norm.weight", 0, 1, {DIM, 1}},
    {"blk.0.attn_q.weight", 2, 2, {DIM, HEADS *HEAD}},
    {"blk.0.attn_k.weight", 1, 2, {DIM, HEAD}},
    {"blk.0.attn_v.weight", 3, 2, {DIM, HEAD}},
    {"blk.0.attn_output.weight", 7, 2, {HEADS * HEAD, DIM}},
    {"blk.0.ffn_gate.weight", 6, 2, {DIM, FFN}},
    {"blk.0.ffn_up.weight", 12, 2, {DIM, FFN}},
    {"blk.0.ffn_down.weight", 8, 2, {FFN, DIM}},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

static uint64_t bytes_of(const struct made *m)
{
    const struct gguf_type *t = gguf_type(m->type);
    return m->size[0] / (uint64_t)t->per * (uint64_t)t->bytes * m->size[1];
}

/* Blocks of random codes whose scales are small halves. */
static void fill(const struct made *m, uint8_t *p)
{
    const struct gguf_type *t = gguf_type(m->type);
    uint64_t n = bytes_of(m);
    for (uint64_t i = 0; i < n; i++) p[i] = (uint8_t)draw();
    for (uint64_t i = 0; i < n; i += (uint64_t)t->bytes) {
        uint16_t h = f16_from_f32(0.01f + (float)(draw() % 64) / 4096);
        float f = f32_from_f16(h);
        if (m->type == 0) memcpy(p + i, &f, 4);
        else memcpy(p + i + (m->type == 14 ? 208 : 0), &h, 2);
        const uint16_t least = f16_from_f32(-3 * f);
        if (m->type == 3 || m->type == 7 || m->type == 12) memcpy(p + i + 2, &least, 2);
    }
}

static void key_tokens(void)
{
    static const char *const tokens[VOCAB] = {"<unk>",        "<s>", "</s>", "<0x0A>",
                                              "\xe2\x96\x81", "a",   "b",    "ab"};
    static const uint32_t kinds[VOCAB] = {2, 3, 3, 6, 1, 1, 1, 1};
    key("tokenizer.ggml.tokens", ARRAY), u32(STRING), u64(VOCAB);
    for (int i = 0; i < VOCAB; i++) text(tokens[i]);
    key("tokenizer.ggml.token_type", ARRAY), u32(U32), u64(VOCAB);
    add(kinds, sizeof kinds);
    key("tokenizer.ggml.scores", ARRAY), u32(F32), u64(VOCAB);
    for (int i = 0; i < VOCAB; i++) {
        float score = (float)-i;
        add(&score, 4);
    }
}

/* What differs from the small model. */
struct change {
    const char *extra_key, *arch, *kind, *spare;
    uint32_t type_of_v, extra;
    const char *rope; /* with factor 4; */
    uint32_t rope_original;
};

static void make(const struct change *c)
{
    uint64_t at = 0;
    file.n = 0;
    seed = 7;
    add("GGUF", 4), u32(3), u64(N_TENSORS), u64(18 + (c->extra_key != NULL) + (c->rope ? 3 : 0));
    key_text("general.architecture", c->arch ? c->arch : "llama");
    key_u32("general.alignment", 32);
    key_u32("llama.context_length", 64);
    key_u32("llama.embedding_length", DIM);
    key_u32("llama.block_count", 1);
    key_u32("llama.feed_forward_length", FFN);
    key_u32("llama.attention.key_length", HEAD);
    key_u32("llama.attention.value_length", HEAD);
    key_u32("llama.attention.head_count", HEADS);
    key_u32("llama.attention.head_count_kv", 1);
    key_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_f32("llama.rope.freq_base", 10000);
    key_text("tokenizer.ggml.model", c->kind ? c->kind : "llama");
    key_tokens();
    key_u32("tokenizer.ggml.bos_token_id", 1);
    key_u32("tokenizer.ggml.eos_token_id", 2);
    if (c->extra_key) key_u32(c->extra_key, c->extra);
    if (c->rope) {
        key_text("llama.rope.scaling.type", c->rope);
        key_f32("llama.rope.scaling.factor", 4);
        key_u32("llama.rope.scaling.original_context_length", c->rope_original);
    }
    for (int i = 0; i < N_TENSORS; i++) {
        struct made m = tensors[i];
        if (c->type_of_v && strstr(m.name, "attn_v")) m.type = c->type_of_v;
        text(c->spare && strstr(m.name, "attn_v") ? c->spare : m.name);
        u32((uint32_t)m.n_dims);
        for (int d = 0; d < m.n_dims; d++) u64(m.size[d]);
        u32(m.type);
        u64(at);
        if (gguf_type(m.type)) at += (bytes_of(&m) + 31) / 32 * 32;
    }
    while (file.n % 32) add("", 1);
    for (int i = 0; i < N_TENSORS; i++) {
        struct made m = tensors[i];
        if (c->type_of_v && gguf_type(c->type_of_v) && strstr(m.name, "attn_v"))
            m.type = c->type_of_v;
        assert_true(file.n + bytes_of(&m) + 32 < sizeof file.p);
        fill(&m, file.p + file.n);
        file.n += bytes_of(&m);
        while (file.n % 32) add("", 1);
    }
}

static char dir[] = "/tmp/opt4gptq-gguf-XXXXXX", path[100];

static void write_bytes(const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- blocks */

static unsigned bits(const uint8_t *p, int at, int n) /* of a string of bits, lowest first */
{
    unsigned x = 0;
    for (int i = 0; i < n; i++) x |= (unsigned)(p[(at + i) / 8] >> (at + i) % 8 & 1) << i;
    return x;
}

static float half(const uint8_t *p) { return f32_from_f16((uint16_t)bits(p, 0, 16)); }

/* Scale (which 0) or least value (1) of part i of a K-quant, by the layout's table. */
static unsigned six(const uint8_t *p, int i, int which)
{
    if (i < 4) return bits(p, 8 * (i + 4 * which), 6);
    return bits(p, 8 * (i + 4) + 4 * which, 4) | bits(p, 8 * (i - 4 + 4 * which) + 6, 2) << 4;
}

/* Number i of a block. */
static float defined(const struct gguf_type *t, const uint8_t *b, int i)
{
    int part = i / 32, j = i % 16, upper = i / 16 % 2;
    float d = half(b);
    if (!strcmp(t->name, "Q4_0")) return d * ((float)bits(b + 2, 8 * j + 4 * upper, 4) - 8);
    if (!strcmp(t->name, "Q4_1")) return d * (float)bits(b + 4, 8 * j + 4 * upper, 4) + half(b + 2);
    if (!strcmp(t->name, "Q5_0"))
        return d * ((float)(bits(b + 6, 8 * j + 4 * upper, 4) + 16 * bits(b + 2, i, 1)) - 16);
    if (!strcmp(t->name, "Q5_1"))
        return d * (float)(bits(b + 8, 8 * j + 4 * upper, 4) + 16 * bits(b + 4, i, 1)) +
               half(b + 2);
    if (!strcmp(t->name, "Q8_0")) return d * (float)(int8_t)b[2 + i];
    if (!strcmp(t->name, "Q6_K")) {
        int in = i % 128, at = 64 * (i / 128) + in % 64;
        unsigned low = bits(b + at, in / 64 * 4, 4),
                 high = bits(b + 128 + 32 * (i / 128) + in % 32, in / 32 * 2, 2);
        return half(b + 208) * (float)(int8_t)b[192 + i / 16] * ((float)(low + 16 * high) - 32);
    }
    int is_5 = !strcmp(t->name, "Q5_K");
    unsigned q = bits(b + (is_5 ? 48 : 16) + part / 2 * 32 + i % 32, part % 2 * 4, 4);
    if (is_5) q += 16 * bits(b + 16 + i % 32, part, 1);
    float step = d * (float)six(b + 4, part, 0), least = half(b + 2) * (float)six(b + 4, part, 1);
    return step * (float)q - least;
}

static void blocks(void **state)
{
    (void)state;
    int n_types = 0;
    for (uint32_t id = 0; id < 64; id++) {
        const struct gguf_type *t = gguf_type(id);
        if (!t || t->per == 1) continue;
        n_types++;
        for (int round = 0; round < 50; round++) {
            uint8_t b[256], q[256];
            float y[256];
            for (int i = 0; i < t->bytes; i++) b[i] = (uint8_t)draw();
            const uint16_t h = f16_from_f32((float)(draw() % 1000) / 777);
            memcpy(b + (t->bytes == 210 ? 208 : 0), &h, 2);
            if (strcmp(t->name, "Q5_0") != 0 && strcmp(t->name, "Q8_0") != 0 && t->bytes != 210 &&
                strcmp(t->name, "Q4_0") != 0)
                memcpy(b + 2, &h, 2);
            t->floats(b, y);
            for (int i = 0; i < t->per; i++) {
                float want = defined(t, b, i);
                assert_memory_equal(&y[i], &want, 4);
            }
            if (!t->bits) continue;
            t->codes(b, q);
            float scale[8] = {half(b)}, least[8];
            if (t->pairs) t->pairs(b, scale, least);
            for (int i = 0; i < t->per; i++)
                assert_true((t->pairs
                                 ? scale[i / 32] * (float)q[i] + least[i / 32]
                                 : *scale * ((float)q[i] - (float)(1 << (t->bits - 1)))) == y[i]);
        }
    }
    assert_int_equal(n_types, 8);
    assert_string_equal(gguf_type_name(10), "Q2_K");
    assert_string_equal(gguf_type_name(4000), "an unknown type");
}

/* ---- the small model */

static const struct hf_tensor *find(const struct checkpoint *k, const char *name)
{
    const struct hf_tensor *t = hfd_find(&k->dir, name);
    if (!t) print_error("no tensor %s\n", name);
    assert_non_null(t);
    return t;
}

/* Reading in pieces gives what reading at once gives. */
static void in_pieces(const struct hf_tensor *t, const uint8_t *all)
{
    struct err e;
    uint8_t part[97];
    for (int i = 0; i < 60; i++) {
        uint64_t at = draw() % t->t->bytes, n = 1 + draw() % sizeof part;
        if (n > t->t->bytes - at) n = t->t->bytes - at;
        assert_int_equal(st_read(t->shard, part, t->t->offset + at, n, &e), 0);
        assert_memory_equal(part, all + at, n);
    }
}

static uint8_t *read_all(const struct hf_tensor *t)
{
    struct err e;
    uint8_t *p = malloc(t->t->bytes);
    assert_non_null(p);
    assert_int_equal(st_read(t->shard, p, t->t->offset, t->t->bytes, &e), 0);
    in_pieces(t, p);
    return p;
}

/* Number j of row r of a tensor of the file. */
static float number_of(const struct gguf *g, const char *name, int64_t r, int64_t j)
{
    const struct gguf_tensor *t = gguf_find(g, name);
    assert_non_null(t);
    const uint8_t *p = file.p + t->offset +
                       (r * (t->size[0] / t->type->per) + j / t->type->per) * t->type->bytes;
    float y[256];
    t->type->floats(p, y);
    return y[j % t->type->per];
}

/* The row of the file with row r of a module: halves of a head's rows stand apart where `head` is
 * not 0. */
static int64_t row_of(int64_t r, int head)
{
    return head ? r - r % head + r % (head / 2) * 2 + r % head / (head / 2) : r;
}

/* A module of codes of `width` bits is the file's tensor; `least`: with least values. */
static void same_codes(const struct checkpoint *k, const char *module, const char *name, int width,
                       int head, int least)
{
    char full[200];
    const struct hf_tensor *t[3] = {NULL, NULL, NULL};
    static const char *const what[] = {"packed", "scale", "least"};
    uint8_t *p[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 2 + least; i++) {
        snprintf(full, sizeof full, "%s.weight_%s", module, what[i]);
        t[i] = find(k, full);
        p[i] = read_all(t[i]);
    }
    int64_t rows = t[0]->t->shape[0], groups = t[1]->t->shape[1], n = groups * 32;
    assert_int_equal(t[0]->t->shape[1], n * width / 32);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) {
            size_t g = (size_t)(r * groups + j / 32);
            float code = (float)bits(p[0] + r * n * width / 8, (int)(j * width), width),
                  scale = f32_at(p[1], t[1]->t->dtype, g),
                  want = number_of(&k->dir.gguf->file, name, row_of(r, head), j);
            assert_true(want == (least ? scale * code + f32_at(p[2], t[2]->t->dtype, g)
                                       : scale * (code - (float)(1 << (width - 1)))));
        }
    for (int i = 0; i < 3; i++) free(p[i]);
}

static void same_numbers(const struct checkpoint *k, const char *module, const char *name, int head)
{
    const struct hf_tensor *t = find(k, module);
    uint8_t *p = read_all(t);
    int64_t rows = t->t->n_dims == 2 ? t->t->shape[0] : 1, n = t->t->shape[t->t->n_dims - 1];
    for (int64_t i = 0; i < rows * n; i++)
        assert_true(f32_at(p, t->t->dtype, (size_t)i) ==
                    number_of(&k->dir.gguf->file, name, row_of(i / n, head), i % n));
    free(p);
}

/* As SentencePiece writes a piece: text, score, and a type other than 1. */
static void pieces_have_their_scores(const struct checkpoint *k)
{
    static const struct {
        const char *text;
        float score;
        char type;
    } pieces[] = {{"a", -5, 1}, {"ab", -7, 1}, {"<s>", -1, 3}, {"<0x0A>", -3, 6}};
    const struct gguf_text *t = gguf_checkpoint_text(k->dir.gguf, "tokenizer.model");
    assert_non_null(t);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char b[40];
        size_t n = strlen(pieces[i].text), at = 0;
        b[at++] = 0x0a, b[at++] = (char)n;
        memcpy(b + at, pieces[i].text, n), at += n;
        b[at++] = 0x15;
        memcpy(b + at, &pieces[i].score, 4), at += 4;
        if (pieces[i].type != 1) b[at++] = 0x18, b[at++] = pieces[i].type;
        if (!memmem(t->data, t->n, b, at)) fail_msg("piece %s", pieces[i].text);
    }
}

static void model(void **state)
{
    struct checkpoint k;
    static const struct notes quiet = {.silent = 1, .quiet = 1, .program = "unit_gguf"};
    struct err e = {0};
    (void)state;
    make(&(struct change){0});
    write_bytes(file.p, file.n);
    int rc = checkpoint_open(&k, path, 0, &quiet, &e);
    assert_string_equal(e.msg, "");
    assert_int_equal(rc, 0);
    assert_string_equal(k.model.architecture, "llama");
    assert_int_equal(k.model.vocab, VOCAB);
    assert_int_equal(k.quant.method, QUANT_COMPRESSED);
    assert_int_equal(k.dir.gguf->n_wide, 1);
    assert_null(k.dir.gguf->k_quant);
#define LAYER "model.layers.0."
    same_codes(&k, LAYER "self_attn.q_proj", "blk.0.attn_q.weight", 4, HEAD, 0);
    same_codes(&k, LAYER "mlp.gate_proj", "blk.0.ffn_gate.weight", 8, 0, 0);
    same_codes(&k, LAYER "mlp.up_proj", "blk.0.ffn_up.weight", 4, 0, 1);
    same_codes(&k, LAYER "mlp.down_proj", "blk.0.ffn_down.weight", 8, 0, 0);
    same_codes(&k, LAYER "self_attn.v_proj", "blk.0.attn_v.weight", 4, 0, 1);
    same_numbers(&k, LAYER "self_attn.o_proj.weight", "blk.0.attn_output.weight", 0);
    same_numbers(&k, LAYER "self_attn.k_proj.weight", "blk.0.attn_k.weight", HEAD);
    same_numbers(&k, LAYER "post_attention_layernorm.weight", "blk.0.ffn_norm.weight", 0);
    same_numbers(&k, "model.embed_tokens.weight", "token_embd.weight", 0);
    same_numbers(&k, "lm_head.weight", "output.weight", 0);
    pieces_have_their_scores(&k);
    checkpoint_close(&k);
}

static char out[140];

/* Converts the file to OUT; 0: done. */
static int convert(struct err *e)
{
    static volatile sig_atomic_t never;
    struct convert_options o = {.dir = path,
                                .out = {.path = out, .n_threads = 1, .stop = &never},
                                .notes = {.silent = 1, .quiet = 1, .program = "unit_gguf"}};
    *e = (struct err){0};
    int rc = convert_run(&o, e);
    assert_true(rc ? *e->msg != 0 : !*e->msg);
    return rc;
}

/* The weights of a linear of the model file are the file's tensor to the bit: what the slots of an
 * input hold, added up, and offsets. */
static void same_weights(const struct modelfile *m, const struct gguf *g, const char *linear,
                         const char *name, int head)
{
    static const char *const parts[] = {"codes", "scales", "zeros", "perm", "offsets.weight"};
    enum { CODES, SCALES, ZEROS, PERM, OFFSETS, PARTS };
    char full[200];
    struct tview v[PARTS];
    const struct gguf_tensor *t = gguf_find(g, name);
    for (int i = 0; i < PARTS; i++) {
        snprintf(full, sizeof full, "layers.0.%s.%s", linear, parts[i]);
        int there = mf_find(m, full, &v[i]);
        assert_true(there || i >= PERM);
        if (!there) v[i].data = NULL;
    }
    assert_int_equal(v[OFFSETS].data != NULL, t->type->pairs != NULL);
    const int32_t *perm = v[PERM].data;
    const uint8_t *codes = v[CODES].data, *zeros = v[ZEROS].data;
    int64_t in = t->size[0], n_rows = t->size[1], panels = (n_rows + 15) / 16,
            groups = (int64_t)v[ZEROS].bytes / panels / 16,
            k = (int64_t)v[CODES].bytes * 2 / panels / 16, group = k / groups;
    for (int64_t r = 0; r < n_rows; r++) {
        double w[DIM] = {0};
        for (int64_t j = 0; j < k; j++) {
            int64_t panel = r / 16, at = (panel * groups + j / group) * 16 + r % 16;
            uint8_t byte = codes[((panel * (k / 8) + j / 8) * 16 + r % 16) * 4 + j % 4];
            int code = j % 8 < 4 ? byte & 15 : byte >> 4;
            int64_t i = perm ? perm[j] : j;
            if (i < 0) continue;
            assert_true(zeros[at] <= 16);
            w[i] += (double)f32_at(v[SCALES].data, v[SCALES].dtype, (size_t)at) *
                    (code - zeros[at]);
            if (v[OFFSETS].data)
                w[i] += (double)f32_at(v[OFFSETS].data, v[OFFSETS].dtype,
                                       (size_t)(r * groups + j / group));
        }
        for (int64_t i = 0; i < in; i++)
            assert_true((float)w[i] == number_of(g, name, row_of(r, head), i));
    }
}

static void converted(void **state)
{
    struct modelfile m;
    struct gguf g;
    struct err e;
    (void)state;
    make(&(struct change){0});
    write_bytes(file.p, file.n);
    assert_int_equal(convert(&e), 0);
    assert_int_equal(mf_open(&m, out, &e), 0);
    assert_string_equal(st_meta(&m.st, "opt4gptq.version"), "2");
    assert_int_equal(gguf_open(&g, path, &e), 0);
    same_weights(&m, &g, "self_attn.q_proj", "blk.0.attn_q.weight", HEAD);
    same_weights(&m, &g, "self_attn.v_proj", "blk.0.attn_v.weight", 0);
    same_weights(&m, &g, "mlp.gate_proj", "blk.0.ffn_gate.weight", 0);
    same_weights(&m, &g, "mlp.up_proj", "blk.0.ffn_up.weight", 0);
    same_weights(&m, &g, "mlp.down_proj", "blk.0.ffn_down.weight", 0);
    gguf_close(&g);
    mf_close(&m);
}

/* RoPE as the keys say. */
static void ropes(void **state)
{
    static const struct {
        struct change change;
        const char *rope;
    } cases[] = {
        {{.rope = "none"}, "default, theta 10000"},
        {{.rope = "linear"}, "linear, factor 4, theta 10000"},
        {{.rope = "yarn", .rope_original = 16}, "yarn, factor 4, theta 10000"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct modelfile m;
        struct err e;
        make(&cases[i].change);
        write_bytes(file.p, file.n);
        if (convert(&e)) fail_msg("%s: %s", cases[i].change.rope, e.msg);
        assert_int_equal(mf_open(&m, out, &e), 0);
        const char *config = st_meta(&m.st, "opt4gptq.config");
        char want[60];
        snprintf(want, sizeof want, "\"rope\":\"%s\"", cases[i].rope);
        if (!strstr(config, want)) fail_msg("%s has no %s", config, want);
        mf_close(&m);
    }
}

static void refused(void **state)
{
    static const struct {
        struct change change;
        const char *message;
    } cases[] = {
        {{.extra_key = "llama.expert_count"}, "key 'llama.expert_count' is not understood"},
        {{.extra_key = "llama.block_count"}, "key 'llama.block_count' stands twice"},
        {{.arch = "mamba"}, "architecture 'mamba' are not read"},
        {{.kind = "t5"}, "tokenizers of kind 't5' are not read"},
        {{.kind = "gpt2"}, NULL}, /* without merges: of bytes */
        {{.spare = "blk.0.attn_sinks.weight"}, "'blk.0.attn_sinks.weight' has no place"},
        {{.spare = "blk.0.attn_k.weight"}, "tensor 'blk.0.attn_k.weight' stands twice"},
        {{.type_of_v = 10}, "is of type Q2_K, which is not read"},
        {{.type_of_v = 13}, "'blk.0.attn_v.weight' is Q5_K, which no kernel reads"},
        {{.extra_key = "split.count", .extra = 3}, "is one of 3 parts"},
        {{.extra_key = "general.type"}, "is no model"},
    };
    struct err e;
    (void)state;
    make(&(struct change){0});
    write_bytes(file.p, file.n);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        if (convert(&e)) print_error("%s\n", e.msg);
        assert_string_equal(e.msg, "");
    }
    snprintf(out, sizeof out, "%s", path);
    assert_int_equal(convert(&e), -1);
    snprintf(out, sizeof out, "%s.safetensors", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make(&cases[i].change);
        write_bytes(file.p, file.n);
        int rc = convert(&e);
        if (!cases[i].message) continue;
        if (!rc || !strstr(e.msg, cases[i].message)) print_error("case %zu: '%s'\n", i, e.msg);
        assert_int_equal(rc, -1);
        assert_non_null(strstr(e.msg, cases[i].message));
    }
}

/* The quantizer takes what is refused here: K-quants, exactly. */
static void quantized(void **state)
{
    struct modelfile m;
    struct err e;
    char program[400], command[1000];
    static const char *const how[] = {"--no-calibration", "--tokens 128 --sequence 64"};
    (void)state;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_in_range(n, 1, sizeof program - 2);
    program[n] = 0;
    for (int i = 0; i < 3; i++) *strrchr(program, '/') = 0; /* BUILD/tests/bin/unit_gguf */
    make(&(struct change){.type_of_v = 12});
    write_bytes(file.p, file.n);
    for (int i = 0; i < 2; i++) {
        unlink(out);
        snprintf(command, sizeof command, "%s/opt4gptq-quantize -q %s --group 32 %s %s", program,
                 how[i], path, out);
        assert_int_equal(system(command), 0);
        assert_int_equal(mf_open(&m, out, &e), 0);
        mf_close(&m);
    }
}

/* Opens what lies under the path; if that succeeds, all tensors can be read. */
static int open_and_read(void)
{
    struct gguf_checkpoint *k = calloc(1, sizeof *k);
    struct err e = {0};
    assert_non_null(k);
    int rc = gguf_checkpoint_open(k, path, 0, &e);
    assert_true(rc ? *e.msg != 0 : 1);
    for (size_t i = 0; !rc && i < k->shard.n_tensors; i++) {
        const struct st_tensor *t = &k->shard.tensors[i];
        uint8_t *p = malloc(t->bytes + 1);
        assert_non_null(p);
        assert_int_equal(st_read(&k->shard, p, t->offset, t->bytes, &e), 0);
        free(p);
    }
    if (!rc) gguf_checkpoint_close(k);
    free(k);
    return rc;
}

static void damaged(void **state)
{
    int n_opened = 0;
    (void)state;
    make(&(struct change){0});
    size_t whole = file.n;
    for (size_t n = 0; n < whole; n += n < 3000 ? 1 : 9973) {
        write_bytes(file.p, n);
        assert_int_equal(open_and_read(), -1);
    }
    for (int i = 0; i < 3000; i++) {
        size_t at = draw() % 2200;
        uint8_t was = file.p[at];
        file.p[at] = i % 2 ? (uint8_t)(was ^ 1 << draw() % 8) : (uint8_t)draw();
        write_bytes(file.p, whole);
        n_opened += !open_and_read();
        file.p[at] = was;
    }
    assert_in_range(n_opened, 1, 2999);
}

static int open_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/x.gguf", dir);
    snprintf(out, sizeof out, "%s.safetensors", path);
    return 0;
}

static int close_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(out);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),  cmocka_unit_test(model), cmocka_unit_test(converted),
        cmocka_unit_test(refused), cmocka_unit_test(ropes), cmocka_unit_test(quantized),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
