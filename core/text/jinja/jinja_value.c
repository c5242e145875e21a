/* jinja_value.c: a template's values as Python has them: memory, construction, queries, comparison,
 * iteration. */
#include "core/text/jinja/jinja_internal.h"

#include "core/base/json_long.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

enum { BLOCK_BYTES = 32 << 10 };

struct jinja_block {
    struct jinja_block *older;
    size_t size, used;
    _Alignas(16) char bytes[];
};

void *jinja_arena_get(struct jinja_arena *a, size_t n)
{
    struct jinja_block *b = a->block;
    if (n > (size_t)1 << 40) {
        a->full = 1;
        return NULL;
    }
    n = (n + 7) & ~(size_t)7;
    if (!b || b->size - b->used < n) {
        size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
        if (a->limit && size > a->limit - a->used) {
            a->full = 1;
            return NULL;
        }
        b = calloc(1, sizeof *b + size);
        if (!b) return NULL;
        b->older = a->block;
        b->size = size;
        a->block = b;
        a->used += size;
    }
    void *p = b->bytes + b->used;
    b->used += n;
    return p;
}

void jinja_arena_free(struct jinja_arena *a)
{
    while (a->block) {
        struct jinja_block *b = a->block;
        a->block = b->older;
        free(b);
    }
    a->used = 0;
}

void *jinja_get(struct jinja_run *r, size_t n)
{
    void *p = jinja_arena_get(&r->arena, n);
    if (!p && r->arena.full)
        jinja_fail(r, "the template wants more than %d MiB", JINJA_MAX_MEMORY >> 20);
    else if (!p) err_memory(r->e);
    return p;
}

/* ---- errors and bounds ---- */

int jinja_fail(struct jinja_run *r, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(r->e, "line %d: %s", r->line, text);
}

const char *jinja_type_name(struct jinja_value v)
{
    static const char *const names[] = {"",          "Undefined", "NoneType", "bool",       "int",
                                        "float",     "int",       "str",      "list",       "tuple",
                                        "dict_view", "generator", "dict",     "Namespace",  "range",
                                        "Macro",     "function",  "method",   "LoopContext"};
    return names[v.type];
}

int jinja_fail_undefined(struct jinja_run *r, struct jinja_value v)
{
    int n = v.n > 120 ? 120 : (int)v.n;
    struct jinja_value of = {.type = v.of};
    if (v.flag == JINJA_HINT) return jinja_fail(r, "%.*s", n, v.s);
    if (v.flag == JINJA_NO_NAME) return jinja_fail(r, "'%.*s' is undefined", n, v.s);
    if (v.flag == JINJA_UNSAFE)
        return jinja_fail(r, "access to attribute '%.*s' of '%s' object is unsafe.", n, v.s,
                          jinja_type_name(of));
    if (v.of == JINJA_NONE) return jinja_fail(r, "'None' has no attribute '%.*s'", n, v.s);
    return jinja_fail(r, "'%s object' has no attribute '%.*s'", jinja_type_name(of), n, v.s);
}

int jinja_steps(struct jinja_run *r, size_t n)
{
    r->steps += n;
    return r->steps > JINJA_MAX_STEPS
               ? jinja_fail(r, "the template does not come to an end within %d steps",
                            JINJA_MAX_STEPS)
               : 0;
}

int jinja_enter(struct jinja_run *r)
{
    if (++r->depth <= JINJA_MAX_DEPTH) return 0;
    r->depth--;
    return jinja_fail(r, "more than %d evaluations within each other", JINJA_MAX_DEPTH);
}

/* ---- making ---- */

struct jinja_value jinja_none(void) { return (struct jinja_value){.type = JINJA_NONE}; }
struct jinja_value jinja_bool(int b)
{
    return (struct jinja_value){.type = JINJA_BOOL, .i = b != 0};
}
struct jinja_value jinja_int(int64_t i) { return (struct jinja_value){.type = JINJA_INT, .i = i}; }
struct jinja_value jinja_float(double f)
{
    return (struct jinja_value){.type = JINJA_FLOAT, .f = f};
}
struct jinja_value jinja_bytes(const char *s, size_t n)
{
    return (struct jinja_value){.type = JINJA_STRING, .s = s, .n = n};
}
struct jinja_value jinja_static(const char *s) { return jinja_bytes(s, strlen(s)); }

