/* jinja_run.c: a render: statements, loops, macros, blocks. */
#include "core/text/jinja/jinja_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- scopes and targets ---- */

static int push_scope(struct jinja_run *r, struct jinja_scope *parent)
{
    struct jinja_scope *s = jinja_get(r, sizeof *s);
    if (!s) return -1;
    s->parent = parent;
    r->scope = s;
    return 0;
}

static int assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v)
{
    if (target->kind == NODE_NAME) return jinja_set(r, target->name, v);
    r->line = target->line;
    if (target->kind == NODE_NSREF) {
        struct jinja_value ns;
        if (!jinja_lookup(r, target->name, &ns) || ns.type != JINJA_NAMESPACE)
            return jinja_fail(r, "cannot assign attribute on non-namespace object");
        return jinja_dict_set(r, ns.dict, target->value, v);
    }
    struct jinja_iter it;
    struct jinja_value x;
    const struct jinja_node *t = target->a;
    size_t n = 0, want = 0;
    int rc;
    for (const struct jinja_node *i = t; i; i = i->next) want++;
    if (jinja_iterate(r, v, &it)) return -1;
    for (; (rc = jinja_next(r, &it, &x)) > 0; n++, t = t->next) {
        if (!t) return jinja_fail(r, "too many values to unpack (expected %zu)", want);
        if (assign(r, t->a, x)) return -1;
    }
    return rc ? -1
           : n < want
               ? jinja_fail(r, "not enough values to unpack (expected %zu, got %zu)", want, n)
               : 0;
}

/* Runs a body in its own scope; its output becomes a value. */
static int capture(struct jinja_run *r, const struct jinja_node *body, struct jinja_scope *parent,
                   struct jinja_value *out)
{
    struct jinja_scope *outer = r->scope;
    size_t from = r->n_out;
    if (push_scope(r, parent) || jinja_run_body(r, body) < 0) return -1;
    r->scope = outer;
    return jinja_take(r, from, out);
}

/* ---- loops ---- */

/* Draws the next item that passes the loop's condition. */
static int draw(struct jinja_run *r, struct jinja_loop *l, struct jinja_value *v)
{
    for (;;) {
        int rc = jinja_next(r, &l->iter, v);
        if (rc <= 0 || !l->node->c) return rc;
        struct jinja_scope *inner = r->scope;
        struct jinja_value yes;
        if (push_scope(r, l->outer) || assign(r, l->node->a, *v) || jinja_eval(r, l->node->c, &yes))
            return -1;
        r->scope = inner;
        if (jinja_truth(yes)) return 1;
    }
}

/* Draws items ahead until there are n (all: until the end). Items are drawn as late as in Python,
 * because conditions may read what the body changes. */
static int draw_ahead(struct jinja_run *r, struct jinja_loop *l, size_t n, int all)
{
    struct jinja_value v;
    int rc = 1;
    if (!l->rest) {
        if (jinja_list(r, JINJA_LIST, 4, &v)) return -1;
        l->rest = v.list;
    }
    while ((all || l->rest->n - l->rest_pos < n) && (rc = draw(r, l, &v)) > 0)
        if (jinja_push(r, l->rest, v)) return -1;
    return rc < 0 ? -1 : 0;
}

static int next_item(struct jinja_run *r, struct jinja_loop *l, struct jinja_value *v)
{
    if (!l->rest || l->rest_pos == l->rest->n) return draw(r, l, v);
    *v = l->rest->item[l->rest_pos++];
    return 1;
}

static int loop_length(struct jinja_run *r, struct jinja_loop *l)
{
    if (l->length >= 0) return 0;
    if (!l->node->c && l->iter.over.type != JINJA_GENERATOR)
        return jinja_length(r, l->iter.over, &l->length);
    if (draw_ahead(r, l, 0, 1)) return -1;
    l->length = (int64_t)(l->index0 + 1 + l->rest->n - l->rest_pos);
    return 0;
}

