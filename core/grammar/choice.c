#include "core/grammar/choice.h"

#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 1 << 22 };

struct node {
    uint32_t child, sibling; /* 0: none */
    unsigned char byte, ends;
};

struct choice {
    struct node *node; /* [n] */
    uint32_t n, cap;
};

uint32_t choice_step(const struct choice *c, uint32_t node, unsigned char byte)
{
    uint32_t to = c->node[node].child;
    while (to && c->node[to].byte != byte) to = c->node[to].sibling;
    return to;
}

int choice_may_end(const struct choice *c, uint32_t node) { return c->node[node].ends; }
int choice_must_end(const struct choice *c, uint32_t node)
{
    return c->node[node].ends && !c->node[node].child;
}

/* The child of a node for a byte, made if there is none. */
static int grow(struct choice *c, uint32_t *node, unsigned char byte, struct err *e)
{
    uint32_t to = choice_step(c, *node, byte);
    if (!to) {
        if (c->n == MAX_NODES) return err_set(e, "the choices have more than %d bytes", MAX_NODES);
        if (c->n == c->cap) {
            struct node *more = realloc(c->node, 2 * (size_t)c->cap * sizeof *more);
            if (!more) return err_memory(e);
            c->node = more;
            c->cap *= 2;
        }
        to = c->n++;
        c->node[to] = (struct node){.sibling = c->node[*node].child, .byte = byte};
        c->node[*node].child = to;
    }
    *node = to;
    return 0;
}

static int add(struct choice *c, const json_t *text, size_t i, struct err *e)
{
    const char *s = json_string_value(text);
    uint32_t node = CHOICE_START;
    if (!s) return err_set(e, "choice %zu is not a string", i);
    if (!json_string_length(text)) return err_set(e, "choice %zu is empty", i);
    for (size_t k = 0; k < json_string_length(text); k++)
        if (grow(c, &node, (unsigned char)s[k], e)) return -1;
    c->node[node].ends = 1;
    return 0;
}

int choice_open(struct choice **out, const char *text, size_t bytes, struct err *e)
{
    json_t *all = json_read(text, bytes, JSON_ALLOW_NUL, NULL, e), *one;
    size_t i;
    int rc = 0;
    if (!all) return -1;
    struct choice *c = calloc(1, sizeof *c);
    if (c) c->node = calloc(64, sizeof *c->node);
    if (!c || !c->node) {
        rc = err_memory(e);
    } else {
        c->cap = 64;
        c->n = CHOICE_START + 1;
        if (!json_is_array(all) || !json_array_size(all))
            rc = err_set(e, "choices are an array of strings with at least one");
        json_array_foreach (all, i, one)
            if (!rc) rc = add(c, one, i, e);
    }
    json_decref(all);
    if (rc) choice_close(c);
    else *out = c;
    return rc;
}

void choice_close(struct choice *c)
{
    if (!c) return;
    free(c->node);
    free(c);
}
