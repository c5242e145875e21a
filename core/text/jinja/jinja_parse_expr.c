/* jinja_parse_expr.c: expressions, in Jinja's order of precedence (jinja2/parser.py): a if b else
 * c; or; and; not; comparisons, in; + -; ~; * / // %; **; unary; .a [b] (c); | filters, is tests.
 */
#include "core/text/jinja/jinja_internal.h"

#include <string.h>

static struct jinja_node *parse_unary(struct jinja_parser *p, int with_filter);
static struct jinja_node *parse_primary(struct jinja_parser *p, int with_namespace);

static struct jinja_node *unexpected(struct jinja_parser *p)
{
    jinja_parse_unexpected(p);
    return NULL;
}

static struct jinja_node *binary(struct jinja_parser *p, enum jinja_kind kind, int op, int line,
                                 struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *n = b ? jinja_parse_node(p, kind, line) : NULL;
    if (n) n->op = (uint8_t)op, n->a = a, n->b = b;
    return n;
}

static int name_is(const struct jinja_parser *p, const char *s)
{
    return jinja_parse_is_name(p->tok, s);
}
static int op_is(const struct jinja_parser *p, int op) { return jinja_parse_is_op(p->tok, op); }

/* ---- calls, subscripts, filters, tests ---- */

/* (a, *b, c=d, **e) -> NODE_ARGs; *args stays NULL if there are none. */
static int parse_args(struct jinja_parser *p, struct jinja_node **args)
{
    int line = p->tok->line, seen_kw = 0, seen_star = 0, seen_dict = 0;
    if (jinja_parse_expect_op(p, '(')) return -1;
    while (!op_is(p, ')')) {
        if (*args) {
            if (jinja_parse_expect_op(p, ',')) return -1;
            if (op_is(p, ')')) break;
        }
        while (*args) args = &(*args)->next;
        struct jinja_node *n = jinja_parse_node(p, NODE_ARG, p->tok->line);
        if (!n) return -1;
        int bad;
        if (op_is(p, '*') || op_is(p, OP_POW)) {
            n->op = op_is(p, '*') ? '*' : 'd';
            bad = seen_dict || (n->op == '*' && seen_star);
            if (n->op == '*') seen_star = 1;
            else seen_dict = 1;
            p->tok++;
        } else if (p->tok->type == TOK_NAME && jinja_parse_is_op(p->tok + 1, '=')) {
            n->op = 'k';
            n->value = jinja_bytes(p->tok->s, p->tok->n);
            bad = seen_dict;
            seen_kw = 1;
            p->tok += 2;
        } else {
            bad = seen_kw || seen_star || seen_dict;
        }
        if (bad) return jinja_parse_fail(p, line, "invalid syntax for function call expression");
        if (!(n->a = jinja_parse_expression(p, 1))) return -1;
        *args = n;
        if (!op_is(p, ',') && !op_is(p, ')')) return jinja_parse_unexpected(p);
    }
    return jinja_parse_expect_op(p, ')');
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *f)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_CALL, p->tok->line);
    if (!n || parse_args(p, &n->b)) return NULL;
    n->a = f;
    return n;
}

static struct jinja_node *parse_subscribed(struct jinja_parser *p)
{
    struct jinja_node *n = NULL, *slice;
    int line = p->tok->line;
    if (!op_is(p, ':')) {
        n = jinja_parse_expression(p, 1);
        if (!n || !op_is(p, ':')) return n;
    }
    p->tok++;
    if (!(slice = jinja_parse_node(p, NODE_SLICE, line))) return NULL;
    slice->a = n;
    if (!op_is(p, ':') && !op_is(p, ']') && !op_is(p, ',') &&
        !(slice->b = jinja_parse_expression(p, 1)))
        return NULL;
    if (op_is(p, ':')) {
        p->tok++;
        if (!op_is(p, ']') && !op_is(p, ',') && !(slice->c = jinja_parse_expression(p, 1)))
            return NULL;
    }
    return slice;
}