struct jinja_value jinja_undefined(enum jinja_undefined how, struct jinja_value of, const char *s,
                                   size_t n)
{
    return (struct jinja_value){
        .type = JINJA_UNDEFINED, .flag = (uint8_t)how, .of = of.type, .s = s, .n = n};
}

int jinja_string(struct jinja_run *r, const char *s, size_t n, struct jinja_value *out)
{
    char *p = jinja_get(r, n);
    if (!p) return -1;
    if (n) memcpy(p, s, n);
    *out = jinja_bytes(p, n);
    return 0;
}

int jinja_list(struct jinja_run *r, enum jinja_type type, size_t cap, struct jinja_value *out)
{
    struct jinja_list *l = jinja_get(r, sizeof *l);
    if (!l || !(l->item = jinja_get(r, cap * sizeof *l->item))) return -1;
    l->cap = cap;
    *out = (struct jinja_value){.type = (uint8_t)type, .list = l};
    return 0;
}

int jinja_push(struct jinja_run *r, struct jinja_list *l, struct jinja_value v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 8;
        struct jinja_value *grown = jinja_get(r, cap * sizeof *grown);
        if (!grown) return -1;
        if (l->n) memcpy(grown, l->item, l->n * sizeof *grown);
        l->item = grown;
        l->cap = cap;
    }
    l->item[l->n++] = v;
    return 0;
}

/* ---- dicts: pairs in the order of insertion ---- */

/* Dicts of fewer keys are searched from the begin. */
enum { INDEXED_FROM = 16 };

int jinja_dict(struct jinja_run *r, enum jinja_type type, size_t cap, struct jinja_value *out)
{
    struct jinja_dict *d = jinja_get(r, sizeof *d);
    if (!d || !(d->pair = jinja_get(r, cap * sizeof *d->pair))) return -1;
    d->cap = cap;
    *out = (struct jinja_value){.type = (uint8_t)type, .dict = d};
    return 0;
}

static int is_key(const struct jinja_value *k, const char *s, size_t n)
{
    return k->type == JINJA_STRING && k->n == n && !memcmp(k->s, s, n);
}

uint64_t jinja_hash(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3;
    return h ^ h >> 32;
}

/* The slot of the key S [n], or the free one where it would be: linear probing. A slot is the
 * number of a pair plus one. */
static uint32_t *slot_of(const struct jinja_dict *d, const char *s, size_t n)
{
    size_t at = (size_t)jinja_hash(s, n) & (d->n_slots - 1);
    while (d->slot[at] && !is_key(&d->pair[d->slot[at] - 1].key, s, n))
        at = (at + 1) & (d->n_slots - 1);
    return &d->slot[at];
}

/* Pairs are only ever appended: the index takes in those that came since. */
static int index_keys(struct jinja_run *r, struct jinja_dict *d)
{
    if (2 * d->n > d->n_slots) {
        size_t n_slots = 4 * INDEXED_FROM;
        while (n_slots < 4 * d->n) n_slots *= 2;
        if (!(d->slot = jinja_get(r, n_slots * sizeof *d->slot))) return -1; /* zeros */
        d->n_slots = n_slots;
        d->n_indexed = 0;
    }
    if (jinja_steps(r, (d->n - d->n_indexed) / 8)) return -1;
    for (; d->n_indexed < d->n; d->n_indexed++) {
        const struct jinja_value *k = &d->pair[d->n_indexed].key;
        if (k->type != JINJA_STRING) continue;
        uint32_t *slot = slot_of(d, k->s, k->n);
        if (!*slot) *slot = (uint32_t)d->n_indexed + 1;
    }
    return 0;
}

