/* tok_side.c: the files beside the tokenizer: tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json. Owns: which added tokens, names and settings they bring, as transformers 4.57
 * (fast) and 5.24 read them: added_tokens_decoder hides the other two files; without it
 * special_tokens_map.json has priority over tokenizer_config.json; what no file numbers gets the
 * next ids. Must not know: the vocabulary, how tokens are found in a text. */
#include "core/base/json.h"
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>

/* Names of single tokens, in the order in which transformers adds them. */
static const char *const named_keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token"};
enum { N_NAMED = sizeof named_keys / sizeof *named_keys };

static int load(json_t **out, const char *text, size_t n, const char *what, struct err *e)
{
    *out = NULL;
    if (!text) return 0;
    /* Integers are read as reals: some of these files write out 1e30. */
    *out = json_read_python(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL, e);
    if (json_is_object(*out)) return 0;
    if (*out) err_set(e, "not an object");
    err_prefix(e, "%s", what);
    json_decref(*out);
    *out = NULL;
    return -1;
}

int tok_side_open(struct tok_side *s, const struct tok_source *src, struct err *e)
{
    *s = (struct tok_side){0};
    if (load(&s->config, src->config, src->config_bytes, "tokenizer_config.json", e) ||
        load(&s->map, src->special_map, src->special_map_bytes, "special_tokens_map.json", e) ||
        load(&s->added, src->added, src->added_bytes, "added_tokens.json", e)) {
        tok_side_close(s);
        return -1;
    }
    return 0;
}

void tok_side_close(struct tok_side *s)
{
    json_decref(s->config);
    json_decref(s->map);
    json_decref(s->added);
    *s = (struct tok_side){0};
}

/* A boolean member, also as Python's 0 or 1. */
static int flag_of(const json_t *j, const char *key, int absent, int *out, struct err *e)
{
    const json_t *v = json_object_get(j, key);
    double x = json_is_number(v) ? json_number_value(v) : json_is_true(v);
    *out = v && !json_is_null(v) ? x != 0 : absent;
    if (!v || json_is_null(v) || json_is_boolean(v)) return 0;
    if (json_is_number(v) && (x == 0 || x == 1)) return 0;
    return err_set(e, "tokenizer_config.json: %s is neither true nor false", key);
}

int tok_side_flag(const struct tok_side *s, const char *key, int absent, int *out, struct err *e)
{
    return flag_of(s->config, key, absent, out, e);
}

static const json_t *present(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return v && !json_is_null(v) ? v : NULL;
}

static const json_t *decoder_of(const struct tok_side *s)
{
    return present(s->config, "added_tokens_decoder");
}

/* The spelling of a token: a string, or an object with its content. NULL: neither; NaN and its like
 * are none, which json_read_python makes strings of. */
static const json_t *spelling(const json_t *v)
{
    if (json_is_object(v)) v = json_object_get(v, "content");
    const char *text = json_string_value(v);
    int is_number = text && (!strcmp(text, "NaN") || !strcmp(text, "Infinity") ||
                             !strcmp(text, "-Infinity"));
    return text && !is_number ? v : NULL;
}

/* The value of a named token, or NULL. */
static const json_t *named(const struct tok_side *s, const char *key, int *of_map)
{
    const json_t *own = present(s->config, key), *other = present(s->map, key);
    *of_map = other && (!own || !decoder_of(s));
    return *of_map ? other : own;
}

static int is_same(const json_t *a, const json_t *b)
{
    a = spelling(a), b = spelling(b);
    return a && b && json_equal(a, b);
}

static int is_listed(const json_t *list, const json_t *token)
{
    const char *key;
    json_t *v;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_same(json_array_get(list, i), token)) return 1;
    json_object_foreach ((json_t *)(uintptr_t)list, key, v)
        if (is_same(v, token)) return 1;
    return 0;
}

/* Lists of more special tokens; of the map as well where it counts. */
static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens",
                                    "model_specific_special_tokens"};
