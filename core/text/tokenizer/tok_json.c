/* tok_json.c: reader of tokenizer.json. Owns: the names of the kinds of steps, and the fast path
 * for the vocabulary and the merges: these hundreds of thousands of strings are read in place, the
 * rest through jansson. Must not know: how steps and merges work. */
#include "core/base/json.h"
#include "core/text/tokenizer/tok_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* In-place reading of the two large members. */

struct span {
    const char *at, *end; /* a JSON value in the file; at NULL: missing */
    size_t commas;        /* at its top level */
};

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

/* Skips the string at p, its opening quote. Returns the end behind the closing one, or NULL. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end; p++) {
        if (*p == '\\') p++;
        else if (*p == '"') return p + 1;
    }
    return NULL;
}

/* Skips any value without checking its contents; jansson or read_vocab does. */
static const char *skip_value(const char *p, const char *end, size_t *commas)
{
    size_t depth = 0;
    *commas = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = skip_string(p, end);
            if (!p) return NULL;
            if (!depth) return p;
            continue;
        }
        if (c == '{' || c == '[') depth++;
        else if (c == '}' || c == ']') {
            if (!depth) return p;
            if (--depth == 0) return p + 1;
        } else if (c == ',') {
            if (!depth) return p;
            *commas += depth == 1;
        }
        p++;
    }
    return depth ? NULL : p;
}

/* The value of a member of the object at p. A key spelled with escapes is not found. */
static struct span find_member(const char *p, const char *end, const char *key)
{
    struct span s = {0}, none = {0};
    size_t n = strlen(key), commas;
    p = skip_space(p, end);
    if (p >= end || *p != '{') return none;
    for (p = skip_space(p + 1, end); p < end && *p == '"'; p = skip_space(p + 1, end)) {
        const char *name = p + 1;
        p = skip_string(p, end);
        if (!p) return none;
        int hit = (size_t)(p - 1 - name) == n && !memcmp(name, key, n);
        p = skip_space(p, end);
        if (p >= end || *p != ':') return none;
        const char *at = skip_space(p + 1, end);
        p = skip_value(at, end, &commas);
        if (!p) return none;
        if (hit) s = (struct span){at, p, commas};
        p = skip_space(p, end);
        if (p >= end || *p != ',') break;
    }
    return s;
}