/* 1 and *at: the pair with the key S [n]; 0: there is none. */
static int find_text(struct jinja_run *r, struct jinja_dict *d, const char *s, size_t n, size_t *at)
{
    if (d->n >= INDEXED_FROM) {
        if (index_keys(r, d)) return -1;
        uint32_t slot = *slot_of(d, s, n);
        *at = slot ? slot - 1 : d->n;
        return slot != 0;
    }
    for (*at = 0; *at < d->n; ++*at)
        if (is_key(&d->pair[*at].key, s, n)) return 1;
    return 0;
}

int jinja_dict_find_text(struct jinja_run *r, struct jinja_dict *d, const char *s, size_t n,
                         struct jinja_value *v)
{
    size_t at;
    int found = find_text(r, d, s, n, &at);
    if (found > 0) *v = d->pair[at].value;
    return found;
}

/* A tuple is as hashable as what it holds. */
static int check_hashable(struct jinja_run *r, struct jinja_value key)
{
    if (key.type == JINJA_LIST || key.type == JINJA_DICT)
        return jinja_fail(r, "unhashable type: '%s'", jinja_type_name(key));
    if (key.type != JINJA_TUPLE) return 0;
    if (jinja_enter(r) || jinja_steps(r, key.list->n)) return -1;
    for (size_t i = 0; i < key.list->n; i++)
        if (check_hashable(r, key.list->item[i])) return -1;
    r->depth--;
    return 0;
}

/* No other type has a value that equals a string. */
static int find_pair(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key, size_t *at)
{
    if (check_hashable(r, key)) return -1;
    if (key.type == JINJA_STRING) return find_text(r, d, key.s, key.n, at);
    if (jinja_steps(r, d->n / 8)) return -1;
    for (*at = 0; *at < d->n; ++*at) {
        int same = jinja_equal(r, d->pair[*at].key, key);
        if (same) return same;
    }
    return 0;
}

int jinja_dict_find(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value *v)
{
    size_t at;
    int found = find_pair(r, d, key, &at);
    if (found > 0) *v = d->pair[at].value;
    return found;
}

int jinja_dict_set(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                   struct jinja_value v)
{
    size_t at;
    int found = find_pair(r, d, key, &at);
    if (found < 0) return -1;
    if (found) {
        d->pair[at].value = v;
        return 0;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 8;
        struct jinja_pair *grown = jinja_get(r, cap * sizeof *grown);
        if (!grown) return -1;
        if (d->n) memcpy(grown, d->pair, d->n * sizeof *grown);
        d->pair = grown;
        d->cap = cap;
    }
    d->pair[d->n++] = (struct jinja_pair){key, v};
    return 0;
}

/* A number that jansson does not hold (json_long.h): as Python reads it. */
static struct jinja_value long_number(const char *digits)
{
    if (strpbrk(digits, ".eE")) return jinja_float(strtod(digits, NULL));
    struct jinja_value v = jinja_bytes(digits, strlen(digits));
    v.type = JINJA_LONG;
    return v;
}

/* Strings are not copied: the document outlives the render. */
int jinja_from_json(struct jinja_run *r, const json_t *j, struct jinja_value *out)
{
    const char *key;
    json_t *item;
    size_t i;
    int rc = 0;
    switch (json_typeof(j)) {
    case JSON_NULL: *out = jinja_none(); return 0;
    case JSON_TRUE: *out = jinja_bool(1); return 0;
    case JSON_FALSE: *out = jinja_bool(0); return 0;
    case JSON_INTEGER: *out = jinja_int(json_integer_value(j)); return 0;
    case JSON_REAL: *out = jinja_float(json_real_value(j)); return 0;
    case JSON_STRING: *out = jinja_bytes(json_string_value(j), json_string_length(j)); return 0;
    case JSON_ARRAY:
        if (jinja_enter(r) || jinja_list(r, JINJA_LIST, json_array_size(j), out)) return -1;
        json_array_foreach (j, i, item) {
            struct jinja_value v;
            if ((rc = jinja_from_json(r, item, &v)) || (rc = jinja_push(r, out->list, v))) break;
        }
        r->depth--;
        return rc;
    default:
        if (json_long(j)) return *out = long_number(json_long(j)), 0;
        if (jinja_enter(r) || jinja_dict(r, JINJA_DICT, json_object_size(j), out)) return -1;
        json_object_foreach ((json_t *)(uintptr_t)j, key, item) {
            struct jinja_pair *p = &out->dict->pair[out->dict->n++];
            p->key = jinja_static(key);
            if ((rc = jinja_from_json(r, item, &p->value))) break;
        }
        r->depth--;
        return rc;
    }
}