enum { N_LISTS = sizeof lists / sizeof *lists };

/* A list of tokenizer_config.json. extra_special_tokens replaces additional_special_tokens. */
static const json_t *list_of(const struct tok_side *s, int i)
{
    return i == 0 && json_array_size(json_object_get(s->config, lists[1]))
               ? NULL
               : json_object_get(s->config, lists[i]);
}

/* 1 if a name or a list has the token, which is special by that. */
static int is_named(const struct tok_side *s, const json_t *token)
{
    int of_map;
    for (int i = 0; i < N_NAMED; i++)
        if (is_same(named(s, named_keys[i], &of_map), token)) return 1;
    for (int i = 0; i < N_LISTS; i++)
        if (is_listed(list_of(s, i), token) ||
            (!decoder_of(s) && is_listed(json_object_get(s->map, lists[i]), token)))
            return 1;
    return 0;
}

/* Adds a token with its settings; `special`: what counts where the value says nothing. */
static struct tok_added *add(struct tokenizer *t, const struct tok_side *s, const json_t *v,
                             int special, struct err *e)
{
    const json_t *text = spelling(v);
    struct tok_added *a = tok_added_new(t, json_string_value(text), json_string_length(text), e);
    if (!a) return NULL;
    a->special = special;
    if (json_is_object(v) &&
        (flag_of(v, "special", special, &a->special, e) || flag_of(v, "lstrip", 0, &a->lstrip, e) ||
         flag_of(v, "rstrip", 0, &a->rstrip, e) ||
         flag_of(v, "single_word", 0, &a->single_word, e)))
        return NULL;
    if (flag_of(v, "normalized", !a->special, &a->normalized, e)) return NULL;
    if (s->raw) a->normalized = 0;
    if (is_named(s, v)) a->special = 1;
    return a;
}

/* A token that the files name without a number: added unless it is there already. */
static int add_named(struct tokenizer *t, const struct tok_side *s, const json_t *v, int of_map,
                     const char *key, struct err *e)
{
    const json_t *text = spelling(v);
    if (!text) return err_set(e, "%s holds what is no token", key);
    for (size_t i = 0; i < t->added.n; i++) {
        struct tok_added *a = &t->added.a[i];
        if (a->text_bytes != json_string_length(text) ||
            memcmp(a->text, json_string_value(text), a->text_bytes))
            continue;
        a->special = 1;
        return 0;
    }
    struct tok_added *a = add(t, s, v, of_map || json_is_string(v), e);
    if (!a) return -1;
    a->special = 1;
    return 0;
}

static int add_list(struct tokenizer *t, const struct tok_side *s, const json_t *list, int of_map,
                    const char *key, struct err *e)
{
    const char *name;
    json_t *v;
    if (!list || json_is_null(list)) return 0;
    if (!json_is_array(list) && !json_is_object(list)) return err_set(e, "%s is no list", key);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (add_named(t, s, json_array_get(list, i), of_map, key, e)) return -1;
    json_object_foreach ((json_t *)(uintptr_t)list, name, v)
        if (add_named(t, s, v, of_map, key, e)) return -1;
    return 0;
}

static int add_names(struct tokenizer *t, const struct tok_side *s, struct err *e)
{
    int hidden = decoder_of(s) != NULL, of_map;
    for (int i = 0; i < N_NAMED; i++) {
        const json_t *v = named(s, named_keys[i], &of_map);
        if (v && !(of_map && hidden) && add_named(t, s, v, of_map, named_keys[i], e)) return -1;
    }
    for (int i = 0; i < N_LISTS; i++)
        if (add_list(t, s, list_of(s, i), 0, lists[i], e) ||
            (!hidden && add_list(t, s, json_object_get(s->map, lists[i]), 1, lists[i], e)))
            return -1;
    return 0;
}

struct numbered {
    double id;
    const char *text; /* of added_tokens.json, else NULL */
    json_t *v;        /* of added_tokens_decoder */
};

