/* jinja_parse.c: tokens to syntax tree: statements, and helpers of both halves of the parser. */
#include "core/text/jinja/jinja_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int jinja_parse_fail(struct jinja_parser *p, int line, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(p->e, "line %d: %s", line, text);
}

struct jinja_node *jinja_parse_node(struct jinja_parser *p, enum jinja_kind kind, int line)
{
    struct jinja_node *n = jinja_arena_get(&p->t->arena, sizeof *n);
    if (!n) {
        err_memory(p->e);
        return NULL;
    }
    n->kind = (uint8_t)kind;
    n->line = line;
    n->name = -1;
    return n;
}

int jinja_parse_is_name(const struct jinja_token *t, const char *name)
{
    return t->type == TOK_NAME && t->n == strlen(name) && !memcmp(t->s, name, t->n);
}

int jinja_parse_is_op(const struct jinja_token *t, int op)
{
    return t->type == TOK_OPERATOR && t->op == op;
}

int jinja_parse_unexpected(struct jinja_parser *p)
{
    const struct jinja_token *t = p->tok;
    static const char *const doubles[] = {"", "==", "!=", "<", "<=", ">", ">=", "", "", "//", "**"};
    switch ((enum jinja_token_type)t->type) {
    case TOK_EOF: return jinja_parse_fail(p, t->line, "unexpected end of the template");
    case TOK_VARIABLE_END: return jinja_parse_fail(p, t->line, "unexpected end of print statement");
    case TOK_BLOCK_END: return jinja_parse_fail(p, t->line, "unexpected end of statement block");
    case TOK_NAME:
    case TOK_STRING:
        return jinja_parse_fail(p, t->line, "unexpected '%.*s'", t->n > 60 ? 60 : (int)t->n, t->s);
    case TOK_INTEGER: return jinja_parse_fail(p, t->line, "unexpected '%lld'", (long long)t->i);
    case TOK_FLOAT: return jinja_parse_fail(p, t->line, "unexpected '%g'", t->f);
    case TOK_OPERATOR:
        if (t->op <= OP_POW) return jinja_parse_fail(p, t->line, "unexpected '%s'", doubles[t->op]);
        return jinja_parse_fail(p, t->line, "unexpected '%c'", t->op);
    default: return jinja_parse_fail(p, t->line, "unexpected text");
    }
}

int jinja_parse_expect_op(struct jinja_parser *p, int op)
{
    if (!jinja_parse_is_op(p->tok, op)) return jinja_parse_unexpected(p);
    p->tok++;
    return 0;
}

/* The slot of a name, or the free one where it would be. */
static uint32_t *name_slot(const struct jinja *t, const char *s, size_t n)
{
    size_t at = (size_t)jinja_hash(s, n) & (t->n_name_slots - 1);
    for (; t->name_slot[at]; at = (at + 1) & (t->n_name_slots - 1)) {
        const struct jinja_name *x = &t->names[t->name_slot[at] - 1];
        if (x->n == n && !memcmp(x->s, s, n)) break;
    }
    return &t->name_slot[at];
}

int jinja_name_of(const struct jinja *t, const char *s, size_t n)
{
    return t->n_names ? (int)*name_slot(t, s, n) - 1 : -1;
}

/* Room for one more name, and four slots for each. */
static int grow_names(struct jinja *t)
{
    size_t cap = t->names_cap ? 2 * t->names_cap : 64;
    struct jinja_name *grown = jinja_arena_get(&t->arena, cap * sizeof *grown);
    uint32_t *slots = jinja_arena_get(&t->arena, 4 * cap * sizeof *slots); /* zeros */
    if (!grown || !slots) return -1;
    if (t->n_names) memcpy(grown, t->names, t->n_names * sizeof *grown);
    t->names = grown;
    t->names_cap = cap;
    t->name_slot = slots;
    t->n_name_slots = 4 * cap;
    for (size_t i = 0; i < t->n_names; i++) *name_slot(t, grown[i].s, grown[i].n) = (uint32_t)i + 1;
    return 0;
}

int jinja_parse_intern(struct jinja_parser *p, const char *s, size_t n)
{
    struct jinja *t = p->t;
    int known = jinja_name_of(t, s, n);
    if (known >= 0) return known;
    if (t->n_names == t->names_cap && grow_names(t)) return err_memory(p->e);
    uint32_t *slot = name_slot(t, s, n);
    t->names[t->n_names++] = (struct jinja_name){.s = s, .n = n};
    *slot = (uint32_t)t->n_names;
    return (int)t->n_names - 1;
}