static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Appends the string at *p with its escapes resolved. */
static int unescape(const char *p, const char *end, struct tok_buf *out, struct err *e)
{
    if (tok_buf_room(out, (size_t)(end - p) + 4, e))
        return -1; /* no escape is shorter than its meaning */
    while (p < end) {
        if (*p != '\\') {
            out->p[out->n++] = *p++;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *k = end - p >= 2 && p[1] ? strchr(from, p[1]) : NULL;
        if (k) {
            out->p[out->n++] = to[k - from];
            p += 2;
            continue;
        }
        int u = end - p >= 6 && p[1] == 'u' ? hex4(p + 2) : -1;
        if (u < 0) return err_set(e, "a bad escape in a string");
        p += 6;
        if (u >= 0xd800 && u < 0xe000) {
            int v = u < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : -1;
            if (v < 0xdc00 || v >= 0xe000) return err_set(e, "half a surrogate pair in a string");
            p += 6;
            u = 0x10000 + ((u - 0xd800) << 10) + (v - 0xdc00);
        }
        out->n += tok_utf8_put(out->p + out->n, (uint32_t)u);
    }
    return 0;
}

struct text {
    const char *s; /* [n] in the file; NULL: in a buffer at offset off */
    size_t off, n;
};

/* Reads the string at *p; one with escapes is copied to the end of buf. */
static int read_string(const char **p, const char *end, struct tok_buf *buf, struct text *t,
                       struct err *e)
{
    const char *q = skip_space(*p, end), *from = q + 1;
    if (q >= end || *q != '"') return err_set(e, "a string is missing");
    int escapes = 0;
    for (q = from; q < end && *q != '"'; q++) {
        if ((unsigned char)*q < 0x20) return err_set(e, "a control character in a string");
        if (*q == '\\') {
            escapes = 1;
            q++;
        }
    }
    if (q >= end) return err_set(e, "a string without its end");
    *p = q + 1;
    *t = (struct text){from, 0, (size_t)(q - from)};
    if (!escapes) return 0;
    *t = (struct text){NULL, buf->n, 0};
    if (unescape(from, q, buf, e)) return -1;
    t->n = buf->n - t->off;
    return 0;
}

static const char *text_at(const struct text *t, const struct tok_buf *buf)
{
    return t->s ? t->s : buf->p + t->off;
}

struct entry {
    struct text t;
    int32_t id;
};

static int read_vocab(struct tok_bpe *b, struct span v, struct err *e)
{
    struct tok_buf buf = {0};
    size_t n = 0, cap = v.commas + 1, bytes = 0;
    int32_t top = -1;
    int rc = -1;
    struct entry *a = malloc(cap * sizeof *a);
    if (!a) return err_memory_for(e, "out of memory (a vocabulary of %zu entries)", cap);
    const char *p = v.at;
    if (*p != '{') {
        err_set(e, "\"vocab\" is not an object");
        goto fail;
    }
    p = skip_space(p + 1, v.end);
    while (p < v.end && *p != '}') {
        if (n == cap || read_string(&p, v.end, &buf, &a[n].t, e)) goto fail;
        p = skip_space(p, v.end);
        if (p >= v.end || *p != ':') break;
        p = skip_space(p + 1, v.end);
        int64_t id = 0;
        const char *digits = p;
        for (; p < v.end && *p >= '0' && *p <= '9' && id < TOK_MAX_IDS; p++)
            id = id * 10 + (*p - '0');
        if (p == digits || id >= TOK_MAX_IDS ||
            (p < v.end && (*p == '.' || *p == 'e' || *p == 'E'))) {
            err_set(e, "the id of \"%.*s\" is not an integer below %d",
                    (int)(a[n].t.n < 60 ? a[n].t.n : 60), text_at(&a[n].t, &buf), TOK_MAX_IDS);
            goto fail;
        }
        a[n].id = (int32_t)id;
        if (a[n].id > top) top = a[n].id;
        bytes += a[n++].t.n;
        p = skip_space(p, v.end);
        if (p >= v.end || *p != ',') break;
        p = skip_space(p + 1, v.end);
        if (p < v.end && *p == '}') break;
    }
    if (p + 1 != v.end || *p != '}' || v.end[-2] == ',') {
        err_set(e, "\"vocab\" is damaged after %zu entries", n);
        goto fail;
    }
    if (tok_bpe_init(b, top + 1, n, e) || tok_buf_room(&b->arena, bytes + 64, e)) goto fail;
    for (size_t i = 0; i < n; i++)
        if (tok_bpe_add(b, text_at(&a[i].t, &buf), a[i].t.n, a[i].id, e)) goto fail;
    rc = 0;
fail:
    free(a);
    tok_buf_free(&buf);
    return rc;
}

/* Reads a merge at *p: "a b", or ["a", "b"]. */
static int read_merge(struct tok_bpe *b, const char **p, const char *end, uint32_t rank,
                      struct tok_buf *buf, struct err *e)
{
    struct text l, r;
    buf->n = 0;
    if (**p == '"') {
        if (read_string(p, end, buf, &l, e)) return -1;
        const char *s = text_at(&l, buf), *sp = memchr(s, ' ', l.n);
        if (!sp || memchr(sp + 1, ' ', l.n - (size_t)(sp + 1 - s)))
            return err_set(e, "merge %u, \"%.*s\", is not two tokens", rank,
                           (int)(l.n < 60 ? l.n : 60), s);
        return tok_bpe_add_merge(b, s, (size_t)(sp - s), sp + 1, l.n - (size_t)(sp + 1 - s), rank,
                                 e);
    }
    if (**p != '[') return err_set(e, "merge %u is neither a string nor a pair", rank);
    ++*p;
    if (read_string(p, end, buf, &l, e)) return -1;
    *p = skip_space(*p, end);
    if (*p >= end || **p != ',') return err_set(e, "merge %u is not a pair", rank);
    ++*p;
    if (read_string(p, end, buf, &r, e)) return -1;
    *p = skip_space(*p, end);
    if (*p >= end || **p != ']') return err_set(e, "merge %u is not a pair", rank);
    ++*p;
    return tok_bpe_add_merge(b, text_at(&l, buf), l.n, text_at(&r, buf), r.n, rank, e);
}

static int read_merges(struct tok_bpe *b, struct span m, struct err *e)
{
    struct tok_buf buf = {0};
    uint32_t rank = 0;
    int rc = -1;
    if (*m.at != '[') return err_set(e, "\"merges\" is not an array");
    if (m.commas >= UINT32_MAX - 1) return err_set(e, "\"merges\" is too large");
    if (tok_bpe_init_merges(b, m.commas + 1, e)) return -1;
    const char *p = skip_space(m.at + 1, m.end);
    while (p < m.end && *p != ']') {
        if (rank > m.commas || read_merge(b, &p, m.end, rank, &buf, e)) goto fail;
        rank++;
        p = skip_space(p, m.end);
        if (p >= m.end || *p != ',') break;
        p = skip_space(p + 1, m.end);
        if (p < m.end && *p == ']') break;
    }
    if (p + 1 != m.end || *p != ']') {
        err_set(e, "\"merges\" is damaged after %u entries", rank);
        goto fail;
    }
    rc = 0;
fail:
    tok_buf_free(&buf);
    return rc;
}

/* The rest, through jansson. */

/* Integers are read as reals: some configs write out 1e30, which is an error otherwise. */
#define LOAD_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL)

/* An integer from 0 to top, or -1. */
static int32_t get_int(const json_t *j, int32_t top)
{
    double v = json_number_value(j);
    return json_is_number(j) && v >= 0 && v <= top && v == (int32_t)v ? (int32_t)v : -1;
}

static const char *type_of(const json_t *j)
{
    const char *s = json_string_value(json_object_get(j, "type"));
    return s ? s : "(no type)";
}

/* A boolean member, `absent` if it is missing or null, -1 if it is something else. */
static int get_bool(const json_t *j, const char *key, int absent, struct err *e)
{
    const json_t *v = json_object_get(j, key);
    if (!v || json_is_null(v)) return absent;
    if (!json_is_boolean(v)) return err_set(e, "%s: \"%s\" is not true or false", type_of(j), key);
    return json_is_true(v);
}

/* A string member; it may contain NULs. */
static const char *get_string(const json_t *j, const char *key, size_t *n, struct err *e)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_string(v)) {
        err_set(e, "%s: \"%s\" is not a string", type_of(j), key);
        return NULL;
    }
    *n = json_string_length(v);
    return json_string_value(v);
}