static struct jinja_node *parse_subscript(struct jinja_parser *p, struct jinja_node *of)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_GETITEM, p->tok->line);
    if (!n) return NULL;
    n->a = of;
    if (op_is(p, '.')) {
        p->tok++;
        if (p->tok->type == TOK_NAME) {
            n->kind = NODE_GETATTR;
            n->value = jinja_bytes(p->tok->s, p->tok->n);
        } else if (p->tok->type == TOK_INTEGER) {
            if (!(n->b = jinja_parse_node(p, NODE_CONST, p->tok->line))) return NULL;
            n->b->value = jinja_int(p->tok->i);
        } else {
            jinja_parse_fail(p, p->tok->line, "expected name or number");
            return NULL;
        }
        p->tok++;
        return n;
    }
    p->tok++;
    if (!(n->b = parse_subscribed(p))) return NULL;
    if (op_is(p, ',')) {
        jinja_parse_fail(p, p->tok->line, "several subscripts at once are not supported");
        return NULL;
    }
    return jinja_parse_expect_op(p, ']') ? NULL : n;
}

/* Parses the name of a filter or a test, with dots. */
static int parse_dotted(struct jinja_parser *p, struct jinja_node *n,
                        const struct jinja_callable *table)
{
    if (p->tok->type != TOK_NAME) return jinja_parse_unexpected(p);
    n->value = jinja_bytes(p->tok->s, p->tok->n);
    n->callable = jinja_find_callable(table, p->tok->s, p->tok->n);
    p->tok++;
    if (op_is(p, '.'))
        return jinja_parse_fail(p, p->tok->line,
                                "a filter or test with a dotted name is not supported");
    return 0;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *on, int at_name)
{
    while (op_is(p, '|') || at_name) {
        if (!at_name) p->tok++;
        at_name = 0;
        struct jinja_node *n = jinja_parse_node(p, NODE_FILTER, p->tok->line);
        if (!n || parse_dotted(p, n, jinja_filters) || (op_is(p, '(') && parse_args(p, &n->b)))
            return NULL;
        n->a = on;
        on = n;
    }
    return on;
}

static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *n)
{
    while (n && (op_is(p, '.') || op_is(p, '[') || op_is(p, '(')))
        n = op_is(p, '(') ? parse_call(p, n) : parse_subscript(p, n);
    return n;
}

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *on)
{
    int line = p->tok->line, negated = 0;
    p->tok++;
    if (name_is(p, "not")) negated = 1, p->tok++;
    struct jinja_node *n = jinja_parse_node(p, NODE_TEST, line);
    if (!n || parse_dotted(p, n, jinja_tests)) return NULL;
    n->a = on;
    const struct jinja_token *t = p->tok;
    if (op_is(p, '(')) {
        if (parse_args(p, &n->b)) return NULL;
    } else if ((t->type == TOK_NAME && !name_is(p, "else") && !name_is(p, "or") &&
                !name_is(p, "and")) ||
               t->type == TOK_STRING || t->type == TOK_INTEGER || t->type == TOK_FLOAT ||
               op_is(p, '[') || op_is(p, '{')) {
        if (name_is(p, "is")) {
            jinja_parse_fail(p, t->line, "You cannot chain multiple tests with is");
            return NULL;
        }
        struct jinja_node *arg = parse_primary(p, 0);
        if (!(arg = parse_postfix(p, arg)) || !(n->b = jinja_parse_node(p, NODE_ARG, t->line)))
            return NULL;
        n->b->a = arg;
    }
    if (!negated) return n;
    struct jinja_node *not = jinja_parse_node(p, NODE_NOT, line);
    if (not) not->a = n;
    return not;
}

static struct jinja_node *parse_filter_expr(struct jinja_parser *p, struct jinja_node *n)
{
    while (n) {
        if (op_is(p, '|')) n = jinja_parse_filters(p, n, 0);
        else if (name_is(p, "is")) n = parse_test(p, n);
        else if (op_is(p, '(')) n = parse_call(p, n);
        else break;
    }
    return n;
}

/* ---- primaries ---- */

