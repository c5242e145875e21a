/* schema_reference.c: where $ref and its successors lead. */
#include "core/grammar/schema_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int schema_draft_is_old(const struct schema_source *from)
{
    const char *draft = json_string_value(json_object_get(from->root, "$schema"));
    return draft && strstr(draft, "draft-0");
}

const char *schema_reference_key(json_t *schema)
{
    static const char *const keys[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    for (int i = 0; i < 3; i++)
        if (json_object_get(schema, keys[i])) return keys[i];
    return NULL;
}

/* The part that a JSON pointer (RFC 6901, as a fragment) names, or NULL. */
static json_t *by_pointer(json_t *root, const char *pointer)
{
    char part[256];
    json_t *p = root;
    while (p && *pointer == '/') {
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/' && n < sizeof part - 1; n++, pointer++) {
            unsigned hex;
            part[n] = *pointer;
            if (!strncmp(pointer, "~0", 2) || !strncmp(pointer, "~1", 2))
                part[n] = *++pointer == '0' ? '~' : '/';
            else if (*pointer == '%' && sscanf(pointer, "%%%2x", &hex) == 1)
                part[n] = (char)hex, pointer += 2;
        }
        part[n] = 0;
        p = json_is_array(p) ? json_array_get(p, (size_t)strtoul(part, NULL, 10))
                             : json_object_get(p, part);
    }
    return p;
}

/* What is looked for among the parts of a document. */
struct quest {
    const char *text; /* the anchor, or the $id [bytes] */
    size_t bytes;
    int is_anchor;
    json_t *found;
    int n_found, n_ids; /* and parts with an $id of their own */
};

static int is_text(json_t *v, const char *text, size_t bytes)
{
    return json_is_string(v) && json_string_length(v) == bytes &&
           !memcmp(json_string_value(v), text, bytes);
}

/* 1: the part has the anchor, as each draft writes it. */
static int has_anchor(json_t *part, const char *text, size_t bytes)
{
    static const char *const own[] = {"$anchor", "$dynamicAnchor"}, *const ids[] = {"$id", "id"};
    for (int i = 0; i < 2; i++) {
        const char *id = json_string_value(json_object_get(part, ids[i]));
        if (is_text(json_object_get(part, own[i]), text, bytes)) return 1;
        if (id && *id == '#' && strlen(id + 1) == bytes && !memcmp(id + 1, text, bytes)) return 1;
    }
    return 0;
}

/* An $id without an empty fragment; *bytes: its length; NULL: the part has none. */
static const char *id_of(json_t *part, size_t *bytes)
{
    json_t *v = json_object_get(part, "$id");
    if (!json_is_string(v)) v = json_object_get(part, "id");
    if (!json_is_string(v) || *json_string_value(v) == '#') return NULL;
    *bytes = json_string_length(v);
    if (*bytes && json_string_value(v)[*bytes - 1] == '#') --*bytes;
    return json_string_value(v);
}

/* 1: the two name the same: equal, or one is a relative name of the other's. */
static int same_id(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const char *longer = n_a > n_b ? a : b, *shorter = n_a > n_b ? b : a;
    size_t n = n_a > n_b ? n_a : n_b, m = n_a > n_b ? n_b : n_a;
    if (m == 0 || memcmp(longer + n - m, shorter, m)) return 0;
    if (n == m) return 1;
    return memchr(longer, ':', n) && !memchr(shorter, ':', m) &&
           (longer[n - m - 1] == '/' || *shorter == '/');
}

/* Values that a schema may allow are no schemas. */
static int holds_values(const char *key)
{
    return !strcmp(key, "enum") || !strcmp(key, "const") || !strcmp(key, "default") ||
           !strcmp(key, "examples") || !strcmp(key, "example");
}

static void look_in(struct quest *q, json_t *part, int depth)
{
    enum { MAX_DEPTH = 200 };
    const char *key, *id;
    size_t i, bytes;
    json_t *v;
    if (depth > MAX_DEPTH) return;
    json_array_foreach (part, i, v) look_in(q, v, depth + 1);
    if (!json_is_object(part)) return;
    id = id_of(part, &bytes);
    q->n_ids += depth && id;
    if (q->is_anchor ? has_anchor(part, q->text, q->bytes)
                     : id && same_id(id, bytes, q->text, q->bytes)) {
        q->n_found++;
        q->found = part;
    }
    json_object_foreach (part, key, v)
        if (!holds_values(key)) look_in(q, v, depth + 1);
}

/* The part whose $id is TEXT [bytes], or the document where there are none. */
static json_t *resource(struct schema_source *from, const char *text, size_t bytes)
{
    struct quest q = {.text = text, .bytes = bytes};
    if (!bytes) return from->root;
    look_in(&q, from->root, 0);
    return q.n_found == 1 ? q.found : NULL;
}

/* A reference that depends on the way that led to it is the plain one where only one part of the
 * document can be meant. */
static int is_plain(struct schema_source *from, const char *key, const char *fragment)
{
    struct quest q = {.text = fragment, .bytes = strlen(fragment), .is_anchor = 1};
    if (!strcmp(key, "$ref")) return 1;
    look_in(&q, from->root, 0);
    return q.n_ids == 0 && q.n_found <= 1;
}

json_t *schema_reference(struct schema_source *from, json_t *schema, const char *key, struct err *e)
{
    const char *to = json_string_value(json_object_get(schema, key)), *fragment;
    json_t *base, *target = NULL;
    if (!to) return err_set(e, "%s: is not a string", key), NULL;
    fragment = strchr(to, '#');
    size_t bytes = fragment ? (size_t)(fragment - to) : strlen(to);
    fragment = fragment ? fragment + 1 : "";
    if (!is_plain(from, key, fragment))
        return err_set(e, "%s: '%.80s' means more than one part", key, to), NULL;
    if (!(base = resource(from, to, bytes)))
        return err_set(e, "%s: '%.80s' is not in this schema", key, to), NULL;
    if (!*fragment || *fragment == '/') {
        target = by_pointer(base, fragment);
    } else {
        struct quest q = {.text = fragment, .bytes = strlen(fragment), .is_anchor = 1};
        look_in(&q, base, 0);
        if (q.n_found == 1) target = q.found;
        if (q.n_found > 1) return err_set(e, "%s: '%.80s' means more than one part", key, to), NULL;
    }
    if (!target) err_set(e, "%s: '%.80s' is not there", key, to);
    return target;
}