/* Reads a member of exactly one character into the step. */
static int get_char(struct tok_step *s, const json_t *j, const char *key, struct err *e)
{
    size_t n, len;
    const char *c = get_string(j, key, &n, e);
    if (!c) return -1;
    if (!n || tok_utf8_next((const unsigned char *)c, n, &len) < 0 || len != n)
        return err_set(e, "%s: \"%s\" is not one character", type_of(j), key);
    return tok_step_set_str(s, c, n, e);
}

static int get_pattern(struct tok_step *s, const json_t *j, struct err *e)
{
    const json_t *p = json_object_get(j, "pattern"), *v;
    if ((v = json_object_get(p, "Regex")) && json_is_string(v))
        return tok_pattern_regex(&s->pat, json_string_value(v), json_string_length(v), e);
    if ((v = json_object_get(p, "String")) && json_is_string(v))
        return tok_pattern_string(&s->pat, json_string_value(v), json_string_length(v), e);
    return err_set(e, "%s: no Regex or String pattern", type_of(j));
}

/* Calls `one` for every step inside nested Sequence objects. */
typedef int read_step(struct tokenizer *t, const json_t *j, struct err *e);

static int each_step(struct tokenizer *t, const json_t *j, const char *member, read_step *one,
                     int depth, struct err *e)
{
    if (!j || json_is_null(j)) return 0;
    if (!json_is_object(j)) return err_set(e, "not an object");
    if (strcmp(type_of(j), "Sequence")) return one(t, j, e);
    const json_t *a = json_object_get(j, member);
    if (!json_is_array(a) || depth > 8)
        return err_set(e, "Sequence: \"%s\" is not an array, or too deep", member);
    for (size_t i = 0; i < json_array_size(a); i++)
        if (each_step(t, json_array_get(a, i), member, one, depth + 1, e)) return -1;
    return 0;
}

