/* unit_model.c: model files with one fault and a valid checksum: values that a kernel uses as a
 * range or an index are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "convert/convert.h"
#include "core/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Two layers, dim 256, ffn 384, vocab 320, 4 heads, 2 KV heads of 64; groups of 128; all linears
 * have a perm but o and down. */
static const char checkpoint[] = "tests/data/gptq/llama-act-order-asym";
static char dir[] = "/tmp/opt4gptq-unit-model-XXXXXX", path[300];

/* The file in parts; DATA has room for additions. */
static struct parts {
    json_t *header, *config; /* config: as JSON, put back as text */
    uint8_t *data;
    size_t n_data;
} whole;
enum { ROOM = 4 << 20 };

static json_t *meta(const struct parts *m) { return json_object_get(m->header, "__metadata__"); }

static void take_apart(void)
{
    FILE *f = fopen(path, "rb");
    uint64_t n;
    assert_non_null(f);
    assert_int_equal(fread(&n, 8, 1, f), 1);
    char *text = malloc(n);
    assert_int_equal(fread(text, 1, n, f), n);
    whole.header = json_loadb(text, n, 0, NULL);
    whole.data = calloc(1, ROOM);
    whole.n_data = fread(whole.data, 1, ROOM, f);
    fclose(f);
    free(text);
    whole.config = json_loads(json_string_value(json_object_get(meta(&whole), "opt4gptq.config")),
                              0, NULL);
    assert_true(whole.header && whole.config && whole.n_data < ROOM / 2);
}

static void put_together(const struct parts *m)
{
    char *text = json_dumps(m->config, JSON_COMPACT), digits[9];
    if (json_object_get(meta(m), "opt4gptq.config"))
        json_object_set_new(meta(m), "opt4gptq.config", json_string(text));
    free(text);
    json_object_set_new(meta(m), "opt4gptq.header_crc32", json_string("00000000"));
    text = json_dumps(m->header, JSON_COMPACT);
    uint64_t len = strlen(text), n = (8 + len + 63) / 64 * 64 - 8;
    text = realloc(text, n);
    memset(text + len, ' ', n - len);
    uint32_t crc;
    size_t at;
    assert_int_equal(mf_header_crc(text, n, &crc, &at), 0);
    snprintf(digits, sizeof digits, "%08x", crc);
    memcpy(text + at, digits, 8);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(&n, 8, 1, f) == 1 && fwrite(text, 1, n, f) == n &&
                fwrite(m->data, 1, m->n_data, f) == m->n_data && !fclose(f));
    free(text);
}

/* The bytes of a tensor. */
static void *payload(struct parts *m, const char *name)
{
    json_t *t = json_object_get(m->header, name);
    if (!t) fail_msg("no tensor %s", name);
    return m->data + json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0));
}

