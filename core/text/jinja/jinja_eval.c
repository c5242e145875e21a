/* jinja_eval.c: the value of an expression: names, operators, calls, filters, tests. */
#include "core/text/jinja/jinja_internal.h"

#include <math.h>
#include <string.h>

/* ---- scopes ---- */

/* Scopes with this many variables, and with a part of the template's names, have an index. */
enum { INDEXED_FROM = 16, INDEXED_PART = 16 };

/* NULL: the scope has no such variable. */
static struct jinja_slot *find(struct jinja_run *r, const struct jinja_scope *s, int name)
{
    if (s->at) return s->at[name] ? &s->slot[s->at[name] - 1] : NULL;
    r->steps += s->n / 8; /* the next jinja_steps fails over the bound */
    for (size_t i = 0; i < s->n; i++)
        if (s->slot[i].name == name) return &s->slot[i];
    return NULL;
}

int jinja_lookup(struct jinja_run *r, int name, struct jinja_value *v)
{
    for (const struct jinja_scope *s = r->scope; s; s = s->parent) {
        const struct jinja_slot *slot = find(r, s, name);
        if (slot) return *v = slot->value, 1;
    }
    return 0;
}

static int index_scope(struct jinja_run *r, struct jinja_scope *s)
{
    if (!(s->at = jinja_get(r, r->t->n_names * sizeof *s->at))) return -1; /* zeros */
    for (size_t i = 0; i < s->n; i++) s->at[s->slot[i].name] = (uint32_t)i + 1;
    return 0;
}

int jinja_set(struct jinja_run *r, int name, struct jinja_value v)
{
    struct jinja_scope *s = r->scope;
    struct jinja_slot *known = find(r, s, name);
    if (known) return known->value = v, 0;
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 8;
        struct jinja_slot *grown = jinja_get(r, cap * sizeof *grown);
        if (!grown) return -1;
        if (s->n) memcpy(grown, s->slot, s->n * sizeof *grown);
        s->slot = grown;
        s->cap = cap;
    }
    s->slot[s->n++] = (struct jinja_slot){name, v};
    if (s->at) s->at[name] = (uint32_t)s->n;
    else if (s->n >= INDEXED_FROM && s->n >= r->t->n_names / INDEXED_PART) return index_scope(r, s);
    return 0;
}

/* ---- arithmetic ---- */

static const char *op_text(int op)
{
    if (op == OP_FLOORDIV) return "//";
    if (op == OP_POW) return "** or pow()";
    return op == '+' ? "+" : op == '-' ? "-" : op == '*' ? "*" : op == '/' ? "/" : "%";
}

static int bad_operands(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b)
{
    if (op == '+' && a.type == JINJA_STRING)
        return jinja_fail(r, "can only concatenate str (not \"%s\") to str", jinja_type_name(b));
    if (op == '+' && (a.type == JINJA_LIST || a.type == JINJA_TUPLE))
        return jinja_fail(r, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a),
                          jinja_type_name(b), jinja_type_name(a));
    return jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
                      jinja_type_name(a), jinja_type_name(b));
}

static int too_large(struct jinja_run *r)
{
    return jinja_fail(r, "an integer beyond 64 bits is not supported");
}

static int int_power(struct jinja_run *r, int64_t a, int64_t b, struct jinja_value *out)
{
    int64_t x = 1;
    if (b < 0) {
        if (!a) return jinja_fail(r, "0.0 cannot be raised to a negative power");
        *out = jinja_float(pow((double)a, (double)b));
        return 0;
    }
    if (a == 1 || a == 0 || a == -1) x = !b ? 1 : a == -1 ? (b % 2 ? -1 : 1) : a;
    else
        for (; b; b--)
            if (__builtin_mul_overflow(x, a, &x)) return too_large(r);
    *out = jinja_int(x);
    return 0;
}