/* ---- statements ---- */

static struct jinja_node *parse_until(struct jinja_parser *p, const char *const *ends, int tag_line,
                                      const char *tag);

/* 1 if the next token after a block's begin is one of ENDS (NULL-terminated). */
static int at_end(const struct jinja_parser *p, const char *const *ends)
{
    for (int i = 0; ends && ends[i]; i++)
        if (jinja_parse_is_name(p->tok, ends[i])) return 1;
    return 0;
}

static int expect_block_end(struct jinja_parser *p)
{
    if (p->tok->type != TOK_BLOCK_END) return jinja_parse_unexpected(p);
    p->tok++;
    return 0;
}

/* Parses a body up to one of ENDS, which becomes the current token. *body is NULL for an empty
 * body. */
static int parse_body(struct jinja_parser *p, struct jinja_node **body, const char *const *ends,
                      int line, const char *tag)
{
    if (jinja_parse_is_op(p->tok, ':')) p->tok++;
    if (expect_block_end(p)) return -1;
    p->e->msg[0] = 0;
    *body = parse_until(p, ends, line, tag);
    return *body || !p->e->msg[0] ? 0 : -1;
}

/* The same for a single END, whose tag is consumed. */
static int parse_whole_body(struct jinja_parser *p, struct jinja_node **body, const char *end,
                            int line)
{
    const char *const ends[] = {end, NULL};
    if (parse_body(p, body, ends, line, end + 3)) return -1;
    p->tok++;
    return 0;
}

static struct jinja_node *parse_if(struct jinja_parser *p, int line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *first = jinja_parse_node(p, NODE_IF, line), *n = first;
    while (n) {
        if (!(n->a = jinja_parse_tuple(p, 0, 0, NULL)) || parse_body(p, &n->body, ends, line, "if"))
            return NULL;
        if (jinja_parse_is_name(p->tok, "elif")) {
            n->other = jinja_parse_node(p, NODE_IF, p->tok->line);
            n = n->other;
            p->tok++;
            continue;
        }
        if (jinja_parse_is_name(p->tok, "else")) {
            p->tok++;
            return parse_whole_body(p, &n->other, "endif", line) ? NULL : first;
        }
        p->tok++;
        return first;
    }
    return NULL;
}

static struct jinja_node *parse_for(struct jinja_parser *p, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jinja_node *n = jinja_parse_node(p, NODE_FOR, line);
    if (!n || !(n->a = jinja_parse_target(p, 0, "in"))) return NULL;
    if (!jinja_parse_is_name(p->tok, "in")) {
        jinja_parse_unexpected(p);
        return NULL;
    }
    p->tok++;
    if (!(n->b = jinja_parse_tuple(p, 0, 0, "recursive"))) return NULL;
    if (jinja_parse_is_name(p->tok, "if")) {
        p->tok++;
        if (!(n->c = jinja_parse_expression(p, 1))) return NULL;
    }
    if (jinja_parse_is_name(p->tok, "recursive")) n->op = 1, p->tok++;
    p->n_loops++;
    int rc = parse_body(p, &n->body, ends, line, "for");
    p->n_loops--;
    if (rc) return NULL;
    if (jinja_parse_is_name(p->tok, "else")) {
        p->tok++;
        return parse_whole_body(p, &n->other, "endfor", line) ? NULL : n;
    }
    p->tok++;
    return n;
}

static struct jinja_node *parse_set(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_SET, line);
    if (!n || !(n->a = jinja_parse_target(p, 1, NULL))) return NULL;
    if (jinja_parse_is_op(p->tok, '=')) {
        p->tok++;
        return (n->b = jinja_parse_tuple(p, 1, 0, NULL)) ? n : NULL;
    }
    n->kind = NODE_SET_BLOCK;
    if (jinja_parse_is_op(p->tok, '|') && !(n->b = jinja_parse_filters(p, NULL, 0))) return NULL;
    return parse_whole_body(p, &n->body, "endset", line) ? NULL : n;
}