/* ---- asking ---- */

int jinja_is_text(struct jinja_value v, const char *s)
{
    return v.type == JINJA_STRING && v.n == strlen(s) && !memcmp(v.s, s, v.n);
}
int jinja_is_number(struct jinja_value v)
{
    return v.type == JINJA_BOOL || v.type == JINJA_INT || v.type == JINJA_FLOAT;
}
double jinja_number(struct jinja_value v) { return v.type == JINJA_FLOAT ? v.f : (double)v.i; }

int jinja_truth(struct jinja_value v)
{
    switch ((enum jinja_type)v.type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return 0;
    case JINJA_BOOL:
    case JINJA_INT: return v.i != 0;
    case JINJA_FLOAT: return v.f != 0;
    case JINJA_STRING: return v.n != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW: return v.list->n != 0;
    case JINJA_DICT: return v.dict->n != 0;
    case JINJA_RANGE: return v.range->n != 0;
    default: return 1;
    }
}

int jinja_length(struct jinja_run *r, struct jinja_value v, int64_t *n)
{
    switch ((enum jinja_type)v.type) {
    case JINJA_UNDEFINED: *n = 0; return 0;
    case JINJA_STRING: *n = (int64_t)jinja_points(v.s, v.n); return jinja_steps(r, v.n / 64);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW: *n = (int64_t)v.list->n; return 0;
    case JINJA_DICT: *n = (int64_t)v.dict->n; return 0;
    case JINJA_RANGE: *n = v.range->n; return 0;
    default: return jinja_fail(r, "object of type '%s' has no len()", jinja_type_name(v));
    }
}

static int same_sequence(struct jinja_run *r, const struct jinja_list *a,
                         const struct jinja_list *b)
{
    int same = 1;
    if (a->n != b->n) return 0;
    if (a == b) return 1;
    if (jinja_enter(r) || jinja_steps(r, a->n)) return -1;
    for (size_t i = 0; i < a->n && same > 0; i++) same = jinja_equal(r, a->item[i], b->item[i]);
    r->depth--;
    return same;
}

static int same_dict(struct jinja_run *r, const struct jinja_dict *a, struct jinja_dict *b)
{
    int same = 1;
    if (a->n != b->n) return 0;
    if (a == b) return 1;
    if (jinja_enter(r) || jinja_steps(r, a->n)) return -1;
    for (size_t i = 0; i < a->n && same > 0; i++) {
        struct jinja_value v;
        same = jinja_dict_find(r, b, a->pair[i].key, &v);
        if (same > 0) same = jinja_equal(r, a->pair[i].value, v);
    }
    r->depth--;
    return same;
}

int jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    if (jinja_is_number(a) && jinja_is_number(b))
        return a.type != JINJA_FLOAT && b.type != JINJA_FLOAT ? a.i == b.i
                                                              : jinja_number(a) == jinja_number(b);
    if (a.type != b.type) return 0;
    switch ((enum jinja_type)a.type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: return 1;
    case JINJA_LONG:
    case JINJA_STRING:
        if (a.n != b.n) return 0;
        if (a.n > 64 && jinja_steps(r, a.n / 64)) return -1;
        return !memcmp(a.s, b.s, a.n);
    case JINJA_LIST:
    case JINJA_TUPLE: return same_sequence(r, a.list, b.list);
    case JINJA_DICT: return same_dict(r, a.dict, b.dict);
    case JINJA_RANGE:
        return a.range->n == b.range->n &&
               (!a.range->n || (a.range->start == b.range->start &&
                                (a.range->n == 1 || a.range->step == b.range->step)));
    default: return a.s == b.s; /* identity of the object */
    }
}

