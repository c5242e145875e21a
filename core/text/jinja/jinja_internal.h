/* jinja_internal.h: declarations shared by the files of the template language: values, syntax tree,
 * a running render. Only files of core/text/jinja include it. */
#ifndef CORE_JINJA_INTERNAL_H
#define CORE_JINJA_INTERNAL_H

#include "core/text/jinja.h"

/* ---- memory: blocks that are freed together ---- */
struct jinja_arena {
    struct jinja_block *block; /* the newest block */
    size_t used, limit;        /* bytes of all blocks; limit 0: none */
    int full;                  /* a request exceeded the limit, or memory is short */
};
/* zeroed, aligned to 8; NULL: no memory or over the limit */
void *jinja_arena_get(struct jinja_arena *a, size_t n);
void jinja_arena_free(struct jinja_arena *a);

/* ---- values ---- */
enum jinja_type {
    JINJA_ABSENT, /* an argument slot that was not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_LONG, /* an integer beyond 64 bits: its digits, s [n]; is written, and nothing is
                   computed from it */
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_VIEW,      /* keys(), values() or items() of a dict; flag 'k', 'v', 'i' */
    JINJA_GENERATOR, /* iterable once */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_RANGE,
    JINJA_MACRO,
    JINJA_FUNCTION, /* a global */
    JINJA_METHOD,   /* of a value */
    JINJA_LOOP,
};

enum jinja_undefined { JINJA_NO_NAME, JINJA_NO_ATTRIBUTE, JINJA_UNSAFE, JINJA_HINT };

struct jinja_value {
    uint8_t type; /* enum jinja_type */
    uint8_t flag; /* STRING: 1 = marked safe; UNDEFINED: enum jinja_undefined; VIEW; TUPLE: 1 = of
                     groupby */
    uint8_t of;   /* UNDEFINED: type of the value that lacks the attribute */
    size_t n;     /* STRING, LONG, UNDEFINED: bytes of s */
    union {
        int64_t i; /* INT, BOOL */
        double f;
        const char *s; /* [n] UTF-8, not NUL-terminated; UNDEFINED: the name or the hint */
        struct jinja_list *list; /* LIST, TUPLE, VIEW, GENERATOR */
        struct jinja_dict *dict; /* DICT, NAMESPACE */
        struct jinja_range *range;
        struct jinja_macro *macro;
        const struct jinja_callable *function;
        struct jinja_method *method;
        struct jinja_loop *loop;
    };
};

struct jinja_list {
    struct jinja_value *item; /* [n] */
    size_t n, cap, pos;       /* pos: GENERATOR: the next item */
};

struct jinja_pair {
    struct jinja_value key, value;
};

struct jinja_dict {
    struct jinja_pair *pair; /* [n] in order of insertion */
    size_t n, cap;
    uint32_t *slot; /* [n_slots] where the strings among the first n_indexed keys are */
    size_t n_slots, n_indexed;
};

struct jinja_range {
    int64_t start, stop, step;
    int64_t n;
};

/* ---- syntax tree ---- */
enum jinja_kind {
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_LIST, /* items in a, linked by next */
    NODE_TUPLE,
    NODE_DICT, /* NODE_PAIRs in a */
    NODE_PAIR,
    NODE_GETATTR, /* a.value */
    NODE_GETITEM, /* a[b] */
    NODE_SLICE,   /* a:b:c */
    NODE_CALL,    /* a(b...) */
    NODE_FILTER,  /* a|value(b...); a NULL: of a block */
    NODE_TEST,    /* a is value(b...) */
    NODE_ARG,     /* an argument a: op 0 positional, 'k' named value, '*', 'd' (**) */
    NODE_NOT,
    NODE_NEG,
    NODE_POS,
    NODE_BINARY, /* a op b */
    NODE_AND,
    NODE_OR,
    NODE_COMPARE, /* a, then NODE_OPERANDs in b */
    NODE_OPERAND,
    NODE_CONCAT, /* a, linked by next */
    NODE_COND,   /* b if a else c */
    NODE_NSREF,  /* name.value as a target */
    /* statements */
    NODE_TEXT,
    NODE_OUTPUT,       /* a, linked by next */
    NODE_IF,           /* a: body, else other */
    NODE_FOR,          /* a in b if c: body, else other; op 1: recursive */
    NODE_SET,          /* a = b */
    NODE_SET_BLOCK,    /* a = body, through the filters b */
    NODE_MACRO,        /* name(a...): body */
    NODE_CALL_BLOCK,   /* call(a...) b: body */
    NODE_FILTER_BLOCK, /* filters b over body */
    NODE_WITH,         /* NODE_PAIRs in a, body */
    NODE_GENERATION,
    NODE_BREAK,
    NODE_CONTINUE,
};

