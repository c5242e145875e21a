#include "core/text/toolcalls.h"

#include "core/base/json_span.h"
#include "core/grammar/call_values.h"
#include "core/grammar/free_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct toolcalls_source *s;
    const char *p, *end; /* what is left */
    struct toolcalls *t;
    struct err *e;
};

/* Functions below return 1: read; 0: it is something else; -1: *e. */

/* ---- texts */

static int is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/* The bytes of [p, end) that TEXT [n] takes, 0: it is something else. */
static size_t matches(const struct reader *r, const char *p, const char *text, size_t n)
{
    const char *begin = p;
    while (n) {
        size_t token = free_text_special(text, n, r->s->special), left = (size_t)(r->end - p);
        if (is_space(*text)) {
            p = json_span_space(p, r->end);
            text++, n--;
            continue;
        }
        if (token) {
            if (left < token + 2 || p[0] != FREE_TEXT_MARK[0] || memcmp(p + 1, text, token) ||
                p[token + 1] != FREE_TEXT_MARK[0])
                return 0;
            p += token + 2;
        } else if (!left || *p++ != *text) {
            return 0;
        }
        text += token ? token : 1;
        n -= token ? token : 1;
    }
    return (size_t)(p - begin);
}

/* Goes on behind TEXT, if that is what follows. */
static int expect_bytes(struct reader *r, const char *text, size_t n)
{
    const char *p = json_span_space(r->p, r->end);
    while (n && is_space(*text)) text++, n--;
    if (!n) return 1;
    size_t taken = matches(r, p, text, n);
    if (taken) r->p = p + taken;
    return taken > 0;
}

static int expect(struct reader *r, const char *text)
{
    return !text || expect_bytes(r, text, strlen(text));
}

/* The next place of TEXT [n]; NULL: none. */
static const char *find(const struct reader *r, const char *text, size_t n)
{
    for (const char *p = r->p; p < r->end; p++)
        if (matches(r, p, text, n)) return p;
    return NULL;
}

static char *copy(const char *text, size_t n, struct err *e)
{
    char *s = malloc(n + 1);
    if (!s) {
        err_memory(e);
        return NULL;
    }
    if (n) memcpy(s, text, n);
    s[n] = 0;
    return s;
}

/* ---- JSON */

/* The object that follows; *v is a new reference, the reader stands behind it. */
static int read_object(struct reader *r, json_t **v)
{
    json_error_t why;
    struct err inner = {0};
    r->p = json_span_space(r->p, r->end);
    *v = NULL;
    if (r->p == r->end || *r->p != '{') return 0;
    *v = json_read(r->p, (size_t)(r->end - r->p),
                   JSON_DISABLE_EOF_CHECK | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why, &inner);
    if (*v) r->p += why.position;
    else if (err_is_memory(&inner)) return err_memory(r->e);
    return *v != NULL;
}

static json_t *find_tool(const struct reader *r, const char *name)
{
    json_t *tool;
    size_t i;
    json_array_foreach (r->s->tools, i, tool) {
        const char *other = json_string_value(json_object_get(tool, "name"));
        if (other && !strcmp(other, name)) return tool;
    }
    return NULL;
}

/* The object {name, arguments}; a function that no tool is where nothing but that tells a call. */
static int json_call(struct reader *r, struct tool_call *c)
{
    const struct call_syntax *y = r->s->syntax;
    const char *const keys[] = {y->arguments_key, "arguments", "parameters"};
    json_t *v, *arguments = NULL;
    size_t opening;
    int k = 0, rc = 0;
    const char *p = json_span_space(r->p, r->end);
    int read = read_object(r, &v);
    if (read <= 0) return read;
    const char *end = r->p, *name = json_string_value(json_object_get(v, y->name_key));
    while (k < 3 && !(arguments = json_object_get(v, keys[k]))) k++;
    call_syntax_opening(y, &opening);
    if (name && *name && (opening || find_tool(r, name))) {
        if (json_is_object(arguments) && json_span_member(&p, &end, keys[k]))
            rc = (c->arguments = copy(p, (size_t)(end - p), r->e)) ? 1 : -1;
        else if (json_is_string(arguments))
            rc = (c->arguments = copy(json_string_value(arguments),
                                      json_string_length(arguments), r->e))
                     ? 1
                     : -1;
    }
    if (rc > 0 && !(c->name = copy(name, strlen(name), r->e))) rc = -1;
    json_decref(v);
    return rc;
}

/* ---- the name, then the arguments */