static int read_normalizer(struct tokenizer *t, const json_t *j, struct err *e)
{
    static const struct {
        const char *name;
        enum tok_op op;
    } names[] = {{"Prepend", TOK_NORM_PREPEND},
                 {"Replace", TOK_NORM_REPLACE},
                 {"NFC", TOK_NORM_NFC},
                 {"NFD", TOK_NORM_NFD},
                 {"NFKC", TOK_NORM_NFKC},
                 {"NFKD", TOK_NORM_NFKD},
                 {"Lowercase", TOK_NORM_LOWERCASE},
                 {"Strip", TOK_NORM_STRIP}};
    const char *type = type_of(j), *str;
    size_t i = 0, n;
    while (i < sizeof names / sizeof names[0] && strcmp(names[i].name, type)) i++;
    if (i == sizeof names / sizeof names[0]) return err_set(e, "%s is not supported", type);
    struct tok_step *s = tok_steps_add(&t->norm, names[i].op, e);
    if (!s) return -1;
    switch (s->op) {
    case TOK_NORM_PREPEND:
        return (str = get_string(j, "prepend", &n, e)) ? tok_step_set_str(s, str, n, e) : -1;
    case TOK_NORM_REPLACE:
        if (get_pattern(s, j, e)) return -1;
        return (str = get_string(j, "content", &n, e)) ? tok_step_set_str(s, str, n, e) : -1;
    case TOK_NORM_STRIP:
        s->left = get_bool(j, "strip_left", 0, e);
        s->right = get_bool(j, "strip_right", 0, e);
        return s->left < 0 || s->right < 0 ? -1 : 0;
    default: return 0;
    }
}