static int int_binary(struct jinja_run *r, int op, int64_t a, int64_t b, struct jinja_value *out)
{
    int64_t x = 0;
    int over = 0;
    if (op == '/' && b) {
        *out = jinja_float((double)a / (double)b);
        return 0;
    }
    if (!b && (op == '/' || op == OP_FLOORDIV || op == '%'))
        return jinja_fail(r, "%s by zero",
                          op == '/'   ? "division"
                          : op == '%' ? "integer modulo"
                                      : "integer division or modulo");
    if (op == OP_POW) return int_power(r, a, b, out);
    if (op == '+') over = __builtin_add_overflow(a, b, &x);
    else if (op == '-') over = __builtin_sub_overflow(a, b, &x);
    else if (op == '*') over = __builtin_mul_overflow(a, b, &x);
    else if (b == -1) over = op == OP_FLOORDIV ? __builtin_sub_overflow(0, a, &x) : 0;
    else if (op == OP_FLOORDIV) x = a / b - (a % b && (a < 0) != (b < 0));
    else x = a % b + (a % b && (a < 0) != (b < 0) ? b : 0);
    if (over) return too_large(r);
    *out = jinja_int(x);
    return 0;
}

static int float_binary(struct jinja_run *r, int op, double a, double b, struct jinja_value *out)
{
    double x;
    if (b == 0 && (op == '/' || op == OP_FLOORDIV || op == '%'))
        return jinja_fail(r, op == '%' ? "float modulo" : "float division by zero");
    if (op == '+') x = a + b;
    else if (op == '-') x = a - b;
    else if (op == '*') x = a * b;
    else if (op == '/') x = a / b;
    else if (op == OP_POW) {
        if (a == 0 && b < 0) return jinja_fail(r, "0.0 cannot be raised to a negative power");
        x = pow(a, b);
        if (isnan(x) && !isnan(a) && !isnan(b))
            return jinja_fail(r, "complex numbers are not supported");
        if (isinf(x) && !isinf(a) && !isinf(b))
            return jinja_fail(r, "(34, 'Numerical result out of range')");
    } else {
        double mod = fmod(a, b);
        if (mod != 0 && (mod < 0) != (b < 0)) mod += b;
        double whole = (a - mod) / b;
        if (op == '%') x = mod != 0 ? mod : copysign(0, b);
        else x = whole != 0 ? floor(whole + 0.5) : copysign(0, a / b);
    }
    *out = jinja_float(x);
    return 0;
}

/* "ab" * 3, [1] * 3 */
static int repeat(struct jinja_run *r, struct jinja_value a, int64_t times, struct jinja_value *out)
{
    size_t from = r->n_out;
    if (times < 0) times = 0;
    if (a.type == JINJA_STRING) {
        if (!a.n) times = 0;
        for (; times; times--)
            if (jinja_steps(r, 1) || jinja_put(r, a.s, a.n)) return -1;
        int rc = jinja_take(r, from, out);
        out->flag = a.flag; /* marked safe */
        return rc;
    }
    if (jinja_list(r, a.type, 8, out)) return -1;
    if (!a.list->n) return 0;
    for (; times; times--)
        for (size_t i = 0; i < a.list->n; i++)
            if (jinja_steps(r, 1) || jinja_push(r, out->list, a.list->item[i])) return -1;
    return 0;
}

/* Escapes v for a text marked safe. */
static int escaped(struct jinja_run *r, struct jinja_value *v)
{
    static const struct jinja_args none;
    if (v->flag) return 0;
    return jinja_call(r, jinja_find_callable(jinja_filters, "escape", 6), *v, &none, v);
}