/* Gives tensor NAME, new or not, this type and shape and zeros as content. */
static void *replace(struct parts *m, const char *name, const char *dtype, size_t item, int n_dims,
                     const int64_t *shape)
{
    size_t begin = (m->n_data + 63) / 64 * 64, bytes = item;
    json_t *dims = json_array();
    for (int i = 0; i < n_dims; i++) {
        bytes *= (size_t)shape[i];
        json_array_append_new(dims, json_integer(shape[i]));
    }
    assert_true(begin + bytes <= ROOM);
    memset(m->data + m->n_data, 0, begin + bytes - m->n_data);
    m->n_data = begin + bytes;
    json_object_set_new(m->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", dims,
                                  "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes)));
    return m->data + begin;
}
#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }
#define REPLACE(m, name, dtype, item, ...) replace(m, name, dtype, item, SHAPE(__VA_ARGS__))

/* Opens the file after EDIT: it is refused with SAYS, or opens if SAYS is NULL. */
static void try(const char *what, void (*edit)(struct parts *, const void *), const void *arg,
                const char *says)
{
    struct parts m = {json_deep_copy(whole.header), json_deep_copy(whole.config), calloc(1, ROOM),
                      whole.n_data};
    struct model model;
    struct err e = {0};
    memcpy(m.data, whole.data, whole.n_data);
    edit(&m, arg);
    put_together(&m);
    json_decref(m.header);
    json_decref(m.config);
    free(m.data);
    int rc = model_open(&model, path, &e);
    if (!rc) model_close(&model);
    if (rc != (says ? -1 : 0) || (says && (!strstr(e.msg, says) || !strstr(e.msg, path))))
        fail_msg("%s: %d, '%s', not '%s'", what, rc, e.msg, says ? says : "opened");
}

static void nothing(struct parts *m, const void *arg) { (void)m, (void)arg; }

static void test_whole(void **state)
{
    (void)state;
    try("as it is", nothing, NULL, NULL);
}

/* ---- indices and zero points */

struct entry {
    const char *tensor;
    int at, value;
};
static void set_int(struct parts *m, const void *arg)
{
    const struct entry *x = arg;
    ((int32_t *)payload(m, x->tensor))[x->at] = x->value;
}
static void set_byte(struct parts *m, const void *arg)
{
    const struct entry *x = arg;
    ((uint8_t *)payload(m, x->tensor))[x->at] = (uint8_t)x->value;
}

static void test_perm(void **state)
{
    (void)state;
    static const char q[] = "layers.0.self_attn.q_proj.perm", up[] = "layers.1.mlp.up_proj.perm";
    try("last", set_int, &(struct entry){q, 5, 255}, NULL);
    try("none", set_int, &(struct entry){q, 5, -1}, NULL);
    try("one past the last", set_int, &(struct entry){q, 5, 256},
        "entry 5 is 256, the layer has 256 inputs");
    try("of the last entry", set_int, &(struct entry){up, 255, 256},
        "layers.1.mlp.up_proj.perm': entry 255 is 256");
    try("negative", set_int, &(struct entry){q, 0, -2}, "entry 0 is -2");
    try("large", set_int, &(struct entry){q, 0, INT32_MAX}, "entry 0 is 2147483647");
}

static void test_zeros(void **state)
{
    (void)state;
    static const char z[] = "layers.0.mlp.down_proj.zeros";
    try("16", set_byte, &(struct entry){z, 3, 16}, NULL);
    try("17", set_byte, &(struct entry){z, 3, 17},
        "layers.0.mlp.down_proj.zeros' holds a zero point above 16");
    try("17 in the last", set_byte, &(struct entry){z, 16 * 3 * 16 - 1, 17}, "above 16");
    try("255", set_byte, &(struct entry){z, 0, 255}, "above 16");
}

/* ---- shapes of a 4-bit linear: o has 256 inputs and outputs, so 16 panels */

struct sizes {
    int64_t k, groups, perm; /* perm 0: none */
};
static void set_sizes(struct parts *m, const void *arg)
{
    const struct sizes *s = arg;
    static const char o[] = "layers.0.self_attn.o_proj";
    char name[64];
#define OF_O(what) (snprintf(name, sizeof name, "%s." what, o), name)
    REPLACE(m, OF_O("codes"), "U8", 1, 16, s->k / 8, 16, 4);
    REPLACE(m, OF_O("scales"), "F16", 2, 16, s->groups, 16);
    REPLACE(m, OF_O("zeros"), "U8", 1, 16, s->groups, 16);
    if (s->perm) REPLACE(m, OF_O("perm"), "I32", 4, s->perm);
    else json_object_del(m->header, OF_O("perm"));
}

static void test_groups(void **state)
{
    (void)state;
    try("one", set_sizes, &(struct sizes){256, 1, 0}, NULL);
    try("of 32", set_sizes, &(struct sizes){256, 8, 0}, NULL);
    try("of 16", set_sizes, &(struct sizes){256, 16, 0},
        "16 groups do not divide 256 inputs into multiples of 32");
    try("of 8", set_sizes, &(struct sizes){256, 32, 0}, "32 groups do not divide");
    try("of 48", set_sizes, &(struct sizes){288, 6, 288}, "6 groups do not divide 288 inputs");
    try("no whole number", set_sizes, &(struct sizes){256, 3, 0}, "3 groups do not divide");
    try("a rest", set_sizes, &(struct sizes){296, 9, 296}, "9 groups do not divide 296 inputs");
    try("none", set_sizes, &(struct sizes){256, 0, 0}, "0 groups do not divide");
    try("more slots than inputs", set_sizes, &(struct sizes){288, 9, 288}, NULL);
    try("more slots without perm", set_sizes, &(struct sizes){288, 9, 0},
        "packs 288 inputs of 256 and has no perm");
    try("fewer slots without perm", set_sizes, &(struct sizes){224, 7, 0},
        "packs 224 inputs of 256 and has no perm");
    try("short perm", set_sizes, &(struct sizes){288, 9, 256},
        "has shape [256], the config needs [288]");
    try("no inputs", set_sizes, &(struct sizes){0, 1, 0}, "has no or too many inputs");
}

struct shape {
    const char *tensor, *dtype;
    size_t item;
    int n_dims;
    int64_t shape[4];
};
static void set_shape(struct parts *m, const void *arg)
{
    const struct shape *s = arg;
    replace(m, s->tensor, s->dtype, s->item, s->n_dims, s->shape);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        struct shape s;
        const char *says;
    } cases[] = {
        {{"embed_tokens.weight", "F16", 2, 2, {319, 256}},
         "has shape [319,256], the config needs [320,256]"},
        {{"embed_tokens.weight", "I32", 4, 2, {320, 256}}, "has dtype I32"},
        {{"embed_tokens.weight", "F16", 2, 3, {320, 256, 1}}, "has shape"},
        {{"embed_tokens.bias", "F32", 4, 1, {320}}, "without bias"},
        {{"embed_tokens.codes", "U8", 1, 4, {20, 32, 16, 4}}, "embed_tokens.scales' is missing"},
        {{"lm_head.weight", "F16", 2, 2, {320, 255}}, "has shape"},
        {{"norm.weight", "F32", 4, 1, {255}}, "has shape"},
        {{"norm.weight", "F16", 2, 1, {256}}, "has dtype F16"},
        {{"rope.inv_freq", "F32", 4, 1, {31}}, "has shape"},
        {{"layers.0.input_layernorm.weight", "F32", 4, 1, {255}}, "has shape"},
        {{"layers.1.post_attention_layernorm.weight", "F32", 4, 1, {257}}, "has shape"},
        {{"layers.0.self_attn.q_norm.weight", "F32", 4, 1, {64}}, "k_norm.weight' is missing"},
        {{"layers.0.self_attn.k_norm.weight", "F32", 4, 1, {64}}, "q_norm.weight' is missing"},
        {{"layers.0.self_attn.q_norm.weight", "F32", 4, 1, {63}}, "has shape"},
        {{"layers.0.mlp.up_proj.bias", "F32", 4, 1, {383}}, "has shape"},
        {{"layers.0.mlp.up_proj.codes", "U8", 1, 4, {23, 32, 16, 4}}, "has shape"},
        {{"layers.0.mlp.up_proj.codes", "I8", 1, 4, {24, 32, 16, 4}}, "has dtype I8"},
        {{"layers.0.mlp.up_proj.codes", "U8", 1, 4, {24, 32, 15, 4}}, "has shape"},
        {{"layers.0.mlp.up_proj.scales", "F16", 2, 3, {23, 2, 16}}, "has shape"},
        {{"layers.0.mlp.up_proj.scales", "BF16", 2, 3, {24, 2, 16}}, "has dtype BF16"},
        {{"layers.0.mlp.up_proj.zeros", "U8", 1, 3, {24, 1, 16}}, "has shape"},
        {{"layers.0.mlp.up_proj.perm", "I64", 8, 1, {256}}, "has dtype I64"},
        {{"layers.0.mlp.up_proj.bias", "F32", 4, 1, {384}}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        try(cases[i].s.tensor, set_shape, &cases[i].s, cases[i].says);
}

static void removed(struct parts *m, const void *arg) { json_object_del(m->header, arg); }

static void test_missing(void **state)
{
    (void)state;
    static const char *const needed[] = {"embed_tokens.weight",
                                         "norm.weight",
                                         "rope.inv_freq",
                                         "layers.0.input_layernorm.weight",
                                         "layers.1.post_attention_layernorm.weight",
                                         "layers.1.self_attn.v_proj.scales",
                                         "layers.0.mlp.gate_proj.zeros"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        try(needed[i], removed, needed[i], "is missing");
}

/* ---- NaN and infinity */

struct number {
    const char *tensor;
    int64_t n; /* of a tensor to be added; 0: it exists */
    int at;
    float value;
};
static void set_float(struct parts *m, const void *arg)
{
    const struct number *x = arg;
    float *p = x->n ? replace(m, x->tensor, "F32", 4, 1, &x->n) : payload(m, x->tensor);
    p[x->at] = x->value;
}
static void both_norms(struct parts *m, const void *arg)
{
    REPLACE(m, "layers.0.self_attn.q_norm.weight", "F32", 4, 64);
    REPLACE(m, "layers.0.self_attn.k_norm.weight", "F32", 4, 64);
    set_float(m, arg);
}
static void set_half(struct parts *m, const void *arg)
{
    const struct entry *x = arg;
    ((uint16_t *)payload(m, x->tensor))[x->at] = (uint16_t)x->value;
}

static void test_finite(void **state)
{
    (void)state;
    static const struct number cases[] = {
        {"norm.weight", 0, 0, 0},
        {"norm.weight", 0, 255, 0},
        {"rope.inv_freq", 0, 31, 0},
        {"layers.1.input_layernorm.weight", 0, 7, 0},
        {"layers.0.post_attention_layernorm.weight", 0, 255, 0},
        {"layers.0.self_attn.q_proj.bias", 256, 255, 0},
        {"layers.1.mlp.down_proj.bias", 256, 0, 0},
        {"lm_head.bias", 320, 319, 0},
    };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct number x = cases[i];
        x.value = 0x1.fffffep127f;
        try("the largest", set_float, &x, NULL);
        for (int k = 0; k < 4; k++) {
            char says[100];
            x.value = bad[k];
            snprintf(says, sizeof says, "tensor '%s' holds NaN or infinity", x.tensor);
            try(x.tensor, set_float, &x, says);
        }
    }
    try("q_norm", both_norms, &(struct number){"layers.0.self_attn.q_norm.weight", 0, 63, NAN},
        "q_norm.weight' holds NaN");
    try("k_norm", both_norms, &(struct number){"layers.0.self_attn.k_norm.weight", 0, 63, INFINITY},
        "k_norm.weight' holds NaN");
    try("the largest half", set_half, &(struct entry){"layers.0.mlp.up_proj.scales", 9, 0xfbff},
        NULL);
    try("half infinity", set_half, &(struct entry){"layers.0.mlp.up_proj.scales", 9, 0xfc00},
        "up_proj.scales' holds NaN or infinity");
    try("half NaN", set_half, &(struct entry){"layers.1.mlp.down_proj.scales", 0, 0x7c01},
        "down_proj.scales' holds NaN or infinity");
}

/* ---- the configuration */

struct setting {
    const char *key, *json;
};
static void set_config(struct parts *m, const void *arg)
{
    const struct setting *s = arg;
    if (*s->json)
        json_object_set_new(m->config, s->key, json_loads(s->json, JSON_DECODE_ANY, NULL));
    else json_object_del(m->config, s->key);
}

static void test_config(void **state)
{
    (void)state;
    static const struct {
        struct setting s;
        const char *says;
    } cases[] = {
        {{"n_layers", "0"}, "'n_layers' is 0, must be 1"},
        {{"n_layers", "4097"}, "must be 1..4096"},
        {{"n_layers", "3"}, "'windows' must list 3 layers"},
        {{"dim", "0"}, "'dim' is 0"},
        {{"dim", "-256"}, "'dim' is -256"},
        {{"dim", "16777217"}, "'dim' is 16777217"},
        {{"dim", "4294967552"}, "'dim' is 4294967552"},
        {{"dim", "256.0"}, "'dim' is missing or not an integer"},
        {{"dim", ""}, "'dim' is missing"},
        {{"ffn", "0"}, "'ffn' is 0"},
        {{"ffn", "385"}, "the config needs"},
        {{"n_heads", "0"}, "'n_heads' is 0"},
        {{"n_kv_heads", "0"}, "'n_kv_heads' is 0"},
        {{"n_kv_heads", "3"}, "4 heads cannot share 3 KV heads"},
        {{"n_kv_heads", "8"}, "4 heads cannot share 8 KV heads"},
        {{"head_dim", "0"}, "'head_dim' is 0"},
        {{"head_dim", "63"}, "4 heads of 63 dimensions"},
        {{"head_dim", "1026"}, "'head_dim' is 1026"},
        {{"vocab", "0"}, "'vocab' is 0"},
        {{"vocab", "321"}, "the config needs [321,256]"},
        {{"context", "0"}, "'context' is 0"},
        {{"bos", "319"}, NULL},
        {{"bos", "320"}, "'bos' is 320"},
        {{"bos", "-2"}, "'bos' is -2"},
        {{"eos", "[319]"}, NULL},
        {{"eos", "[2, 320]"}, "'eos' names an id outside the vocabulary of 320"},
        {{"eos", "[-1]"}, "'eos' names an id outside"},
        {{"eos", "2"}, "'eos' must be a short list"},
        {{"windows", "[0]"}, "'windows' must list 2 layers"},
        {{"windows", "[0, 0, 0]"}, "'windows' must list 2 layers"},
        {{"windows", "[0, -1]"}, "bad 'windows' entry"},
        {{"windows", "[2147483648, 0]"}, "bad 'windows' entry"},
        {{"windows", "[2147483647, 0]"}, NULL},
        {{"norm_eps", "-1e-9"}, "'norm_eps' is missing or out of range"},
        {{"norm_eps", "1.5"}, "'norm_eps' is missing or out of range"},
        {{"rope_scale", "0"}, "'rope_scale' is missing or out of range"},
        {{"rope_scale", "1001"}, "'rope_scale' is missing or out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        try(cases[i].s.key, set_config, &cases[i].s, cases[i].says);
}

/* ---- the file */

static void set_meta(struct parts *m, const void *arg)
{
    const struct setting *s = arg;
    if (*s->json) json_object_set_new(meta(m), s->key, json_string(s->json));
    else json_object_del(meta(m), s->key);
}
static void not_aligned(struct parts *m, const void *arg)
{
    (void)arg;
    REPLACE(m, "norm.weight", "F32", 4, 256);
    json_t *offsets = json_object_get(json_object_get(m->header, "norm.weight"), "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0)) + 4;
    json_array_set_new(offsets, 0, json_integer(begin));
    json_array_set_new(offsets, 1, json_integer(begin + 1024));
    m->n_data += 4;
}
static void one_byte_short(struct parts *m, const void *arg)
{
    (void)arg;
    REPLACE(m, "norm.weight", "F32", 4, 256); /* now the last */
    m->n_data--;
}

static void test_file(void **state)
{
    (void)state;
    static const char cut[] = "{\"opt4gptq.header_crc32\":\"00000000\"";
    uint32_t sum;
    size_t where;
    assert_int_equal(mf_header_crc(cut, sizeof cut - 2, &sum, &where),
                     0); /* ends with its last digit */
    assert_int_equal(mf_header_crc(cut, sizeof cut - 3, &sum, &where), -1);
    try("version 3", set_meta, &(struct setting){"opt4gptq.version", "3"}, "version '3'");
    try("version 10", set_meta, &(struct setting){"opt4gptq.version", "10"}, "version '10'");
    try("version 1x", set_meta, &(struct setting){"opt4gptq.version", "1x"}, "version '1x'");
    try("no version", set_meta, &(struct setting){"opt4gptq.version", ""}, "safetensors file");
    try("no config", set_meta, &(struct setting){"opt4gptq.config", ""}, "opt4gptq.config");
    try("alignment", not_aligned, NULL, "tensor 'norm.weight' is not aligned to 64 bytes");
    try("one byte short", one_byte_short, NULL, "norm.weight' ends at byte");
    put_together(&whole); /* one digit of the header's checksum, one letter of the rest */
    for (int i = 0; i < 2; i++) {
        struct model model;
        struct err e = {0};
        char text[64 << 10];
        put_together(&whole);
        FILE *f = fopen(path, "r+b");
        size_t n = fread(text, 1, sizeof text, f);
        char *at = memmem(text, n, i ? "\"n_heads\\\":4" : "header_crc32\":\"", i ? 12 : 15);
        if (!at && i) at = memmem(text, n, "n_heads\\\":4", 11);
        assert_non_null(at);
        at += i ? strcspn(at, ":") + 1 : 15;
        fseek(f, at - text, SEEK_SET);
        fputc(i ? '2' : *at == '0' ? '1' : '0', f);
        fclose(f);
        assert_int_equal(model_open(&model, path, &e), -1);
        assert_non_null(strstr(e.msg, "the header is damaged"));
    }
}

static int make(void **state)
{
    (void)state;
    static const volatile sig_atomic_t never;
    struct err e;
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    struct convert_options o = {
        .dir = checkpoint, .out = {path, 1, 0, &never}, .notes = {.quiet = 1}};
    if (convert_run(&o, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        return -1;
    }
    take_apart();
    return 0;
}

static int clean(void **state)
{
    (void)state;
    json_decref(whole.header);
    json_decref(whole.config);
    free(whole.data);
    unlink(path);
    rmdir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),  cmocka_unit_test(test_perm),
        cmocka_unit_test(test_zeros),  cmocka_unit_test(test_groups),
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_missing),
        cmocka_unit_test(test_finite), cmocka_unit_test(test_config),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