static int by_number(const void *x, const void *y)
{
    const struct numbered *a = x, *b = y;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Reads one entry of the file that numbers tokens. */
static int read_numbered(struct numbered *to, const char *key, json_t *v, int decoder,
                         struct err *e)
{
    char *end = NULL;
    *to = (struct numbered){.text = decoder ? NULL : key, .v = v};
    to->id = decoder ? strtod(key, &end) : json_is_number(v) ? json_number_value(v) : -1;
    if (!(to->id >= 0 && to->id < TOK_MAX_IDS) || (decoder && (end == key || *end)))
        return err_set(
            e, "%s: '%.60s' has no usable id",
            decoder ? "tokenizer_config.json: added_tokens_decoder" : "added_tokens.json", key);
    if (decoder && !spelling(v))
        return err_set(e, "tokenizer_config.json: added_tokens_decoder: %.20s has no content", key);
    return 0;
}

/* Tokens of added_tokens_decoder or of added_tokens.json, by their numbers. */
static int add_numbered(struct tokenizer *t, const struct tok_side *s, struct err *e)
{
    json_t *all = (json_t *)(uintptr_t)decoder_of(s), *v;
    int decoder = all != NULL, rc = 0;
    const char *key;
    if (!all) all = s->added;
    if (decoder && !json_is_object(all))
        return err_set(e, "tokenizer_config.json: added_tokens_decoder is not an object");
    struct numbered *list = malloc((json_object_size(all) + 1) * sizeof *list);
    size_t n = 0;
    if (!list) return err_memory(e);
    json_object_foreach (all, key, v)
        if (!rc) rc = read_numbered(&list[n++], key, v, decoder, e);
    if (!rc && n) qsort(list, n, sizeof *list, by_number);
    for (size_t i = 0; i < n && !rc; i++) {
        json_t *text = decoder ? json_incref(list[i].v) : json_string(list[i].text);
        if (!text) rc = err_memory(e);
        else if (decoder) rc = add(t, s, text, 0, e) ? 0 : -1;
        else rc = add(t, s, text, is_named(s, text), e) ? 0 : -1;
        json_decref(text);
    }
    free(list);
    return rc;
}

int tok_side_tokens(struct tokenizer *t, const struct tok_side *s, struct err *e)
{
    return add_numbered(t, s, e) || add_names(t, s, e) ? -1 : 0;
}

/* The end token of classes of transformers that have one without being told. */
static const char *default_eos(const struct tok_side *s)
{
    static const char *const classes[][2] = {{"LlamaTokenizer", "</s>"},
                                             {"CodeLlamaTokenizer", "</s>"},
                                             {"GemmaTokenizer", "<eos>"},
                                             {"GPT2Tokenizer", "<|endoftext|>"},
                                             {"Qwen2Tokenizer", "<|endoftext|>"}};
    const char *class = json_string_value(json_object_get(s->config, "tokenizer_class"));
    size_t n = class ? strlen(class) : 0;
    if (n > 4 && !strcmp(class + n - 4, "Fast")) n -= 4;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (n == strlen(classes[i][0]) && !memcmp(class, classes[i][0], n)) return classes[i][1];
    return NULL;
}

void tok_side_ends(struct tokenizer *t, const struct tok_side *s)
{
    int of_map;
    for (int k = 0; k < 2; k++) {
        int32_t *id = k ? &t->eos : &t->bos;
        const json_t *v = spelling(named(s, k ? "eos_token" : "bos_token", &of_map));
        const char *text = json_string_value(v);
        if (!text && k && *id < 0 && !json_object_get(s->config, "eos_token"))
            text = default_eos(s);
        if (!text) continue;
        size_t n = v ? json_string_length(v) : strlen(text);
        const struct tok_added *a = tok_added_by_text(&t->added, text, n);
        *id = a ? a->id : tok_bpe_find(&t->bpe, text, n);
    }
}