int jinja_binary(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b,
                 struct jinja_value *out)
{
    if (op == '%' && a.type == JINJA_STRING) return jinja_percent(r, a, b, out);
    if (a.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (b.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, b);
    if (op == '+' && a.type == JINJA_STRING && b.type == JINJA_STRING) {
        int safe = a.flag || b.flag;
        if (safe && (escaped(r, &a) || escaped(r, &b))) return -1;
        if (jinja_concat(r, a, b, out)) return -1;
        out->flag = (uint8_t)safe;
        return 0;
    }
    if (jinja_is_number(a) && jinja_is_number(b))
        return a.type == JINJA_FLOAT || b.type == JINJA_FLOAT
                   ? float_binary(r, op, jinja_number(a), jinja_number(b), out)
                   : int_binary(r, op, a.i, b.i, out);
    int a_sequence = a.type == JINJA_LIST || a.type == JINJA_TUPLE,
        b_sequence = b.type == JINJA_LIST || b.type == JINJA_TUPLE;
    if (op == '+' && a_sequence && a.type == b.type) {
        if (jinja_list(r, a.type, a.list->n + b.list->n, out) ||
            jinja_steps(r, (a.list->n + b.list->n) / 8))
            return -1;
        if (a.list->n) memcpy(out->list->item, a.list->item, a.list->n * sizeof *a.list->item);
        if (b.list->n)
            memcpy(out->list->item + a.list->n, b.list->item, b.list->n * sizeof *b.list->item);
        out->list->n = a.list->n + b.list->n;
        return 0;
    }
    if (op == '*') {
        int a_whole = a.type == JINJA_INT || a.type == JINJA_BOOL,
            b_whole = b.type == JINJA_INT || b.type == JINJA_BOOL;
        if ((a_sequence || a.type == JINJA_STRING) && b_whole) return repeat(r, a, b.i, out);
        if ((b_sequence || b.type == JINJA_STRING) && a_whole) return repeat(r, b, a.i, out);
    }
    return bad_operands(r, op, a, b);
}

static int negate(struct jinja_run *r, int is_neg, struct jinja_value a, struct jinja_value *out)
{
    if (a.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
    if (!jinja_is_number(a))
        return jinja_fail(r, "bad operand type for unary %c: '%s'", is_neg ? '-' : '+',
                          jinja_type_name(a));
    if (a.type == JINJA_FLOAT) *out = jinja_float(is_neg ? -a.f : a.f);
    else if (is_neg && a.i == INT64_MIN) return too_large(r);
    else *out = jinja_int(is_neg ? -a.i : a.i);
    return 0;
}

static int compare(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_value a, b;
    if (jinja_eval(r, n->a, &a)) return -1;
    for (const struct jinja_node *o = n->b; o; o = o->next, a = b) {
        int yes;
        if (jinja_eval(r, o->a, &b)) return -1;
        r->line = o->line;
        if (o->op == OP_EQ || o->op == OP_NE) yes = jinja_equal(r, a, b);
        else if (o->op == OP_IN || o->op == OP_NOT_IN) yes = jinja_contains(r, b, a);
        else yes = jinja_less(r, a, b, o->op);
        if (yes < 0) return -1;
        if (o->op == OP_NE || o->op == OP_NOT_IN) yes = !yes;
        *out = jinja_bool(yes);
        if (!yes) return 0;
    }
    return 0;
}

static int concat(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_value v, text;
    *out = jinja_static("");
    for (const struct jinja_node *i = n->a; i; i = i->next)
        if (jinja_eval(r, i->a, &v) || jinja_str(r, v, &text) || jinja_concat(r, *out, text, out))
            return -1;
    out->flag = 0;
    return 0;
}

/* ---- calls ---- */

static int push_keyword(struct jinja_run *r, struct jinja_args *args, size_t cap, const char *name,
                        size_t n, struct jinja_value v)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (args->kw[i].n == n && !memcmp(args->kw[i].name, name, n))
            return jinja_fail(r, "got multiple values for keyword argument '%.*s'",
                              n > 60 ? 60 : (int)n, name);
    CHECK(args->n_kw < cap);
    args->kw[args->n_kw++] = (struct jinja_keyword){name, n, v};
    return 0;
}

static int spread(struct jinja_run *r, const struct jinja_node *a, struct jinja_value v,
                  struct jinja_args *args)
{
    struct jinja_value list;
    if (a->op == '*') {
        if (jinja_to_list(r, v, JINJA_LIST, &list)) return -1;
        struct jinja_value *pos = jinja_get(r, (args->n + list.list->n) * sizeof *pos);
        if (!pos) return -1;
        if (args->n) memcpy(pos, args->pos, args->n * sizeof *pos);
        if (list.list->n) memcpy(pos + args->n, list.list->item, list.list->n * sizeof *pos);
        args->pos = pos;
        args->n += list.list->n;
        return 0;
    }
    if (v.type != JINJA_DICT)
        return jinja_fail(r, "argument after ** must be a mapping, not %s", jinja_type_name(v));
    size_t cap = args->n_kw + v.dict->n;
    struct jinja_keyword *kw = jinja_get(r, cap * sizeof *kw);
    if (!kw) return -1;
    if (args->n_kw) memcpy(kw, args->kw, args->n_kw * sizeof *kw);
    args->kw = kw;
    for (size_t i = 0; i < v.dict->n; i++) {
        struct jinja_value key = v.dict->pair[i].key;
        if (key.type != JINJA_STRING) return jinja_fail(r, "keywords must be strings");
        if (push_keyword(r, args, cap, key.s, key.n, v.dict->pair[i].value)) return -1;
    }
    return 0;
}

int jinja_args_eval(struct jinja_run *r, const struct jinja_node *first, struct jinja_args *args)
{
    size_t n = 0, n_kw = 0;
    *args = (struct jinja_args){0};
    for (const struct jinja_node *a = first; a; a = a->next) n += !a->op, n_kw += a->op == 'k';
    if (!first) return 0;
    if (!(args->pos = jinja_get(r, n * sizeof *args->pos)) ||
        !(args->kw = jinja_get(r, n_kw * sizeof *args->kw)))
        return -1;
    for (const struct jinja_node *a = first; a; a = a->next) {
        struct jinja_value v;
        if (jinja_eval(r, a->a, &v)) return -1;
        if (!a->op) args->pos[args->n++] = v;
        else if (a->op == 'k' ? push_keyword(r, args, n_kw, a->value.s, a->value.n, v)
                              : spread(r, a, v, args))
            return -1;
    }
    return 0;
}

const struct jinja_callable *jinja_find_callable(const struct jinja_callable *table,
                                                 const char *name, size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && !memcmp(table->name, name, n)) return table;
    return NULL;
}