/* op of NODE_MACRO, NODE_CALL_BLOCK: names that the body uses */
enum { MACRO_CALLER = 1, MACRO_VARARGS = 2, MACRO_KWARGS = 4 };
/* others are their character */
enum { OP_EQ = 1, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN, OP_FLOORDIV, OP_POW };

struct jinja_node {
    uint8_t kind, op;
    int line, name; /* name: index in struct jinja, -1 */
    struct jinja_value value;
    const struct jinja_callable *callable; /* FILTER, TEST: NULL = unknown */
    struct jinja_node *a, *b, *c, *body, *other, *next;
};

struct jinja_name {
    const char *s;
    size_t n;
    int read; /* 1: some expression reads it */
};

struct jinja {
    struct jinja_arena arena;
    struct jinja_name *names; /* [n_names] each variable's name once */
    size_t n_names, names_cap;
    uint32_t *name_slot; /* [n_name_slots] by hash, of a name its number plus one */
    size_t n_name_slots;
    int loop_name, caller_name, varargs_name, kwargs_name;
    struct jinja_node *body;
};
/* -1: the template does not use it */
int jinja_name_of(const struct jinja *t, const char *s, size_t n);

/* ---- tokens ---- */
enum jinja_token_type {
    TOK_EOF,
    TOK_DATA,
    TOK_VARIABLE_BEGIN,
    TOK_VARIABLE_END,
    TOK_BLOCK_BEGIN,
    TOK_BLOCK_END,
    TOK_NAME,
    TOK_STRING,
    TOK_INTEGER,
    TOK_FLOAT,
    TOK_OPERATOR, /* op: its character, or OP_* */
};

struct jinja_token {
    uint8_t type, op;
    int line;
    size_t n;
    union {
        const char *s; /* [n] DATA, NAME, STRING */
        int64_t i;
        double f;
    };
};
/* Tokens of the source, ended by TOK_EOF, in the arena. */
int jinja_lex(struct jinja_arena *a, const char *source, size_t n, struct jinja_token **tokens,
              struct err *e);

/* The parser: jinja_parse.c reads statements, jinja_parse_expr.c expressions. */
struct jinja_parser {
    struct jinja *t;
    const struct jinja_token *tok;
    int depth, n_loops; /* enclosing blocks; enclosing loops within the innermost macro */
    int in_target;      /* names are assigned, not read */
    uint8_t *macro;     /* op of the innermost macro or NULL */
    struct err *e;
};
int jinja_parse_fail(struct jinja_parser *p, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct jinja_node *jinja_parse_node(struct jinja_parser *p, enum jinja_kind kind, int line);
int jinja_parse_is_name(const struct jinja_token *t, const char *name);
int jinja_parse_is_op(const struct jinja_token *t, int op);
int jinja_parse_expect_op(struct jinja_parser *p, int op);
int jinja_parse_unexpected(struct jinja_parser *p);
int jinja_parse_intern(struct jinja_parser *p, const char *s, size_t n); /* -1: no memory */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p, int with_cond);
/* Parses a tuple if commas follow; END: a name that ends it, or NULL. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, int with_cond, int parentheses,
                                     const char *end);
struct jinja_node *jinja_parse_target(struct jinja_parser *p, int with_namespace, const char *end);
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *on, int at_name);

/* ---- a render ---- */
struct jinja_slot {
    int name;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent;
    uint32_t *at; /* [t->n_names] of a name the number of its slot plus one; NULL: few slots */
    struct jinja_slot *slot; /* [n] */
    size_t n, cap;
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_scope *scope; /* where it was defined */
};

struct jinja_method {
    struct jinja_value self;
    const struct jinja_callable *callable;
};

struct jinja_iter {
    struct jinja_value over;
    size_t pos;
};

struct jinja_loop {
    const struct jinja_node *node;
    struct jinja_scope *outer; /* of the for statement */
    struct jinja_iter iter;
    struct jinja_list *rest; /* items drawn ahead; NULL: none */
    size_t rest_pos, index0;
    int64_t length; /* -1: unknown */
    int depth0;
    struct jinja_value before, current, changed; /* ABSENT: none */
};