/* Reads replacement and scheme of Metaspace, as pre-tokenizer and as decoder. */
static int read_metaspace(struct tok_step *s, const json_t *j, struct err *e)
{
    const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
    s->scheme = !scheme || !strcmp(scheme, "always") ? TOK_SCHEME_ALWAYS
                : !strcmp(scheme, "first")           ? TOK_SCHEME_FIRST
                                                     : TOK_SCHEME_NEVER;
    if (scheme && s->scheme == TOK_SCHEME_NEVER && strcmp(scheme, "never"))
        return err_set(e, "Metaspace: prepend_scheme \"%.40s\"", scheme);
    int prefix = get_bool(j, "add_prefix_space", -2, e);
    if (prefix == -1) return -1;
    if (prefix == 0) {
        if (scheme && s->scheme != TOK_SCHEME_NEVER)
            return err_set(e, "Metaspace: add_prefix_space and prepend_scheme disagree");
        s->scheme = TOK_SCHEME_NEVER;
    }
    s->split = get_bool(j, "split", 1, e);
    return s->split < 0 ? -1 : get_char(s, j, "replacement", e);
}

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int read_pre_tokenizer(struct tokenizer *t, const json_t *j, struct err *e)
{
    const char *type = type_of(j);
    struct tok_step *s;
    if (!strcmp(type, "Split")) {
        static const char *const names[] = {[TOK_SPLIT_ISOLATED] = "Isolated",
                                            [TOK_SPLIT_REMOVED] = "Removed",
                                            [TOK_SPLIT_PREVIOUS] = "MergedWithPrevious",
                                            [TOK_SPLIT_NEXT] = "MergedWithNext",
                                            [TOK_SPLIT_CONTIGUOUS] = "Contiguous"};
        const char *b = json_string_value(json_object_get(j, "behavior"));
        if (!(s = tok_steps_add(&t->pre, TOK_PRE_SPLIT, e)) || get_pattern(s, j, e)) return -1;
        int k = 0;
        while (k < 5 && (!b || strcmp(b, names[k]))) k++;
        if (k == 5)
            return err_set(e, "Split: behavior \"%.40s\" is not supported", b ? b : "(none)");
        s->behavior = (enum tok_split)k;
        s->invert = get_bool(j, "invert", 0, e);
        return s->invert < 0 ? -1 : 0;
    }
    if (!strcmp(type, "ByteLevel")) {
        if (!(s = tok_steps_add(&t->pre, TOK_PRE_BYTE_LEVEL, e))) return -1;
        s->prefix_space = get_bool(j, "add_prefix_space", 1, e);
        int regex = get_bool(j, "use_regex", 1, e);
        if (s->prefix_space < 0 || regex < 0) return -1;
        return regex ? tok_pattern_regex(&s->pat, gpt2_pattern, sizeof gpt2_pattern - 1, e) : 0;
    }
    if (!strcmp(type, "Digits")) {
        if (!(s = tok_steps_add(&t->pre, TOK_PRE_DIGITS, e))) return -1;
        s->individual = get_bool(j, "individual_digits", 0, e);
        return s->individual < 0 ? -1 : 0;
    }
    if (!strcmp(type, "Metaspace"))
        return (s = tok_steps_add(&t->pre, TOK_PRE_METASPACE, e)) ? read_metaspace(s, j, e) : -1;
    return err_set(e, "%s is not supported", type);
}

static int read_decoder(struct tokenizer *t, const json_t *j, struct err *e)
{
    const char *type = type_of(j), *str;
    struct tok_step *s;
    size_t n;
    if (!strcmp(type, "ByteLevel")) return tok_steps_add(&t->dec, TOK_DEC_BYTE_LEVEL, e) ? 0 : -1;
    if (!strcmp(type, "ByteFallback"))
        return tok_steps_add(&t->dec, TOK_DEC_BYTE_FALLBACK, e) ? 0 : -1;
    if (!strcmp(type, "Fuse")) return tok_steps_add(&t->dec, TOK_DEC_FUSE, e) ? 0 : -1;
    if (!strcmp(type, "Metaspace"))
        return (s = tok_steps_add(&t->dec, TOK_DEC_METASPACE, e)) ? read_metaspace(s, j, e) : -1;
    if (!strcmp(type, "Replace")) {
        if (!(s = tok_steps_add(&t->dec, TOK_DEC_REPLACE, e)) || get_pattern(s, j, e)) return -1;
        return (str = get_string(j, "content", &n, e)) ? tok_step_set_str(s, str, n, e) : -1;
    }
    if (!strcmp(type, "Strip")) {
        if (!(s = tok_steps_add(&t->dec, TOK_DEC_STRIP, e)) || get_char(s, j, "content", e))
            return -1;
        s->left = get_int(json_object_get(j, "start"), 1000);
        s->right = get_int(json_object_get(j, "stop"), 1000);
        if (s->left < 0 || s->right < 0)
            return err_set(e, "Strip: \"start\" or \"stop\" out of range");
        return 0;
    }
    return err_set(e, "%s is not supported", type);
}