static struct jinja_node *parse_items(struct jinja_parser *p, int is_dict)
{
    struct jinja_node *n = jinja_parse_node(p, is_dict ? NODE_DICT : NODE_LIST, p->tok->line), **at;
    int end = is_dict ? '}' : ']';
    if (!n) return NULL;
    p->tok++;
    for (at = &n->a; !op_is(p, end); at = &(*at)->next) {
        if (n->a && jinja_parse_expect_op(p, ',')) return NULL;
        if (op_is(p, end)) break;
        struct jinja_node *item = jinja_parse_expression(p, 1), *pair;
        if (!item) return NULL;
        /* wrapped: an item that is itself in a list (a value used twice) would lose its link */
        if (!(pair = jinja_parse_node(p, NODE_PAIR, item->line))) return NULL;
        pair->a = item;
        if (is_dict && (jinja_parse_expect_op(p, ':') || !(pair->b = jinja_parse_expression(p, 1))))
            return NULL;
        *at = pair;
    }
    p->tok++;
    return n;
}

static struct jinja_node *parse_strings(struct jinja_parser *p)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_CONST, p->tok->line);
    if (!n) return NULL;
    size_t bytes = 0, used = 0;
    const struct jinja_token *first = p->tok;
    for (; p->tok->type == TOK_STRING; p->tok++) bytes += p->tok->n;
    n->value = jinja_bytes(first->s, first->n);
    if (p->tok - first == 1) return n;
    char *s = jinja_arena_get(&p->t->arena, bytes + 1);
    if (!s) {
        err_memory(p->e);
        return NULL;
    }
    for (; first < p->tok; used += first->n, first++) memcpy(s + used, first->s, first->n);
    n->value = jinja_bytes(s, bytes);
    return n;
}

static struct jinja_node *parse_name(struct jinja_parser *p, int with_namespace)
{
    const struct jinja_token *t = p->tok++;
    struct jinja_node *n = jinja_parse_node(p, NODE_CONST, t->line);
    if (!n) return NULL;
    int yes = jinja_parse_is_name(t, "true") || jinja_parse_is_name(t, "True");
    if (yes || jinja_parse_is_name(t, "false") || jinja_parse_is_name(t, "False")) {
        n->value = jinja_bool(yes);
        return n;
    }
    if (jinja_parse_is_name(t, "none") || jinja_parse_is_name(t, "None")) {
        n->value = jinja_none();
        return n;
    }
    n->kind = NODE_NAME;
    if ((n->name = jinja_parse_intern(p, t->s, t->n)) < 0) return NULL;
    p->t->names[n->name].read |= !p->in_target;
    if (p->macro) {
        if (n->name == p->t->caller_name) *p->macro |= MACRO_CALLER;
        if (n->name == p->t->varargs_name) *p->macro |= MACRO_VARARGS;
        if (n->name == p->t->kwargs_name) *p->macro |= MACRO_KWARGS;
    }
    n->callable = jinja_find_callable(jinja_globals, t->s, t->n);
    if (with_namespace && op_is(p, '.')) {
        p->tok++;
        if (p->tok->type != TOK_NAME) return unexpected(p);
        n->kind = NODE_NSREF;
        n->value = jinja_bytes(p->tok->s, p->tok->n);
        p->tok++;
    }
    return n;
}

static struct jinja_node *parse_primary(struct jinja_parser *p, int with_namespace)
{
    const struct jinja_token *t = p->tok;
    struct jinja_node *n = NULL;
    if (t->type == TOK_NAME) return parse_name(p, with_namespace);
    if (t->type == TOK_STRING) return parse_strings(p);
    if (t->type == TOK_INTEGER || t->type == TOK_FLOAT) {
        if (!(n = jinja_parse_node(p, NODE_CONST, t->line))) return NULL;
        n->value = t->type == TOK_FLOAT ? jinja_float(t->f) : jinja_int(t->i);
        p->tok++;
        return n;
    }
    if (op_is(p, '(')) {
        p->tok++;
        n = jinja_parse_tuple(p, 1, 1, NULL);
        return !n || jinja_parse_expect_op(p, ')') ? NULL : n;
    }
    if (op_is(p, '[') || op_is(p, '{')) return parse_items(p, op_is(p, '{'));
    return unexpected(p);
}