/* Binds the arguments to the slots of c->params. */
static int bind(struct jinja_run *r, const struct jinja_callable *c, const struct jinja_args *args,
                struct jinja_value *slot)
{
    size_t n = 0, taken = 0;
    for (const char *p = c->params; *p; n++) {
        int must = *p == '!';
        p += must;
        size_t len = strcspn(p, " ");
        if (n < args->n) slot[n] = args->pos[n];
        for (size_t i = 0; i < args->n_kw; i++) {
            if (args->kw[i].n != len || memcmp(args->kw[i].name, p, len)) continue;
            if (slot[n].type != JINJA_ABSENT)
                return jinja_fail(r, "%s() got multiple values for argument '%.*s'", c->name,
                                  (int)len, p);
            slot[n] = args->kw[i].value;
            taken++;
        }
        if (must && slot[n].type == JINJA_ABSENT)
            return jinja_fail(r, "%s() is missing the argument '%.*s'", c->name, (int)len, p);
        p += len;
        p += *p == ' ';
    }
    if (args->n > n)
        return jinja_fail(r, "%s() takes at most %zu arguments (%zu given)", c->name, n, args->n);
    if (taken < args->n_kw)
        return jinja_fail(r, "%s() got an unexpected keyword argument", c->name);
    return 0;
}

/* The result of a filter or method on a text marked safe is marked safe. Where Python would escape
 * arguments, too, this is refused. */