static int read_name(struct reader *r, char **name)
{
    const char *p = json_span_space(r->p, r->end);
    r->p = p;
    while (r->p < r->end && call_syntax_takes_name(r->p, 1)) r->p++;
    if (r->p == p) return 0;
    return (*name = copy(p, (size_t)(r->p - p), r->e)) ? 1 : -1;
}

static int named_call(struct reader *r, struct tool_call *c)
{
    const struct call_syntax *y = r->s->syntax;
    json_t *v;
    int rc = read_name(r, &c->name);
    if (rc <= 0) return rc;
    if (y->call_id && expect(r, y->call_id)) {
        int n = 0;
        while (r->p < r->end && n < CALL_ID_LETTERS && call_syntax_takes_name(r->p, 1))
            c->id[n++] = *r->p++;
    }
    const char *before = r->p;
    if (!expect(r, y->name_end)) r->p = before; /* some leave it out */
    const char *p = json_span_space(r->p, r->end);
    if ((rc = read_object(r, &v)) <= 0) return rc;
    json_decref(v);
    return (c->arguments = copy(p, (size_t)(r->p - p), r->e)) ? 1 : -1;
}

/* What [p, end) is as JSON, by its schema, into a string of the object ARGUMENTS. */
static int keep_value(struct reader *r, json_t *arguments, const char *key, const char *p,
                      const char *end, const struct call_value *kind)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const char *q = json_span_space(p, end), *last = end;
    struct err inner = {0};
    json_t *text = NULL;
    while (last > q && is_space(last[-1])) last--;
    size_t n = (size_t)(last - q);
    for (int i = 0; i < 3; i++) /* as Python spells them */
        if (kind->others & (i < 2 ? SCHEMA_BOOLEAN : SCHEMA_NULL) && n == strlen(words[i][0]) &&
            !memcmp(q, words[i][0], n))
            text = json_string(words[i][1]);
    if (!text) {
        json_t *v = json_read(q, n, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL,
                              NULL, &inner);
        if (!v && err_is_memory(&inner)) return err_memory(r->e);
        if (v && schema_type_of(v) & kind->others) text = json_stringn(q, n);
        json_decref(v);
    }
    if (!text) {
        json_t *v = json_stringn(p, (size_t)(end - p));
        char *dumped = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
        if (dumped) text = json_string(dumped);
        free(dumped);
        json_decref(v);
        if (!text) return json_check(r->e) ? -1 : 0; /* no UTF-8 */
    }
    return json_object_set_new(arguments, key, text) ? err_memory(r->e) : 1;
}

/* key NAME key_end VALUE value_end, behind key. */
static int read_argument(struct reader *r, json_t *root, json_t *flat, json_t *arguments)
{
    const struct call_syntax *y = r->s->syntax;
    struct call_value kind = {.has_text = 1, .others = SCHEMA_ALL & ~(unsigned)SCHEMA_STRING};
    size_t n_end = strlen(y->key_end), n_mark;
    const char *mark = y->value_end + strspn(y->value_end, " \n");
    char *key;
    int breaks = is_space(y->key_end[n_end - 1]);
    struct err ignored = {0};
    n_mark = strcspn(mark, " \n");
    int rc = read_name(r, &key);
    if (rc <= 0) return rc;
    if (!expect_bytes(r, y->key_end, n_end - (size_t)breaks)) {
        free(key);
        return 0;
    }
    if (breaks && r->p < r->end && *r->p == '\n') r->p++;
    const char *p = r->p, *end = find(r, mark, n_mark);
    if (end) {
        r->p = end;
        if (*y->value_end == '\n' && end > p && end[-1] == '\n') end--;
        if (root && call_value_of(root, call_value_schema(flat, key), &kind, &ignored))
            kind = (struct call_value){.has_text = 1,
                                       .others = SCHEMA_ALL & ~(unsigned)SCHEMA_STRING};
        rc = keep_value(r, arguments, key, p, end, &kind);
    }
    free(key);
    return !end ? 0 : rc <= 0 ? rc : expect(r, y->value_end);
}

/* {KEY: VALUE, ..}, of an object whose strings are the values as JSON. */
static char *spell_object(const json_t *arguments, struct err *e)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    const char *key;
    json_t *v;
    int first = 1;
    if (!f) {
        err_memory(e);
        return NULL;
    }
    fputs("{", f);
    json_object_foreach ((json_t *)(uintptr_t)arguments, key, v) {
        json_t *name = json_string(key);
        char *dumped = json_dumps(name, JSON_ENCODE_ANY);
        fprintf(f, "%s%s: ", first ? "" : ", ", dumped ? dumped : "");
        fwrite(json_string_value(v), 1, json_string_length(v), f);
        free(dumped);
        json_decref(name);
        first = 0;
    }
    fputs("}", f);
    int failed = ferror(f);
    failed |= fclose(f) != 0;
    if (!failed && !json_check(e)) return text;
    free(text);
    err_memory(e);
    return NULL;
}