static int is_tuple_end(const struct jinja_parser *p, const char *end)
{
    return p->tok->type == TOK_VARIABLE_END || p->tok->type == TOK_BLOCK_END || op_is(p, ')') ||
           (end && name_is(p, end));
}

/* Parses expressions or targets separated by commas; a single one is returned as itself. */
static struct jinja_node *parse_sequence(struct jinja_parser *p,
                                         struct jinja_node *(*item)(struct jinja_parser *, int),
                                         int arg, int parentheses, const char *end)
{
    struct jinja_node *first = NULL, **at = &first, *tuple;
    int line = p->tok->line, is_tuple = 0;
    for (;;) {
        if (is_tuple_end(p, end)) break;
        struct jinja_node *pair = jinja_parse_node(p, NODE_PAIR, p->tok->line);
        if (!pair || !(pair->a = item(p, arg))) return NULL;
        *at = pair;
        at = &pair->next;
        if (!op_is(p, ',')) break;
        is_tuple = 1;
        p->tok++;
    }
    if (!is_tuple && first) return first->a;
    if (!is_tuple && !parentheses) return unexpected(p);
    if (!(tuple = jinja_parse_node(p, NODE_TUPLE, line))) return NULL;
    tuple->a = first;
    return tuple;
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, int with_cond, int parentheses,
                                     const char *end)
{
    return parse_sequence(p, jinja_parse_expression, with_cond, parentheses, end);
}

static int can_assign(struct jinja_parser *p, const struct jinja_node *n)
{
    if (n->kind == NODE_NAME || n->kind == NODE_NSREF) return 0;
    if (n->kind != NODE_TUPLE)
        return jinja_parse_fail(p, n->line, "can't assign to this expression");
    for (const struct jinja_node *i = n->a; i; i = i->next)
        if (can_assign(p, i->a)) return -1;
    return 0;
}

struct jinja_node *jinja_parse_target(struct jinja_parser *p, int with_namespace, const char *end)
{
    p->in_target = 1;
    struct jinja_node *n = parse_sequence(p, parse_primary, with_namespace, 0, end);
    p->in_target = 0;
    return !n || can_assign(p, n) ? NULL : n;
}

/* ---- operators ---- */

static struct jinja_node *parse_unary(struct jinja_parser *p, int with_filter)
{
    struct jinja_node *n, *of;
    int line = p->tok->line;
    if (op_is(p, '-') || op_is(p, '+')) {
        int op = p->tok->op;
        if (++p->depth > JINJA_MAX_PARSE_DEPTH) {
            jinja_parse_fail(p, line, "more than %d levels within each other",
                             JINJA_MAX_PARSE_DEPTH);
            return NULL;
        }
        p->tok++;
        if (!(of = parse_unary(p, 0)) ||
            !(n = jinja_parse_node(p, op == '-' ? NODE_NEG : NODE_POS, line)))
            return NULL;
        n->a = of;
        p->depth--;
    } else {
        n = parse_primary(p, 0);
    }
    n = parse_postfix(p, n);
    return n && with_filter ? parse_filter_expr(p, n) : n;
}

static struct jinja_node *parse_pow(struct jinja_parser *p)
{
    int line = p->tok->line;
    struct jinja_node *n = parse_unary(p, 1);
    while (n && op_is(p, OP_POW)) {
        p->tok++;
        n = binary(p, NODE_BINARY, OP_POW, line, n, parse_unary(p, 1));
    }
    return n;
}

static struct jinja_node *parse_product(struct jinja_parser *p)
{
    int line = p->tok->line;
    struct jinja_node *n = parse_pow(p);
    while (n && (op_is(p, '*') || op_is(p, '/') || op_is(p, OP_FLOORDIV) || op_is(p, '%'))) {
        int op = p->tok->op;
        p->tok++;
        n = binary(p, NODE_BINARY, op, line, n, parse_pow(p));
    }
    return n;
}