static int loop_cycle(struct jinja_run *r, struct jinja_value on, const struct jinja_args *args,
                      struct jinja_value *slot, struct jinja_value *out)
{
    (void)slot;
    if (!args->n) return jinja_fail(r, "no items for cycling given");
    *out = args->pos[on.loop->index0 % args->n];
    return 0;
}

static int loop_changed(struct jinja_run *r, struct jinja_value on, const struct jinja_args *args,
                        struct jinja_value *slot, struct jinja_value *out)
{
    struct jinja_value now;
    (void)slot;
    if (jinja_list(r, JINJA_TUPLE, args->n, &now)) return -1;
    for (size_t i = 0; i < args->n; i++)
        if (jinja_push(r, now.list, args->pos[i])) return -1;
    int same = on.loop->changed.type == JINJA_ABSENT ? 0 : jinja_equal(r, on.loop->changed, now);
    if (same < 0) return -1;
    on.loop->changed = now;
    *out = jinja_bool(!same);
    return 0;
}

int jinja_loop_attribute(struct jinja_run *r, struct jinja_loop *l, const char *s, size_t n,
                         struct jinja_value *out)
{
    static const struct jinja_callable methods[] = {
        {"cycle", "*", loop_cycle}, {"changed", "*", loop_changed}, {0}};
    const struct jinja_callable *c = jinja_find_callable(methods, s, n);
    struct jinja_value self = {.type = JINJA_LOOP, .loop = l};
    int64_t index0 = (int64_t)l->index0;
#define IS(name) (n == sizeof name - 1 && !memcmp(s, name, n))
    if (c) {
        struct jinja_method *m = jinja_get(r, sizeof *m);
        if (!m) return -1;
        *m = (struct jinja_method){self, c};
        *out = (struct jinja_value){.type = JINJA_METHOD, .method = m};
    } else if (IS("index0")) *out = jinja_int(index0);
    else if (IS("index")) *out = jinja_int(index0 + 1);
    else if (IS("first")) *out = jinja_bool(!index0);
    else if (IS("depth0")) *out = jinja_int(l->depth0);
    else if (IS("depth")) *out = jinja_int(l->depth0 + 1);
    else if (IS("length") || IS("revindex") || IS("revindex0")) {
        if (loop_length(r, l)) return -1;
        *out = jinja_int(IS("length") ? l->length : l->length - index0 - (IS("revindex") ? 0 : 1));
    } else if (IS("last") || IS("nextitem")) {
        if (draw_ahead(r, l, 1, 0)) return -1;
        int last = l->rest_pos == l->rest->n;
        *out = IS("last") ? jinja_bool(last)
               : last     ? jinja_undefined(JINJA_HINT, self, "there is no next item", 21)
                          : l->rest->item[l->rest_pos];
    } else if (IS("previtem"))
        *out = l->before.type == JINJA_ABSENT
                   ? jinja_undefined(JINJA_HINT, self, "there is no previous item", 25)
                   : l->before;
    else *out = jinja_undefined(JINJA_NO_ATTRIBUTE, self, s, n);
#undef IS
    return 0;
}

/* Runs the loop over v; depth0 counts recursive calls. The else branch runs where no item came to
 * the end of the body, also by break and continue, as in jinja2. */
static int run_loop(struct jinja_run *r, const struct jinja_node *n, struct jinja_value v,
                    struct jinja_scope *outer, int depth0)
{
    struct jinja_scope *caller = r->scope;
    struct jinja_value x, self;
    int rc, n_runs = 0, n_whole = 0, how = 0;
    struct jinja_loop *l = jinja_get(r, sizeof *l);
    if (!l) return -1;
    *l = (struct jinja_loop){.node = n, .outer = outer, .length = -1, .depth0 = depth0};
    self = (struct jinja_value){.type = JINJA_LOOP, .loop = l};
    if (jinja_iterate(r, v, &l->iter) || push_scope(r, outer)) return -1;
    while ((rc = next_item(r, l, &x)) > 0) {
        r->scope->n = 0; /* assignments of the last iteration are dropped */
        l->index0 = (size_t)n_runs++;
        l->before = l->current;
        l->current = x;
        if (jinja_steps(r, 1) || jinja_set(r, r->t->loop_name, self) || assign(r, n->a, x))
            return -1;
        if ((how = jinja_run_body(r, n->body)) < 0) return -1;
        if (how == 1) break;
        n_whole += how == 0;
    }
    r->scope = caller;
    if (rc < 0) return -1;
    if (n_whole || !n->other) return 0;
    if (push_scope(r, outer) || (how = jinja_run_body(r, n->other)) < 0) return -1;
    r->scope = caller;
    return how;
}