static int members_call(struct reader *r, struct tool_call *c)
{
    const struct call_syntax *y = r->s->syntax;
    struct err ignored = {0};
    json_t *flat = NULL, *arguments, *tool;
    int rc = read_name(r, &c->name);
    if (rc <= 0) return rc;
    if (!expect(r, y->name_end)) return 0;
    if (!(arguments = json_object())) return err_memory(r->e);
    tool = find_tool(r, c->name);
    json_t *root = json_object_get(tool, "parameters");
    if (root && call_value_flatten(root, &flat, &ignored)) root = NULL;
    while (rc > 0 && expect(r, y->key)) rc = read_argument(r, root, flat, arguments);
    if (rc > 0 && !(c->arguments = spell_object(arguments, r->e))) rc = -1;
    json_decref(arguments);
    json_decref(flat);
    return rc;
}

/* ---- calls */

static int at_end(const struct reader *r)
{
    return !r->s->is_cut && json_span_space(r->p, r->end) == r->end;
}

static int read_call(struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    struct tool_call *more = realloc(r->t->call, (size_t)(r->t->n + 1) * sizeof *more);
    if (!more) return err_memory(r->e);
    r->t->call = more;
    struct tool_call *c = &more[r->t->n++];
    *c = (struct tool_call){0};
    if (!expect(r, y->call)) return 0;
    int rc = y->body == CALL_JSON    ? json_call(r, c)
             : y->body == CALL_NAMED ? named_call(r, c)
                                     : members_call(r, c);
    if (rc <= 0) return rc;
    return expect(r, y->call_end) || at_end(r);
}

/* From an opening on: one call, or all of a list. */
static int read_calls(struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    int rc = 1;
    if (y->maybe) expect(r, y->maybe);
    if (!expect(r, y->begin)) return 0;
    for (;;) {
        if ((rc = read_call(r)) <= 0) return rc;
        if (y->end ? expect(r, y->end) || at_end(r) : y->call != NULL) return 1;
        if (!expect(r, y->between)) return !y->end;
    }
}

static int add_text(struct toolcalls *t, const char *p, const char *end)
{
    memcpy(t->text + t->text_bytes, p, (size_t)(end - p));
    t->text_bytes += (size_t)(end - p);
    return 1;
}

/* Text and calls in turn. */
static int read_all(struct reader *r)
{
    size_t n_opening;
    const char *opening = call_syntax_opening(r->s->syntax, &n_opening), *at;
    int rc = 1;
    if (!n_opening && (rc = read_calls(r)) <= 0) return rc;
    while (n_opening && rc > 0 && (at = find(r, opening, n_opening))) {
        add_text(r->t, r->p, at);
        r->p = at;
        rc = read_calls(r);
    }
    return rc > 0 ? add_text(r->t, r->p, r->end) : rc;
}

static void forget_calls(struct toolcalls *t)
{
    for (int i = 0; i < t->n; i++) {
        free(t->call[i].name);
        free(t->call[i].arguments);
    }
    free(t->call);
    t->call = NULL;
    t->n = 0;
}

static void trim(struct toolcalls *t)
{
    size_t n = t->text_bytes, space = 0;
    while (n && is_space(t->text[n - 1])) n--;
    while (space < n && is_space(t->text[space])) space++;
    memmove(t->text, t->text + space, n - space);
    t->text_bytes = n - space;
}

int toolcalls_read(struct toolcalls *t, const struct toolcalls_source *s, const char *text, size_t n,
                   struct err *e)
{
    struct reader r = {s, text, text + n, t, e};
    *t = (struct toolcalls){0};
    if (!(t->text = malloc(n + 1))) return err_memory(e);
    json_forget();
    int rc = read_all(&r);
    if (rc < 0 || json_check(e)) return -1;
    if (rc && t->n) {
        trim(t);
        return 0;
    }
    forget_calls(t);
    if (n) memcpy(t->text, text, n);
    t->text_bytes = n;
    return 0;
}

void toolcalls_close(struct toolcalls *t)
{
    forget_calls(t);
    free(t->text);
    *t = (struct toolcalls){0};
}

void toolcalls_unmark(char *text, size_t *n, int keep)
{
    size_t to = 0;
    int inside = 0;
    for (size_t i = 0; i < *n; i++) {
        if (text[i] == FREE_TEXT_MARK[0]) inside = !inside;
        else if (!inside || keep) text[to++] = text[i];
    }
    *n = to;
}