struct jinja_growth {
    char *end;   /* of the text that was last made by concatenation */
    size_t left; /* free bytes behind it */
};

struct jinja_run {
    const struct jinja *t;
    struct jinja_arena arena;
    char *out; /* [n_out]; the output of a capturing block is at its end until it is taken off */
    size_t n_out, out_cap;
    struct jinja_growth grow[4];
    size_t n_grown;
    struct jinja_scope *scope;
    int64_t now;
    uint64_t steps;
    int depth, line;
    struct err *e;
};

struct jinja_keyword {
    const char *name;
    size_t n;
    struct jinja_value value;
};

struct jinja_args {
    struct jinja_value *pos;  /* [n] */
    struct jinja_keyword *kw; /* [n_kw] */
    size_t n, n_kw;
};

/* A filter, test, global or method. PARAMS: names of the parameters after the value, separated by
 * spaces, '!' before a required one; "*": the callable reads args itself. slot [JINJA_MAX_PARAMS]
 * has the arguments by position, ABSENT where not given. run NULL: known to Python but not
 * supported. */
enum { JINJA_MAX_PARAMS = 5 };
struct jinja_callable {
    const char *name, *params;
    int (*run)(struct jinja_run *r, struct jinja_value on, const struct jinja_args *args,
               struct jinja_value *slot, struct jinja_value *out);
};
extern const struct jinja_callable jinja_filters[], jinja_tests[], jinja_globals[];
const struct jinja_callable *jinja_find_callable(const struct jinja_callable *table,
                                                 const char *name, size_t n);
int jinja_call(struct jinja_run *r, const struct jinja_callable *c, struct jinja_value on,
               const struct jinja_args *args, struct jinja_value *out);
int jinja_call_value(struct jinja_run *r, struct jinja_value f, const struct jinja_args *args,
                     struct jinja_value *out);