int jinja_call_loop(struct jinja_run *r, const struct jinja_loop *l, const struct jinja_args *args,
                    struct jinja_value *out)
{
    size_t from = r->n_out;
    if (!l->node->op)
        return jinja_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_kw) return jinja_fail(r, "loop() takes one argument");
    if (run_loop(r, l->node, args->pos[0], l->outer, l->depth0 + 1) < 0) return -1;
    return jinja_take(r, from, out);
}

/* ---- macros ---- */

static int macro_extras(struct jinja_run *r, const struct jinja_macro *m,
                        const struct jinja_args *args, size_t n_params, const char *used)
{
    const char *name = m->node->kind == NODE_MACRO ? r->t->names[m->node->name].s : "caller";
    int n_name = m->node->kind == NODE_MACRO ? (int)r->t->names[m->node->name].n : 6,
        caller = m->node->op & MACRO_CALLER;
    struct jinja_value v, kwargs;
    if (n_name > 60) n_name = 60;
    if (jinja_dict(r, JINJA_DICT, args->n_kw, &kwargs)) return -1;
    if (caller && jinja_set(r, r->t->caller_name,
                            jinja_undefined(JINJA_HINT, kwargs, "No caller defined", 17)))
        return -1;
    for (size_t i = 0; i < args->n_kw; i++) {
        const struct jinja_keyword *k = &args->kw[i];
        if (used[i]) continue;
        if (caller && k->n == 6 && !memcmp(k->name, "caller", 6)) {
            if (jinja_set(r, r->t->caller_name, k->value)) return -1;
        } else if (!(m->node->op & MACRO_KWARGS)) {
            return jinja_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", n_name, name,
                              k->n > 60 ? 60 : (int)k->n, k->name);
        } else if (jinja_dict_set(r, kwargs.dict, jinja_bytes(k->name, k->n), k->value)) {
            return -1;
        }
    }
    if (m->node->op & MACRO_KWARGS && jinja_set(r, r->t->kwargs_name, kwargs)) return -1;
    if (m->node->op & MACRO_VARARGS) {
        if (jinja_list(r, JINJA_TUPLE, 4, &v)) return -1;
        for (size_t i = n_params; i < args->n; i++)
            if (jinja_push(r, v.list, args->pos[i])) return -1;
        return jinja_set(r, r->t->varargs_name, v);
    }
    return args->n > n_params ? jinja_fail(r, "macro '%.*s' takes not more than %zu argument(s)",
                                           n_name, name, n_params)
                              : 0;
}

static int bind_macro(struct jinja_run *r, const struct jinja_macro *m,
                      const struct jinja_args *args)
{
    size_t at = 0;
    char *used = jinja_get(r, args->n_kw);
    if (!used) return -1;
    for (const struct jinja_node *p = m->node->a; p; p = p->next, at++) {
        const struct jinja_name *name = &r->t->names[p->name];
        struct jinja_value v = {0};
        if (at < args->n) v = args->pos[at];
        for (size_t i = 0; at >= args->n && i < args->n_kw; i++)
            if (args->kw[i].n == name->n && !memcmp(args->kw[i].name, name->s, name->n))
                v = args->kw[i].value, used[i] = 1;
        if (v.type == JINJA_ABSENT && p->b && jinja_eval(r, p->b, &v)) return -1;
        if (v.type == JINJA_ABSENT) {
            size_t from = r->n_out;
            struct jinja_value hint;
            if (jinja_put(r, "parameter '", 11) || jinja_put(r, name->s, name->n) ||
                jinja_put(r, "' was not provided", 18) || jinja_take(r, from, &hint))
                return -1;
            v = jinja_undefined(JINJA_HINT, hint, hint.s, hint.n);
        }
        if (jinja_set(r, p->name, v)) return -1;
    }
    return macro_extras(r, m, args, at, used);
}