static int keep_safe(struct jinja_run *r, const struct jinja_callable *c, struct jinja_value *out)
{
    static const char *const fine[] = {
        "upper", "lower",       "capitalize", "title", "trim",  "string", "safe",   "escape",
        "e",     "forceescape", "default",    "d",     "strip", "lstrip", "rstrip", "swapcase"};
    if (out->type != JINJA_STRING && (out->type < JINJA_LIST || out->type > JINJA_GENERATOR))
        return 0;
    if (!strcmp(c->name, "tojson")) return 0;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (!strcmp(c->name, fine[i])) {
            out->flag = 1;
            return 0;
        }
    return jinja_fail(r, "'%s' of a text marked safe is not supported", c->name);
}

int jinja_call(struct jinja_run *r, const struct jinja_callable *c, struct jinja_value on,
               const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_value slot[JINJA_MAX_PARAMS] = {{0}};
    if (!c->run) return jinja_fail(r, "'%s' is not supported in chat templates", c->name);
    if (*c->params != '*' && bind(r, c, args, slot)) return -1;
    if (on.type == JINJA_STRING && on.n > 16 && jinja_steps(r, on.n / 16)) return -1;
    if (c->run(r, on, args, slot, out)) return -1;
    return on.type == JINJA_STRING && on.flag ? keep_safe(r, c, out) : 0;
}

int jinja_call_value(struct jinja_run *r, struct jinja_value f, const struct jinja_args *args,
                     struct jinja_value *out)
{
    static const struct jinja_value nothing;
    if (f.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, f);
    if (f.type == JINJA_FUNCTION) return jinja_call(r, f.function, nothing, args, out);
    if (f.type == JINJA_METHOD) return jinja_call(r, f.method->callable, f.method->self, args, out);
    if (f.type == JINJA_MACRO) return jinja_call_macro(r, f.macro, args, out);
    if (f.type == JINJA_LOOP) return jinja_call_loop(r, f.loop, args, out);
    return jinja_fail(r, "'%s' object is not callable", jinja_type_name(f));
}

static int call(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_args args;
    struct jinja_value f;
    if (jinja_eval(r, n->a, &f) || jinja_args_eval(r, n->b, &args)) return -1;
    r->line = n->line;
    return jinja_call_value(r, f, &args, out);
}

int jinja_filters_eval(struct jinja_run *r, const struct jinja_node *n,
                       const struct jinja_value *block, struct jinja_value *out)
{
    struct jinja_args args;
    struct jinja_value on;
    int rc = 0;
    if (jinja_enter(r)) return -1;
    if (!n->a) on = *block;
    else
        rc = n->a->kind == NODE_FILTER ? jinja_filters_eval(r, n->a, block, &on)
                                       : jinja_eval(r, n->a, &on);
    r->depth--;
    if (rc) return -1;
    r->line = n->line;
    if (!n->callable)
        return jinja_fail(r, "No filter named '%.*s' found.",
                          n->value.n > 60 ? 60 : (int)n->value.n, n->value.s);
    if (jinja_args_eval(r, n->b, &args)) return -1;
    r->line = n->line;
    return jinja_call(r, n->callable, on, &args, out);
}

static int test(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_args args;
    struct jinja_value on;
    if (jinja_eval(r, n->a, &on)) return -1;
    r->line = n->line;
    if (!n->callable)
        return jinja_fail(r, "No test named '%.*s' found.", n->value.n > 60 ? 60 : (int)n->value.n,
                          n->value.s);
    if (jinja_args_eval(r, n->b, &args) || jinja_call(r, n->callable, on, &args, out)) return -1;
    *out = jinja_bool(jinja_truth(*out));
    return 0;
}

/* ---- the rest ---- */

static int name(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    if (jinja_lookup(r, n->name, out)) return 0;
    if (n->callable) {
        if (!n->callable->run)
            return jinja_fail(r, "'%s' is not supported in chat templates", n->callable->name);
        *out = (struct jinja_value){.type = JINJA_FUNCTION, .function = n->callable};
        return 0;
    }
    const struct jinja_name *s = &r->t->names[n->name];
    *out = jinja_undefined(JINJA_NO_NAME, jinja_none(), s->s, s->n);
    return 0;
}