/* Wraps the ids in t->around with the template's. */
static int read_template(struct tokenizer *t, const json_t *j, struct err *e)
{
    const json_t *single = json_object_get(j, "single"),
                 *tokens = json_object_get(j, "special_tokens");
    struct tok_ids out = {0};
    if (!json_is_array(single)) return err_set(e, "TemplateProcessing: \"single\" is not an array");
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i), *q;
        if ((q = json_object_get(piece, "Sequence"))) {
            const char *id = json_string_value(json_object_get(q, "id"));
            if (!id || strcmp(id, "A")) {
                err_set(e, "TemplateProcessing: \"single\" has a sequence other than A");
                goto fail;
            }
            if (out.n + t->n_around > 1024) goto large;
            for (size_t k = 0; k < t->n_around; k++)
                if (tok_ids_push(&out, t->around[k], e)) goto fail;
            continue;
        }
        const char *name =
            json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        if (!json_is_array(ids)) {
            err_set(e, "TemplateProcessing: the token \"%.60s\" has no ids",
                    name ? name : "(none)");
            goto fail;
        }
        for (size_t k = 0; k < json_array_size(ids); k++) {
            int32_t id = get_int(json_array_get(ids, k), TOK_MAX_IDS);
            if (id < 0) {
                err_set(e, "TemplateProcessing: a bad id for \"%.60s\"", name);
                goto fail;
            }
            if (out.n > 1024) goto large;
            if (tok_ids_push(&out, id, e)) goto fail;
        }
    }
    free(t->around);
    t->around = out.id;
    t->n_around = out.n;
    return 0;
large:
    err_set(e, "TemplateProcessing: more than 1024 ids");
fail:
    tok_ids_free(&out);
    return -1;
}

static int read_post_processor(struct tokenizer *t, const json_t *j, struct err *e)
{
    const char *type = type_of(j);
    if (!strcmp(type, "ByteLevel")) return 0; /* affects offsets only */
    if (!strcmp(type, "TemplateProcessing")) return read_template(t, j, e);
    return err_set(e, "%s is not supported", type);
}

static int read_added(struct tokenizer *t, const json_t *a, struct err *e)
{
    if (!a || json_is_null(a)) return 0;
    if (!json_is_array(a)) return err_set(e, "\"added_tokens\" is not an array");
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *j = json_array_get(a, i), *c = json_object_get(j, "content");
        if (!json_is_string(c)) return err_set(e, "added token %zu has no content", i);
        struct tok_added *x = tok_added_new(t, json_string_value(c), json_string_length(c), e);
        if (!x) return -1;
        x->special = get_bool(j, "special", 0, e);
        x->normalized = get_bool(j, "normalized", !x->special, e);
        x->lstrip = get_bool(j, "lstrip", 0, e);
        x->rstrip = get_bool(j, "rstrip", 0, e);
        x->single_word = get_bool(j, "single_word", 0, e);
        if (x->special < 0 || x->normalized < 0 || x->lstrip < 0 || x->rstrip < 0 ||
            x->single_word < 0)
            return err_prefix(e, "added token %zu", i);
    }
    return 0;
}

static int read_model(struct tokenizer *t, const json_t *m, struct span vocab, struct span merges,
                      struct err *e)
{
    struct tok_bpe *b = &t->bpe;
    const json_t *v;
    const char *type = json_string_value(json_object_get(m, "type"));
    if (type && strcmp(type, "BPE")) return err_set(e, "%.40s is not supported, only BPE", type);
    if (!json_is_object(m) || !vocab.at || !merges.at)
        return err_set(e, "not a BPE model: vocab or merges missing");
    v = json_object_get(m, "dropout");
    if (v && !json_is_null(v) && json_number_value(v) != 0.0)
        return err_set(e, "dropout is not supported");
    static const char *const affix[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++)
        if (json_string_length(json_object_get(m, affix[i])))
            return err_set(e, "%s is not supported", affix[i]);
    b->byte_fallback = get_bool(m, "byte_fallback", 0, e);
    b->fuse_unk = get_bool(m, "fuse_unk", 0, e);
    b->ignore_merges = get_bool(m, "ignore_merges", 0, e);
    if (b->byte_fallback < 0 || b->fuse_unk < 0 || b->ignore_merges < 0) return -1;
    if (read_vocab(b, vocab, e) || read_merges(b, merges, e)) return -1;
    v = json_object_get(m, "unk_token");
    b->unk = -1;
    if (json_is_string(v)) {
        b->unk = tok_bpe_find(b, json_string_value(v), json_string_length(v));
        if (b->unk < 0) b->unk = -2;
    }
    return tok_bpe_finish(b, e);
}