static int order(int op, int sign)
{
    return op == OP_LT ? sign < 0 : op == OP_LE ? sign <= 0 : op == OP_GT ? sign > 0 : sign >= 0;
}

int jinja_less(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int op)
{
    static const char *const text[] = {
        [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="};
    if (a.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (b.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, b);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.type != JINJA_FLOAT && b.type != JINJA_FLOAT)
            return order(op, (a.i > b.i) - (a.i < b.i));
        double x = jinja_number(a), y = jinja_number(b);
        return op == OP_LT ? x < y : op == OP_LE ? x <= y : op == OP_GT ? x > y : x >= y;
    }
    if (a.type == JINJA_STRING &&
        b.type == JINJA_STRING) { /* the order of UTF-8 bytes is that of code points */
        size_t n = a.n < b.n ? a.n : b.n;
        int sign = n ? memcmp(a.s, b.s, n) : 0;
        if (jinja_steps(r, n / 64)) return -1;
        return order(op, sign ? sign : (a.n > b.n) - (a.n < b.n));
    }
    if ((a.type == JINJA_LIST || a.type == JINJA_TUPLE) && a.type == b.type) {
        const struct jinja_list *x = a.list, *y = b.list;
        for (size_t i = 0; i < x->n && i < y->n; i++) {
            int same = jinja_equal(r, x->item[i], y->item[i]);
            if (same < 0) return -1;
            if (same) continue;
            if (jinja_enter(r)) return -1;
            same = jinja_less(r, x->item[i], y->item[i], op);
            r->depth--;
            return same;
        }
        return order(op, (x->n > y->n) - (x->n < y->n));
    }
    return jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", text[op],
                      jinja_type_name(a), jinja_type_name(b));
}

int jinja_contains(struct jinja_run *r, struct jinja_value in, struct jinja_value what)
{
    struct jinja_iter it;
    struct jinja_value v;
    int rc;
    if (in.type == JINJA_STRING) {
        if (what.type == JINJA_UNDEFINED || what.type != JINJA_STRING)
            return jinja_fail(r, "'in <string>' requires string as left operand, not %s",
                              jinja_type_name(what));
        return jinja_steps(r, in.n / 64) ? -1 : memmem(in.s, in.n, what.s, what.n) != NULL;
    }
    if (in.type == JINJA_DICT) return jinja_dict_find(r, in.dict, what, &v);
    if (in.type == JINJA_UNDEFINED) return 0;
    if (in.type < JINJA_LIST || in.type > JINJA_RANGE || in.type == JINJA_NAMESPACE)
        return jinja_fail(r, "argument of type '%s' is not iterable", jinja_type_name(in));
    if (jinja_iterate(r, in, &it)) return -1;
    while ((rc = jinja_next(r, &it, &v)) > 0) {
        if (jinja_steps(r, 1)) return -1;
        int same = jinja_equal(r, v, what);
        if (same) return same;
    }
    return rc;
}

/* ---- walking ---- */

int jinja_iterate(struct jinja_run *r, struct jinja_value v, struct jinja_iter *it)
{
    *it = (struct jinja_iter){.over = v};
    if (v.type == JINJA_UNDEFINED || v.type == JINJA_STRING ||
        (v.type >= JINJA_LIST && v.type <= JINJA_RANGE && v.type != JINJA_NAMESPACE))
        return 0;
    return jinja_fail(r, "'%s' object is not iterable", jinja_type_name(v));
}

int jinja_next(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *v)
{
    struct jinja_value o = it->over;
    size_t from = it->pos;
    (void)r;
    switch ((enum jinja_type)o.type) {
    case JINJA_STRING:
        if (it->pos >= o.n) return 0;
        jinja_point(o.s, o.n, &it->pos);
        *v = jinja_bytes(o.s + from, it->pos - from);
        return 1;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        if (it->pos >= o.list->n) return 0;
        *v = o.list->item[it->pos++];
        return 1;
    case JINJA_GENERATOR:
        if (o.list->pos >= o.list->n) return 0;
        *v = o.list->item[o.list->pos++];
        return 1;
    case JINJA_DICT:
        if (it->pos >= o.dict->n) return 0;
        *v = o.dict->pair[it->pos++].key;
        return 1;
    case JINJA_RANGE:
        if (it->pos >= (size_t)o.range->n) return 0;
        *v = jinja_int(o.range->start + (int64_t)it->pos++ * o.range->step);
        return 1;
    default: return 0;
    }
}