int jinja_call_macro(struct jinja_run *r, const struct jinja_macro *m,
                     const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_scope *caller = r->scope;
    size_t from = r->n_out;
    if (jinja_enter(r) || push_scope(r, m->scope) || bind_macro(r, m, args) ||
        jinja_run_body(r, m->node->body) < 0)
        return -1;
    r->depth--;
    r->scope = caller;
    return jinja_take(r, from, out);
}

static int make_macro(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_macro *m = jinja_get(r, sizeof *m);
    if (!m) return -1;
    *m = (struct jinja_macro){n, r->scope};
    *out = (struct jinja_value){.type = JINJA_MACRO, .macro = m};
    return 0;
}

static int run_call_block(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value f, text;
    struct jinja_args args;
    if (jinja_eval(r, n->b->a, &f) || jinja_args_eval(r, n->b->b, &args)) return -1;
    struct jinja_keyword *kw = jinja_get(r, (args.n_kw + 1) * sizeof *kw);
    if (!kw) return -1;
    if (args.n_kw) memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw] = (struct jinja_keyword){"caller", 6, {0}};
    if (make_macro(r, n, &kw[args.n_kw].value)) return -1;
    args.kw = kw;
    args.n_kw++;
    r->line = n->line;
    return jinja_call_value(r, f, &args, &text) || jinja_put_str(r, text) ? -1 : 0;
}

/* ---- statements ---- */

static int run_if(struct jinja_run *r, const struct jinja_node *n)
{
    for (;;) {
        struct jinja_value v;
        if (jinja_eval(r, n->a, &v)) return -1;
        if (jinja_truth(v)) return jinja_run_body(r, n->body);
        if (!n->other || n->other->kind != NODE_IF || n->other->next)
            return jinja_run_body(r, n->other);
        n = n->other; /* an elif, or an if alone in an else: the same */
    }
}

static int run_with(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_scope *outer = r->scope, *inner;
    struct jinja_value v;
    if (push_scope(r, outer)) return -1;
    inner = r->scope;
    for (const struct jinja_node *p = n->a; p;
         p = p->next) { /* values are evaluated in the outer scope */
        r->scope = outer;
        if (jinja_eval(r, p->b, &v)) return -1;
        r->scope = inner;
        if (assign(r, p->a, v)) return -1;
    }
    int rc = jinja_run_body(r, n->body);
    r->scope = outer;
    return rc;
}

static int run_statement(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    switch ((enum jinja_kind)n->kind) {
    case NODE_TEXT: return jinja_put(r, n->value.s, n->value.n);
    case NODE_OUTPUT:
        for (const struct jinja_node *i = n->a; i; i = i->next)
            if (jinja_eval(r, i, &v) || jinja_put_str(r, v)) return -1;
        return 0;
    case NODE_IF: return run_if(r, n);
    case NODE_FOR: return jinja_eval(r, n->b, &v) ? -1 : run_loop(r, n, v, r->scope, 0);
    case NODE_SET: return jinja_eval(r, n->b, &v) || assign(r, n->a, v) ? -1 : 0;
    case NODE_SET_BLOCK:
        if (capture(r, n->body, r->scope, &v) || (n->b && jinja_filters_eval(r, n->b, &v, &v)))
            return -1;
        return assign(r, n->a, v);
    case NODE_MACRO: return make_macro(r, n, &v) || jinja_set(r, n->name, v) ? -1 : 0;
    case NODE_CALL_BLOCK: return run_call_block(r, n);
    case NODE_FILTER_BLOCK:
        return capture(r, n->body, r->scope, &v) || jinja_filters_eval(r, n->b, &v, &v) ||
                       jinja_put_str(r, v)
                   ? -1
                   : 0;
    case NODE_WITH: return run_with(r, n);
    case NODE_GENERATION:
        return capture(r, n->body, r->scope, &v) || jinja_put(r, v.s, v.n) ? -1 : 0;
    case NODE_BREAK: return 1;
    case NODE_CONTINUE: return 2;
    default: check_failed("a statement", __FILE__, __LINE__);
    }
}