/* Parses the file without the two large values. */
static json_t *load_rest(const struct tok_source *src, struct span vocab, struct span merges,
                         struct err *e)
{
    const char *p = src->json, *end = p + src->json_bytes;
    struct span cuts[2] = {vocab, merges};
    struct tok_buf b = {0};
    json_t *root = NULL;
    if (vocab.at && merges.at && merges.at < vocab.at) {
        cuts[0] = merges;
        cuts[1] = vocab;
    }
    for (int i = 0; i < 2; i++) {
        if (!cuts[i].at) continue;
        if (tok_buf_add(&b, p, (size_t)(cuts[i].at - p), e) || tok_buf_add(&b, "null", 4, e))
            goto fail;
        p = cuts[i].end;
    }
    if (tok_buf_add(&b, p, (size_t)(end - p), e)) goto fail;
    root = json_read(b.p, b.n, LOAD_FLAGS, NULL, e);
fail:
    tok_buf_free(&b);
    return root;
}

int tok_json_read(struct tokenizer *t, const struct tok_source *src, struct err *e)
{
    const char *p = src->json, *end = p + src->json_bytes;
    struct span model = {0}, vocab = {0}, merges = {0};
    int rc = -1;
    if (tok_utf8_valid(p, src->json_bytes) != src->json_bytes) return err_set(e, "not UTF-8");
    model = find_member(p, end, "model");
    if (model.at) {
        vocab = find_member(model.at, model.end, "vocab");
        merges = find_member(model.at, model.end, "merges");
    }
    json_t *root = load_rest(src, vocab, merges, e);
    if (!root) return -1;
    if (!json_is_object(root)) {
        err_set(e, "not an object");
        goto fail;
    }
    if (each_step(t, json_object_get(root, "normalizer"), "normalizers", read_normalizer, 0, e)) {
        err_prefix(e, "normalizer");
        goto fail;
    }
    if (each_step(t, json_object_get(root, "pre_tokenizer"), "pretokenizers", read_pre_tokenizer, 0,
                  e)) {
        err_prefix(e, "pre_tokenizer");
        goto fail;
    }
    /* With the byte-level step last, the model encodes the bytes directly. */
    if (t->pre.n && t->pre.s[t->pre.n - 1].op == TOK_PRE_BYTE_LEVEL)
        t->pre.s[t->pre.n - 1].as_bytes = t->bpe.byte_level = 1;
    if (each_step(t, json_object_get(root, "decoder"), "decoders", read_decoder, 0, e)) {
        err_prefix(e, "decoder");
        goto fail;
    }
    const json_t *dec = json_object_get(root, "decoder");
    if ((!dec || json_is_null(dec)) && !tok_steps_add(&t->dec, TOK_DEC_JOIN, e)) goto fail;
    if (each_step(t, json_object_get(root, "post_processor"), "processors", read_post_processor, 0,
                  e)) {
        err_prefix(e, "post_processor");
        goto fail;
    }
    if (read_model(t, json_object_get(root, "model"), vocab, merges, e)) {
        err_prefix(e, "model");
        goto fail;
    }
    rc = read_added(t, json_object_get(root, "added_tokens"), e);
fail:
    json_decref(root);
    return rc;
}