static int item(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_value a, b;
    if (jinja_eval(r, n->a, &a)) return -1;
    if (n->b->kind == NODE_SLICE) {
        const struct jinja_node *part[3] = {n->b->a, n->b->b, n->b->c};
        struct jinja_value bound[3];
        for (int i = 0; i < 3; i++) {
            bound[i] = jinja_none();
            if (part[i] && jinja_eval(r, part[i], &bound[i])) return -1;
        }
        r->line = n->line;
        return jinja_slice(r, a, bound, out);
    }
    if (jinja_eval(r, n->b, &b)) return -1;
    r->line = n->line;
    return jinja_item(r, a, b, out);
}

static int sequence(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_value v;
    if (jinja_list(r, n->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE, 4, out)) return -1;
    for (const struct jinja_node *i = n->a; i; i = i->next)
        if (jinja_eval(r, i->a, &v) || jinja_push(r, out->list, v)) return -1;
    return 0;
}

static int dict(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_value k, v;
    if (jinja_dict(r, JINJA_DICT, 4, out)) return -1;
    for (const struct jinja_node *i = n->a; i; i = i->next)
        if (jinja_eval(r, i->a, &k) || jinja_eval(r, i->b, &v) ||
            jinja_dict_set(r, out->dict, k, v))
            return -1;
    return 0;
}

static int cond(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    static const char hint[] =
        "the inline if-expression evaluated to false and no else section was defined.";
    struct jinja_value v;
    if (jinja_eval(r, n->a, &v)) return -1;
    if (jinja_truth(v)) return jinja_eval(r, n->b, out);
    if (n->c) return jinja_eval(r, n->c, out);
    *out = jinja_undefined(JINJA_HINT, v, hint, sizeof hint - 1);
    return 0;
}

static int eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    struct jinja_value a, b;
    switch ((enum jinja_kind)n->kind) {
    case NODE_CONST: *out = n->value; return 0;
    case NODE_NAME: return name(r, n, out);
    case NODE_LIST:
    case NODE_TUPLE: return sequence(r, n, out);
    case NODE_DICT: return dict(r, n, out);
    case NODE_GETATTR:
        if (jinja_eval(r, n->a, &a)) return -1;
        r->line = n->line;
        return jinja_attribute(r, a, n->value.s, n->value.n, out);
    case NODE_GETITEM: return item(r, n, out);
    case NODE_CALL: return call(r, n, out);
    case NODE_FILTER: return jinja_filters_eval(r, n, NULL, out);
    case NODE_TEST: return test(r, n, out);
    case NODE_NOT:
        if (jinja_eval(r, n->a, &a)) return -1;
        *out = jinja_bool(!jinja_truth(a));
        return 0;
    case NODE_NEG:
    case NODE_POS:
        return jinja_eval(r, n->a, &a) || negate(r, n->kind == NODE_NEG, a, out) ? -1 : 0;
    case NODE_BINARY:
        if (jinja_eval(r, n->a, &a) || jinja_eval(r, n->b, &b)) return -1;
        r->line = n->line;
        return jinja_binary(r, n->op, a, b, out);
    case NODE_AND:
    case NODE_OR:
        if (jinja_eval(r, n->a, out)) return -1;
        return jinja_truth(*out) == (n->kind == NODE_AND) ? jinja_eval(r, n->b, out) : 0;
    case NODE_COMPARE: return compare(r, n, out);
    case NODE_CONCAT: return concat(r, n, out);
    case NODE_COND: return cond(r, n, out);
    default: check_failed("an expression", __FILE__, __LINE__);
    }
}

int jinja_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out)
{
    r->line = n->line;
    if (jinja_steps(r, 1) || jinja_enter(r)) return -1;
    int rc = eval(r, n, out);
    r->depth--;
    return rc;
}