int jinja_to_list(struct jinja_run *r, struct jinja_value v, enum jinja_type type,
                  struct jinja_value *out)
{
    struct jinja_iter it;
    struct jinja_value x;
    int rc;
    if (jinja_iterate(r, v, &it) || jinja_list(r, type, 8, out)) return -1;
    while ((rc = jinja_next(r, &it, &x)) > 0)
        if (jinja_steps(r, 1) || jinja_push(r, out->list, x)) return -1;
    return rc;
}

/* ---- attributes and items ---- */

int jinja_attribute(struct jinja_run *r, struct jinja_value a, const char *s, size_t n,
                    struct jinja_value *out)
{
    if (a.type == JINJA_UNDEFINED) {
        if (n >= 4 && !memcmp(s, "__", 2) && !memcmp(s + n - 2, "__", 2)) {
            *out = jinja_undefined(JINJA_UNSAFE, a, s, n);
            return 0;
        }
        return jinja_fail_undefined(r, a);
    }
    if (a.type == JINJA_NAMESPACE) {
        int found = jinja_dict_find_text(r, a.dict, s, n, out);
        if (found < 0) return -1;
        if (!found) *out = jinja_undefined(JINJA_NO_ATTRIBUTE, a, s, n);
        return 0;
    }
    if (a.type == JINJA_LOOP) return jinja_loop_attribute(r, a.loop, s, n, out);
    if (a.type == JINJA_TUPLE && a.flag && a.list->n == 2) {
        int list = n == 4 && !memcmp(s, "list", 4);
        if (list || (n == 7 && !memcmp(s, "grouper", 7))) {
            *out = a.list->item[list];
            return 0;
        }
    }
    int found = jinja_method_of(r, a, s, n, out);
    if (found) return found < 0 ? -1 : 0;
    if (a.type == JINJA_DICT && (found = jinja_dict_find_text(r, a.dict, s, n, out)))
        return found < 0 ? -1 : 0;
    *out = jinja_undefined(n >= 2 && !memcmp(s, "__", 2) ? JINJA_UNSAFE : JINJA_NO_ATTRIBUTE, a, s,
                           n);
    return 0;
}

/* Index of item `at` (negative: from the end) among n items; n: there is none. */
static size_t index_of(int64_t at, size_t n)
{
    if (at < 0) at += (int64_t)n;
    return at < 0 || (uint64_t)at >= n ? n : (size_t)at;
}