/* errors: all return -1 */
int jinja_fail(struct jinja_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int jinja_fail_undefined(struct jinja_run *r, struct jinja_value v);
const char *jinja_type_name(struct jinja_value v); /* Python's name */
int jinja_steps(struct jinja_run *r, size_t n);    /* counts work; -1: over the bound */
/* enters a nested evaluation; leave with r->depth-- */
int jinja_enter(struct jinja_run *r);

uint64_t jinja_hash(const char *s, size_t n); /* FNV-1a (Fowler, Noll, Vo), folded */

/* making values */
void *jinja_get(struct jinja_run *r, size_t n);
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(int b);
struct jinja_value jinja_int(int64_t i);
struct jinja_value jinja_float(double f);
struct jinja_value jinja_static(const char *s); /* of a string that outlives the render */
struct jinja_value jinja_bytes(const char *s, size_t n);
struct jinja_value jinja_undefined(enum jinja_undefined how, struct jinja_value of, const char *s,
                                   size_t n);
/* copies */
int jinja_string(struct jinja_run *r, const char *s, size_t n, struct jinja_value *out);
int jinja_list(struct jinja_run *r, enum jinja_type type, size_t cap, struct jinja_value *out);
int jinja_push(struct jinja_run *r, struct jinja_list *l, struct jinja_value v);
int jinja_dict(struct jinja_run *r, enum jinja_type type, size_t cap, struct jinja_value *out);
int jinja_dict_set(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                   struct jinja_value v);
/* 1 and *v if found, 0 if not, -1 on error */
int jinja_dict_find(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value *v);
int jinja_dict_find_text(struct jinja_run *r, struct jinja_dict *d, const char *s, size_t n,
                         struct jinja_value *v);
int jinja_from_json(struct jinja_run *r, const json_t *j, struct jinja_value *out);

/* asking values */
int jinja_is_text(struct jinja_value v, const char *s);
int jinja_is_number(struct jinja_value v); /* bool, int or float */
double jinja_number(struct jinja_value v);
int jinja_truth(struct jinja_value v);
int jinja_length(struct jinja_run *r, struct jinja_value v, int64_t *n);
/* 1, 0, -1 */
int jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
/* a op b for OP_LT..OP_GE: 1, 0, -1 */
int jinja_less(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int op);
/* 1, 0, -1 */
int jinja_contains(struct jinja_run *r, struct jinja_value in, struct jinja_value what);
int jinja_iterate(struct jinja_run *r, struct jinja_value v, struct jinja_iter *it);
/* 1, 0 at the end, -1 */
int jinja_next(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *v);
int jinja_to_list(struct jinja_run *r, struct jinja_value v, enum jinja_type type,
                  struct jinja_value *out);
/* attribute: a.name, item: a[b] */
int jinja_attribute(struct jinja_run *r, struct jinja_value a, const char *s, size_t n,
                    struct jinja_value *out);
int jinja_item(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
               struct jinja_value *out);
int jinja_slice(struct jinja_run *r, struct jinja_value a, const struct jinja_value bound[3],
                struct jinja_value *out);
int jinja_binary(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b,
                 struct jinja_value *out);
/* Finds the method NAME of a value of this type: 1, 0: none, -1: known to Python but not supported.
 */
int jinja_method_of(struct jinja_run *r, struct jinja_value on, const char *s, size_t n,
                    struct jinja_value *out);
int jinja_loop_attribute(struct jinja_run *r, struct jinja_loop *l, const char *s, size_t n,
                         struct jinja_value *out);

/* output: appended to r->out; jinja_take moves what follows `from` into a value */
int jinja_put(struct jinja_run *r, const char *s, size_t n);
int jinja_put_str(struct jinja_run *r, struct jinja_value v);  /* str() */
int jinja_put_repr(struct jinja_run *r, struct jinja_value v); /* repr() */
int jinja_put_float(struct jinja_run *r, double f);
int jinja_take(struct jinja_run *r, size_t from, struct jinja_value *out);
int jinja_str(struct jinja_run *r, struct jinja_value v, struct jinja_value *out);
/* strings */
int jinja_concat(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                 struct jinja_value *out);
/* Options of Python's json.dumps. */
struct jinja_json_format {
    int ascii, sort_keys;
    int has_indent;                   /* lines, each with the string `indent` once a level */
    struct jinja_value indent;        /* a string */
    struct jinja_value separators[2]; /* strings: between items, behind a key */
};
int jinja_put_json(struct jinja_run *r, struct jinja_value v, const struct jinja_json_format *f);
int jinja_percent(struct jinja_run *r, struct jinja_value format, struct jinja_value args,
                  struct jinja_value *out);
int jinja_str_format(struct jinja_run *r, struct jinja_value format, const struct jinja_args *args,
                     struct jinja_value *out);

/* decodes a code point and advances *at; the text is valid UTF-8 */
int32_t jinja_point(const char *s, size_t n, size_t *at);
size_t jinja_points(const char *s, size_t n);
size_t jinja_point_offset(const char *s, size_t n, size_t points);
int jinja_put_point(struct jinja_run *r, int32_t c);
int jinja_is_space(int32_t c); /* as str.isspace */
struct jinja_value jinja_strip(struct jinja_value v, const struct jinja_value *chars, int left,
                               int right);
/* 'u' upper, 'l' lower, 'c' capitalize, 't' title, 's' swap */
int jinja_put_case(struct jinja_run *r, const char *s, size_t n, int mode);
int jinja_replace(struct jinja_run *r, struct jinja_value v, struct jinja_value from,
                  struct jinja_value to, int64_t count, struct jinja_value *out);
int jinja_put_splitlines(struct jinja_run *r, struct jinja_value v, int keep, struct jinja_list *l);
int jinja_center(struct jinja_run *r, struct jinja_value v, int64_t width, const char *fill,
                 size_t n_fill, int align, struct jinja_value *out);

/* evaluation */
int jinja_eval(struct jinja_run *r, const struct jinja_node *n, struct jinja_value *out);
int jinja_args_eval(struct jinja_run *r, const struct jinja_node *first, struct jinja_args *args);
int jinja_filters_eval(struct jinja_run *r, const struct jinja_node *n,
                       const struct jinja_value *block, struct jinja_value *out);
/* 0, -1, 1 break, 2 continue */
int jinja_run_body(struct jinja_run *r, const struct jinja_node *body);
int jinja_set(struct jinja_run *r, int name, struct jinja_value v);
int jinja_lookup(struct jinja_run *r, int name, struct jinja_value *v); /* 1 found */
int jinja_call_macro(struct jinja_run *r, const struct jinja_macro *m,
                     const struct jinja_args *args, struct jinja_value *out);
int jinja_call_loop(struct jinja_run *r, const struct jinja_loop *l, const struct jinja_args *args,
                    struct jinja_value *out);

#endif