static struct jinja_node *parse_concat(struct jinja_parser *p)
{
    struct jinja_node *first = parse_product(p), *n = first, *pair, **at;
    if (!first || !op_is(p, '~')) return first;
    if (!(n = jinja_parse_node(p, NODE_CONCAT, first->line)) ||
        !(pair = jinja_parse_node(p, NODE_PAIR, first->line)))
        return NULL;
    pair->a = first;
    n->a = pair;
    for (at = &pair->next; op_is(p, '~'); at = &(*at)->next) {
        p->tok++;
        if (!(*at = jinja_parse_node(p, NODE_PAIR, p->tok->line)) || !((*at)->a = parse_product(p)))
            return NULL;
    }
    return n;
}

static struct jinja_node *parse_sum(struct jinja_parser *p)
{
    int line = p->tok->line;
    struct jinja_node *n = parse_concat(p);
    while (n && (op_is(p, '+') || op_is(p, '-'))) {
        int op = p->tok->op;
        p->tok++;
        n = binary(p, NODE_BINARY, op, line, n, parse_concat(p));
    }
    return n;
}

static int comparison(const struct jinja_parser *p)
{
    if (p->tok->type == TOK_OPERATOR && p->tok->op >= OP_EQ && p->tok->op <= OP_GE)
        return p->tok->op;
    if (name_is(p, "in")) return OP_IN;
    return name_is(p, "not") && jinja_parse_is_name(p->tok + 1, "in") ? OP_NOT_IN : 0;
}

static struct jinja_node *parse_compare(struct jinja_parser *p)
{
    struct jinja_node *first = parse_sum(p), *n = NULL, **at = NULL;
    for (int op; first && (op = comparison(p));) {
        if (!n) {
            if (!(n = jinja_parse_node(p, NODE_COMPARE, first->line))) return NULL;
            n->a = first;
            at = &n->b;
        }
        int line = p->tok->line;
        p->tok += op == OP_NOT_IN ? 2 : 1;
        struct jinja_node *operand = jinja_parse_node(p, NODE_OPERAND, line);
        if (!operand || !(operand->a = parse_sum(p))) return NULL;
        operand->op = (uint8_t)op;
        *at = operand;
        at = &operand->next;
    }
    return n ? n : first;
}

static struct jinja_node *parse_not(struct jinja_parser *p)
{
    struct jinja_node *n, *first = NULL, **at = &first;
    while (name_is(p, "not")) { /* a loop, not recursion: a template may have any number of them */
        if (!(n = jinja_parse_node(p, NODE_NOT, p->tok->line))) return NULL;
        p->tok++;
        *at = n;
        at = &n->a;
    }
    return (*at = parse_compare(p)) ? first : NULL;
}

static struct jinja_node *parse_and(struct jinja_parser *p)
{
    int line = p->tok->line;
    struct jinja_node *n = parse_not(p);
    while (n && name_is(p, "and")) {
        p->tok++;
        n = binary(p, NODE_AND, 0, line, n, parse_not(p));
    }
    return n;
}

static struct jinja_node *parse_or(struct jinja_parser *p)
{
    int line = p->tok->line;
    struct jinja_node *n = parse_and(p);
    while (n && name_is(p, "or")) {
        p->tok++;
        n = binary(p, NODE_OR, 0, line, n, parse_and(p));
    }
    return n;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *p, int with_cond)
{
    if (++p->depth > JINJA_MAX_PARSE_DEPTH) {
        jinja_parse_fail(p, p->tok->line, "more than %d levels within each other",
                         JINJA_MAX_PARSE_DEPTH);
        return NULL;
    }
    int line = p->tok->line;
    struct jinja_node *n = parse_or(p);
    while (n && with_cond && name_is(p, "if")) {
        p->tok++;
        struct jinja_node *cond = jinja_parse_node(p, NODE_COND, line);
        if (!cond || !(cond->a = parse_or(p))) return NULL;
        cond->b = n;
        if (name_is(p, "else")) {
            p->tok++;
            if (!(cond->c = jinja_parse_expression(p, 1))) return NULL;
        }
        n = cond;
    }
    p->depth--;
    return n;
}