int jinja_item(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
               struct jinja_value *out)
{
    int found = 0, whole = b.type == JINJA_INT || b.type == JINJA_BOOL;
    if (a.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (a.type == JINJA_DICT && b.type != JINJA_LIST && b.type != JINJA_DICT) {
        found = b.type == JINJA_STRING ? jinja_dict_find_text(r, a.dict, b.s, b.n, out)
                                       : jinja_dict_find(r, a.dict, b, out);
        if (found) return found < 0 ? -1 : 0;
    } else if ((a.type == JINJA_LIST || a.type == JINJA_TUPLE) && whole) {
        size_t at = index_of(b.i, a.list->n);
        if ((found = at < a.list->n)) *out = a.list->item[at];
    } else if (a.type == JINJA_RANGE && whole) {
        size_t at = index_of(b.i, (size_t)a.range->n);
        if ((found = at < (size_t)a.range->n))
            *out = jinja_int(a.range->start + (int64_t)at * a.range->step);
    } else if (a.type == JINJA_STRING && whole) {
        size_t n = jinja_points(a.s, a.n), at = index_of(b.i, n);
        if (jinja_steps(r, a.n / 64)) return -1;
        if ((found = at < n)) {
            size_t from = jinja_point_offset(a.s, a.n, at), to = from;
            jinja_point(a.s, a.n, &to);
            *out = jinja_bytes(a.s + from, to - from);
            out->flag = a.flag;
        }
    }
    if (found) return 0;
    if (b.type == JINJA_STRING) { /* obj["name"] also reaches attributes; the keys of a dict were
                                     searched above */
        if (a.type != JINJA_DICT) return jinja_attribute(r, a, b.s, b.n, out);
        found = jinja_method_of(r, a, b.s, b.n, out);
        if (found) return found < 0 ? -1 : 0;
        *out = jinja_undefined(JINJA_NO_ATTRIBUTE, a, b.s, b.n);
        return 0;
    }
    char text[64];
    struct jinja_value hint;
    int n = whole
                ? snprintf(text, sizeof text, "%s object has no element %lld", jinja_type_name(a),
                           (long long)b.i)
                : snprintf(text, sizeof text, "%s object has no such element", jinja_type_name(a));
    if (jinja_string(r, text, (size_t)n, &hint)) return -1;
    *out = jinja_undefined(JINJA_HINT, a, hint.s, hint.n);
    return 0;
}

/* Python's slice.indices: bounds of a[from:to:step] over n items. */
static int slice_bounds(struct jinja_run *r, const struct jinja_value b[3], int64_t n,
                        int64_t *from, int64_t *to, int64_t *step)
{
    for (int i = 0; i < 3; i++)
        if (b[i].type == JINJA_UNDEFINED) return jinja_fail_undefined(r, b[i]);
        else if (b[i].type != JINJA_NONE && b[i].type != JINJA_INT && b[i].type != JINJA_BOOL)
            return jinja_fail(r, "slice indices must be integers or None");
    *step = b[2].type == JINJA_NONE ? 1 : b[2].i;
    if (!*step) return jinja_fail(r, "slice step cannot be zero");
    if (*step < -n - 1)
        *step = -n - 1; /* clamped to the range with an effect, so that nothing overflows */
    if (*step > n + 1) *step = n + 1;
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n, *const bound[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        if (b[i].type == JINJA_NONE) {
            *bound[i] = (*step < 0) == (i == 0) ? high : low;
            continue;
        }
        int64_t v = b[i].i;
        if (v < 0) v = v < -n ? low : v + n;
        *bound[i] = v < low ? low : v > high ? high : v;
    }
    return 0;
}

int jinja_slice(struct jinja_run *r, struct jinja_value a, const struct jinja_value bound[3],
                struct jinja_value *out)
{
    int64_t n, from = 0, to = 0, step = 1;
    if (a.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (a.type != JINJA_LIST && a.type != JINJA_TUPLE && a.type != JINJA_STRING) {
        if (a.type == JINJA_RANGE) return jinja_fail(r, "a slice of a range is not supported");
        if (a.type == JINJA_DICT) return jinja_fail(r, "unhashable type: 'slice'");
        return jinja_fail(r, "'%s' object is not subscriptable", jinja_type_name(a));
    }
    if (jinja_length(r, a, &n) || slice_bounds(r, bound, n, &from, &to, &step)) return -1;
    if (a.type == JINJA_STRING) {
        size_t start = r->n_out;
        if (step == 1) {
            size_t p = jinja_point_offset(a.s, a.n, (size_t)from),
                   q = to > from ? p + jinja_point_offset(a.s + p, a.n - p, (size_t)(to - from))
                                 : p;
            *out = jinja_bytes(a.s + p, q - p);
            return 0;
        }
        if (n == (int64_t)a.n) {
            for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
                if (jinja_put(r, a.s + i, 1)) return -1;
            return jinja_take(r, start, out);
        }
        struct jinja_value points;
        if (jinja_to_list(r, a, JINJA_LIST, &points)) return -1;
        for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
            if (jinja_put(r, points.list->item[i].s, points.list->item[i].n)) return -1;
        return jinja_take(r, start, out);
    }
    if (jinja_list(r, a.type, step == 1 && to > from ? (size_t)(to - from) : 8, out)) return -1;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        if (jinja_push(r, out->list, a.list->item[i])) return -1;
    return jinja_steps(r, out->list->n / 8);
}