int jinja_run_body(struct jinja_run *r, const struct jinja_node *body)
{
    int rc = 0;
    if (jinja_enter(r)) return -1;
    for (; body && !rc; body = body->next) {
        r->line = body->line;
        rc = jinja_steps(r, 1) ? -1 : run_statement(r, body);
    }
    r->depth--;
    return rc;
}

int jinja_render(const struct jinja *t, const json_t *variables, int64_t now, char **text,
                 size_t *bytes, struct err *e)
{
    struct jinja_run r = {.t = t, .now = now, .line = 1, .e = e, .arena.limit = JINJA_MAX_MEMORY};
    const char *key;
    json_t *item;
    int rc = push_scope(&r, NULL);
    *text = NULL;
    json_object_foreach ((json_t *)(uintptr_t)variables, key, item) {
        struct jinja_value v;
        int name = jinja_name_of(t, key, strlen(key));
        if (rc || name < 0) continue;
        rc = jinja_from_json(&r, item, &v) || jinja_set(&r, name, v) ? -1 : 0;
    }
    if (!rc) rc = jinja_run_body(&r, t->body) < 0 ? -1 : 0;
    if (!rc) rc = jinja_put(&r, "", 1); /* the terminating NUL, which also forces an allocation */
    jinja_arena_free(&r.arena);
    if (rc) {
        free(r.out);
        return -1;
    }
    *text = r.out;
    *bytes = r.n_out - 1;
    return 0;
}

/* ---- a query about the template ---- */

struct question {
    const struct jinja *t;
    const char *name;
    char *from; /* [n_names] 1: a variable that was set from `name` */
    int found;
};

static int comes_from(const struct question *q, const struct jinja_node *n)
{
    while (n->kind == NODE_FILTER && n->a) n = n->a;
    if (n->kind == NODE_GETATTR) return jinja_is_text(n->value, q->name);
    if (n->kind == NODE_GETITEM && n->b->kind == NODE_CONST)
        return jinja_is_text(n->b->value, q->name);
    return n->kind == NODE_NAME && q->from[n->name];
}

static void ask(struct question *q, const struct jinja_node *body)
{
    for (const struct jinja_node *n = body; n && !q->found; n = n->next)
        for (const struct jinja_node *m = n;
             m;) { /* a loop along a chain of elifs, which may be long */
            if (m->kind == NODE_SET && m->a->kind == NODE_NAME && comes_from(q, m->b))
                q->from[m->a->name] = 1;
            if (m->kind == NODE_FOR && comes_from(q, m->b)) q->found = 1;
            ask(q, m->body);
            int elif = m->kind == NODE_IF && m->other && m->other->kind == NODE_IF &&
                       !m->other->next;
            if (!elif) ask(q, m->other);
            m = elif ? m->other : NULL;
        }
}

int jinja_loops_over(const struct jinja *t, const char *name)
{
    struct question q = {.t = t, .name = name, .from = calloc(t->n_names, 1)};
    if (!q.from) return -1;
    for (int i = 0; i < 2 && !q.found; i++)
        ask(&q, t->body); /* twice: a macro may precede the assignment of its variable */
    free(q.from);
    return q.found;
}

int jinja_reads(const struct jinja *t, const char *name)
{
    int i = jinja_name_of(t, name, strlen(name));
    return i >= 0 && t->names[i].read;
}
