/* schema_number.c: numbers of a schema. One condition is an expression; several are followed
 * together (regular.h). */
#include "core/grammar/digits.h"
#include "core/grammar/notation.h"
#include "core/grammar/numbers.h"
#include "core/grammar/regular.h"
#include "core/grammar/schema.h"
#include "core/grammar/schema_merge.h"

enum { MAX_STEPS = 6, MAX_OUT = 32 };
static const char too_many_digits[] = "has more digits than are served";

/* What numbers have to be: between bounds, multiples of steps [n_steps], not multiples of those
 * behind [n_not], and not these [n_out]. */
struct conditions {
    struct number_bounds bounds;
    struct decimal step[MAX_STEPS], out[MAX_OUT];
    int n_steps, n_not, n_out;
};

/* A bound, closed or open, whichever leaves less. */
static int bound_of(struct schema *s, json_t *flat, const char *key, const char *open_key,
                    int is_lower, int *has, int *is_open, struct decimal *value)
{
    json_t *closed = json_object_get(flat, key), *open = json_object_get(flat, open_key);
    struct decimal other;
    *has = *is_open = 0;
    if (closed && !digits_is(closed)) return schema_refuse(s, key, "is not a number");
    if (closed) {
        *has = 1;
        *is_open = json_is_true(open); /* draft 4 */
        if (digits_of(closed, value)) return schema_refuse(s, key, too_many_digits);
    }
    if (!digits_is(open)) return 0;
    if (digits_of(open, &other)) return schema_refuse(s, open_key, too_many_digits);
    int order = *has ? decimal_order(&other, value) : 0;
    if (!*has || (is_lower ? order >= 0 : order <= 0)) *has = *is_open = 1, *value = other;
    return 0;
}

static int add_step(struct schema *s, struct conditions *c, json_t *step, int is_not)
{
    struct decimal *d = &c->step[c->n_steps + c->n_not];
    if (c->n_steps + c->n_not == MAX_STEPS)
        return schema_refuse(s, "multipleOf", "more than 6 are not served");
    if (digits_is(step) && digits_of(step, d))
        return schema_refuse(s, "multipleOf", too_many_digits);
    if (!digits_is(step) || d->is_negative || decimal_is_zero(d))
        return schema_refuse(s, "multipleOf", "is not a number above 0");
    if (is_not) c->n_not++;
    else c->n_steps++;
    return 0;
}

static int find(struct schema *s, json_t *flat, unsigned types, struct conditions *c)
{
    json_t *step = json_object_get(flat, "multipleOf"), *v;
    struct number_bounds *b = &c->bounds;
    size_t i;
    *c = (struct conditions){.bounds.whole = !(types & SCHEMA_FRACTION)};
    if (bound_of(s, flat, "minimum", "exclusiveMinimum", 1, &b->has_low, &b->low_open, &b->low) ||
        bound_of(s, flat, "maximum", "exclusiveMaximum", 0, &b->has_high, &b->high_open, &b->high))
        return -1;
    int is_one = b->whole && json_is_number(step) && json_number_value(step) == 1;
    if (step && !is_one && add_step(s, c, step, 0)) return -1;
    json_array_foreach (json_object_get(flat, "opt4gptq:moreMultiples"), i, v)
        if (add_step(s, c, v, 0)) return -1;
    json_array_foreach (json_object_get(flat, "opt4gptq:notMultiple"), i, v)
        if (add_step(s, c, v, 1)) return -1;
    json_array_foreach (json_object_get(flat, "opt4gptq:notEnum"), i, v) {
        if (!digits_is(v)) continue;
        if (c->n_out == MAX_OUT) return schema_refuse(s, "not", "of more than 32 numbers");
        if (digits_of(v, &c->out[c->n_out++]))
            return schema_refuse(s, "not", "a number has more digits than are served");
    }
    if (!(types & SCHEMA_INTEGER)) {
        json_t *one = json_integer(1);
        int rc = add_step(s, c, one, 1);
        json_decref(one);
        return rc;
    }
    return 0;
}

/* The numbers that are not among the values. */
static net_expr these(struct net *n, const struct conditions *c)
{
    net_expr x = net_chars(n, NULL, 0);
    for (int i = 0; i < c->n_out; i++) {
        const struct number_bounds one = {1, 1, 0, 0, 0, c->out[i], c->out[i]};
        x = net_either(n, x, numbers_between(n, &one));
    }
    return x;
}

/* Condition I: the bounds, the steps, the numbers. NET_FAILED: not served. */
static net_expr condition(struct net *n, const struct conditions *c, int i)
{
    if (i == 0) return numbers_between(n, &c->bounds);
    if (i > c->n_steps + c->n_not) return these(n, c);
    return numbers_multiples(n, &c->step[i - 1], c->bounds.whole);
}

static int open_walk(struct schema *s, struct walk **w, const struct conditions *c, int i)
{
    struct net *n;
    if (net_open(&n, s->e)) return -1;
    uint32_t root = net_rule(n, "numbers", 7);
    net_expr x = condition(n, c, i);
    if (x == NET_FAILED) {
        net_close(n);
        return schema_refuse(s, "multipleOf", "more than 5,000 cases are not served");
    }
    net_define(n, root, x);
    int rc = net_finish(n, root, s->e);
    if (!rc) return walk_open(w, n, root, s->e);
    int is_empty = !err_is_memory(s->e) && net_is_empty(n);
    net_close(n);
    return is_empty ? 0 : rc;
}

/* All conditions, or those that must hold without the others. */
static int together(struct schema *s, const struct conditions *c, net_expr *x)
{
    struct walk *walk[MAX_STEPS + 2] = {0};
    int n_out = c->n_not + (c->n_out > 0), n = 1 + c->n_steps + n_out, rc = 0, is_empty = 0;
    for (int i = 0; i < n && !rc; i++) rc = open_walk(s, &walk[i], c, i);
    for (int i = 0; i < n - n_out; i++) is_empty |= !walk[i];
    if (!rc && is_empty) *x = net_chars(s->net, NULL, 0);
    else if (!rc)
        rc = regular_product(s->net, walk, n - n_out, n_out, NULL, x, s->e)
                 ? (err_is_memory(s->e) ? -1 : err_prefix(s->e, "multipleOf"))
                 : 0;
    for (int i = 0; i < n; i++) walk_close(walk[i]);
    return rc;
}

int schema_number(struct schema *s, json_t *flat, unsigned types, net_expr *x)
{
    struct conditions c;
    if (find(s, flat, types, &c)) return -1;
    const struct number_bounds *b = &c.bounds;
    int has_bounds = b->has_low || b->has_high;
    if (c.n_not || c.n_out || c.n_steps + has_bounds > 1) return together(s, &c, x);
    if (c.n_steps) {
        *x = condition(s->net, &c, 1);
        return *x == NET_FAILED
                   ? schema_refuse(s, "multipleOf", "more than 5,000 cases are not served")
                   : 0;
    }
    *x = has_bounds || b->whole ? numbers_between(s->net, b)
                                : net_call(s->net, net_named(s->net, "number"));
    return 0;
}