/* (a, b=1): NODE_PAIRs of NODE_NAME and default. */
static int parse_signature(struct jinja_parser *p, struct jinja_node *n)
{
    struct jinja_node **at = &n->a;
    int defaults = 0;
    if (jinja_parse_expect_op(p, '(')) return -1;
    while (!jinja_parse_is_op(p->tok, ')')) {
        if (n->a && jinja_parse_expect_op(p, ',')) return -1;
        if (p->tok->type != TOK_NAME) return jinja_parse_unexpected(p);
        struct jinja_node *pair = jinja_parse_node(p, NODE_PAIR, p->tok->line);
        if (!pair || (pair->name = jinja_parse_intern(p, p->tok->s, p->tok->n)) < 0) return -1;
        p->tok++;
        if (jinja_parse_is_op(p->tok, '=')) {
            p->tok++;
            defaults = 1;
            if (!(pair->b = jinja_parse_expression(p, 1))) return -1;
        } else if (defaults) {
            return jinja_parse_fail(p, p->tok->line,
                                    "non-default argument follows default argument");
        }
        *at = pair;
        at = &pair->next;
    }
    p->tok++;
    return 0;
}

/* Parses the body of a macro, a call block or a generation block as a function. */
static int parse_function_body(struct jinja_parser *p, struct jinja_node *n, const char *end,
                               int line)
{
    uint8_t *macro = p->macro;
    int n_loops = p->n_loops;
    p->macro = &n->op;
    p->n_loops = 0;
    int rc = parse_whole_body(p, &n->body, end, line);
    p->macro = macro;
    p->n_loops = n_loops;
    return rc;
}

static struct jinja_node *parse_macro(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_MACRO, line);
    if (!n) return NULL;
    if (p->tok->type != TOK_NAME) {
        jinja_parse_unexpected(p);
        return NULL;
    }
    if ((n->name = jinja_parse_intern(p, p->tok->s, p->tok->n)) < 0) return NULL;
    p->tok++;
    if (parse_signature(p, n)) return NULL;
    return parse_function_body(p, n, "endmacro", line) ? NULL : n;
}

static struct jinja_node *parse_call_block(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_CALL_BLOCK, line);
    if (!n || (jinja_parse_is_op(p->tok, '(') && parse_signature(p, n))) return NULL;
    if (!(n->b = jinja_parse_expression(p, 1))) return NULL;
    if (n->b->kind != NODE_CALL) {
        jinja_parse_fail(p, line, "expected call");
        return NULL;
    }
    return parse_function_body(p, n, "endcall", line) ? NULL : n;
}

static struct jinja_node *parse_with(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_WITH, line), **at;
    if (!n) return NULL;
    for (at = &n->a; p->tok->type != TOK_BLOCK_END; at = &(*at)->next) {
        if (n->a && jinja_parse_expect_op(p, ',')) return NULL;
        struct jinja_node *pair = jinja_parse_node(p, NODE_PAIR, p->tok->line);
        if (!pair || !(pair->a = jinja_parse_target(p, 0, NULL)) || jinja_parse_expect_op(p, '='))
            return NULL;
        if (!(pair->b = jinja_parse_expression(p, 1))) return NULL;
        *at = pair;
    }
    return parse_whole_body(p, &n->body, "endwith", line) ? NULL : n;
}

static struct jinja_node *parse_print(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_OUTPUT, line);
    if (!n) return NULL;
    for (struct jinja_node **at = &n->a; p->tok->type != TOK_BLOCK_END; at = &(*at)->next) {
        if (n->a && jinja_parse_expect_op(p, ',')) return NULL;
        if (!(*at = jinja_parse_expression(p, 1))) return NULL;
    }
    return n;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_FILTER_BLOCK, line);
    if (!n || !(n->b = jinja_parse_filters(p, NULL, 1))) return NULL;
    return parse_whole_body(p, &n->body, "endfilter", line) ? NULL : n;
}

static struct jinja_node *parse_generation(struct jinja_parser *p, int line)
{
    struct jinja_node *n = jinja_parse_node(p, NODE_GENERATION, line);
    return !n || parse_function_body(p, n, "endgeneration", line) ? NULL : n;
}

static struct jinja_node *parse_loop_control(struct jinja_parser *p, int line)
{
    int is_break = jinja_parse_is_name(p->tok - 1, "break");
    if (!p->n_loops) {
        jinja_parse_fail(p, line, "'%s' outside of a loop", is_break ? "break" : "continue");
        return NULL;
    }
    return jinja_parse_node(p, is_break ? NODE_BREAK : NODE_CONTINUE, line);
}

static struct jinja_node *parse_statement(struct jinja_parser *p)
{
    static const struct {
        const char *tag;
        struct jinja_node *(*parse)(struct jinja_parser *, int line);
    } tags[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"with", parse_with},
        {"print", parse_print},
        {"filter", parse_filter_block},
        {"generation", parse_generation},
        {"break", parse_loop_control},
        {"continue", parse_loop_control},
    };
    static const char *const refused[] = {"extends", "block", "include",
                                          "import",  "from",  "autoescape"};
    const struct jinja_token *t = p->tok;
    if (t->type != TOK_NAME) {
        jinja_parse_fail(p, t->line, "tag name expected");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (jinja_parse_is_name(t, tags[i].tag)) {
            p->tok++;
            return tags[i].parse(p, t->line);
        }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (jinja_parse_is_name(t, refused[i])) {
            jinja_parse_fail(p, t->line, "the tag '%s' is not supported in chat templates",
                             refused[i]);
            return NULL;
        }
    jinja_parse_fail(p, t->line, "encountered unknown tag '%.*s'", t->n > 60 ? 60 : (int)t->n,
                     t->s);
    return NULL;
}

/* Parses statements up to a tag of ENDS (NULL: up to the end of the template). NULL with a message
 * is an error; NULL without one is an empty body. */
static struct jinja_node *parse_until(struct jinja_parser *p, const char *const *ends, int tag_line,
                                      const char *tag)
{
    struct jinja_node *first = NULL, **at = &first;
    if (++p->depth > JINJA_MAX_PARSE_DEPTH) {
        jinja_parse_fail(p, p->tok->line, "more than %d blocks within each other",
                         JINJA_MAX_PARSE_DEPTH);
        return NULL;
    }
    for (;; at = &(*at)->next) {
        const struct jinja_token *t = p->tok;
        if (t->type == TOK_EOF) {
            if (!ends) break;
            jinja_parse_fail(p, tag_line, "'%s' is never closed", tag);
            return NULL;
        }
        p->tok++;
        if (t->type == TOK_DATA) {
            if (!(*at = jinja_parse_node(p, NODE_TEXT, t->line))) return NULL;
            (*at)->value = jinja_bytes(t->s, t->n);
        } else if (t->type == TOK_VARIABLE_BEGIN) {
            if (!(*at = jinja_parse_node(p, NODE_OUTPUT, t->line)) ||
                !((*at)->a = jinja_parse_tuple(p, 1, 0, NULL)))
                return NULL;
            if (p->tok->type != TOK_VARIABLE_END) {
                jinja_parse_unexpected(p);
                return NULL;
            }
            p->tok++;
        } else {
            if (at_end(p, ends)) break;
            if (!(*at = parse_statement(p)) || expect_block_end(p)) return NULL;
        }
    }
    p->depth--;
    return first;
}

int jinja_open(struct jinja **out, const char *source, size_t n, struct err *e)
{
    static const char *const own[] = {"loop", "caller", "varargs", "kwargs"};
    struct jinja_token *tokens;
    *out = NULL;
    if (n > JINJA_MAX_SOURCE)
        return err_set(e, "a template of %zu bytes: more than %d", n, JINJA_MAX_SOURCE);
    for (size_t at = 0; at < n;)
        if (jinja_point(source, n, &at) < 0)
            return err_set(e, "the template is not UTF-8 at byte %zu", at);
    struct jinja *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e);
    struct jinja_parser p = {.t = t, .e = e};
    int *const names[] = {&t->loop_name, &t->caller_name, &t->varargs_name, &t->kwargs_name};
    if (jinja_lex(&t->arena, source, n, &tokens, e)) goto fail;
    for (int i = 0; i < 4; i++)
        if ((*names[i] = jinja_parse_intern(&p, own[i], strlen(own[i]))) < 0) goto fail;
    p.tok = tokens;
    e->msg[0] = 0;
    t->body = parse_until(&p, NULL, 0, NULL);
    if (!t->body && e->msg[0]) goto fail;
    *out = t;
    return 0;
fail:
    jinja_close(t);
    return -1;
}

void jinja_close(struct jinja *t)
{
    if (!t) return;
    jinja_arena_free(&t->arena);
    free(t);
}
