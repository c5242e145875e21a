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

/* TEXT [n] with every number outside strings as 0. */
static json_t *read_without_numbers(const char *text, size_t n, struct err *e)
{
    char *s = copy(text, n, e);
    size_t to = 0;
    int in_string = 0;
    if (!s) return NULL;
    for (size_t i = 0; i < n; i++) {
        int is_number = !in_string && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'));
        if (is_number) i += strspn(s + i, "-+.0123456789eE") - 1;
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\' && i + 1 < n) s[to++] = text[i++];
        s[to++] = is_number ? '0' : text[i];
    }
    json_t *v = json_read(s, to, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, e);
    free(s);
    return v;
}

/* Whether TEXT [n] is JSON, and of which type; jansson has no numbers beyond those of a double. */
static int type_of_json(const char *text, size_t n, unsigned *type, struct err *e)
{
    json_error_t why;
    struct err inner = {0};
    json_t *v = json_read(text, n, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why,
                          &inner);
    if (!v && !err_is_memory(&inner) && json_error_code(&why) == json_error_numeric_overflow)
        v = read_without_numbers(text, n, &inner);
    if (!v) return err_is_memory(&inner) ? err_memory(e) : 0;
    *type = schema_type_of(v);
    json_decref(v);
    return 1;
}

/* The object that follows, [*begin, r->p). */
static int read_object(struct reader *r, const char **begin)
{
    unsigned type;
    const char *p = *begin = json_span_space(r->p, r->end);
    if (p == r->end || *p != '{') return 0;
    r->p = json_span_value(p, r->end);
    return type_of_json(p, (size_t)(r->p - p), &type, r->e);
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

/* The member KEY of the object [p, end) as it is spelled, if it is an object; what a string holds.
 */
static int object_of(struct reader *r, const char *p, const char *end, const char *key, char **text)
{
    if (!json_span_member(&p, &end, key)) return 0;
    if (*p == '{') return (*text = copy(p, (size_t)(end - p), r->e)) ? 1 : -1;
    json_t *v = json_read(p, (size_t)(end - p), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, r->e);
    int rc = v || !err_is_memory(r->e) ? json_is_string(v) : -1;
    if (rc > 0 && !(*text = copy(json_string_value(v), json_string_length(v), r->e))) rc = -1;
    json_decref(v);
    return rc;
}

/* The object {name, arguments}; a function that no tool is where nothing but that tells a call. */
static int json_call(struct reader *r, struct tool_call *c)
{
    const struct call_syntax *y = r->s->syntax;
    const char *const keys[] = {y->arguments_key, "arguments", "parameters"};
    size_t opening;
    const char *p, *end;
    int rc = read_object(r, &p);
    if (rc <= 0) return rc;
    end = r->p;
    const char *q = p, *q_end = end;
    if (!json_span_member(&q, &q_end, y->name_key) || *q != '"') return 0;
    if ((rc = object_of(r, p, end, y->name_key, &c->name)) <= 0) return rc;
    call_syntax_opening(y, &opening);
    if (!*c->name || (!opening && !find_tool(r, c->name))) return 0;
    rc = 0;
    for (int k = 0; k < 3 && !rc; k++) rc = object_of(r, p, end, keys[k], &c->arguments);
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
    int rc = read_name(r, &c->name);
    if (rc <= 0) return rc;
    if (y->call_id && expect(r, y->call_id)) {
        int n = 0;
        while (r->p < r->end && n < CALL_ID_LETTERS && call_syntax_takes_name(r->p, 1))
            c->id[n++] = *r->p++;
    }
    const char *before = r->p;
    if (!expect(r, y->name_end)) r->p = before; /* some leave it out */
    const char *p;
    if ((rc = read_object(r, &p)) <= 0) return rc;
    return (c->arguments = copy(p, (size_t)(r->p - p), r->e)) ? 1 : -1;
}

/* What [p, end) is as JSON, by its schema, into a string of the object ARGUMENTS. */
static int keep_value(struct reader *r, json_t *arguments, const char *key, const char *p,
                      const char *end, const struct call_value *kind)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const char *q = json_span_space(p, end), *last = end;
    unsigned type;
    json_t *text = NULL;
    while (last > q && is_space(last[-1])) last--;
    size_t n = (size_t)(last - q);
    for (int i = 0; i < 3; i++) /* as Python spells them */
        if (kind->others & (i < 2 ? SCHEMA_BOOLEAN : SCHEMA_NULL) && n == strlen(words[i][0]) &&
            !memcmp(q, words[i][0], n))
            text = json_string(words[i][1]);
    int is_json = text ? 0 : type_of_json(q, n, &type, r->e);
    if (is_json < 0) return -1;
    if (is_json && type & kind->others) text = json_stringn(q, n);
    if (!text) {
        json_t *v = json_stringn(p, (size_t)(end - p));
        char *dumped = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
        if (dumped) text = json_string(dumped);
        free(dumped);
        json_decref(v);
        if (!text) return json_check(r->e) ? -1 : 0; /* no UTF-8 */
    }
    if (!json_object_set_new(arguments, key, text)) return 1;
    return json_check(r->e) ? -1 : 0; /* a key that is no UTF-8 */
}

/* Where the value that follows ends: at the mark, or, where strings have quotes, behind a JSON
 * document, in which the mark may stand. */
static int find_end(struct reader *r, const char *mark, size_t n_mark,
                    const struct call_value *kind, const char **end)
{
    const char *p = json_span_space(r->p, r->end);
    unsigned type;
    if (!kind->has_text && p < r->end && strchr("{[\"", *p)) {
        *end = json_span_value(p, r->end);
        int is_value = type_of_json(p, (size_t)(*end - p), &type, r->e);
        if (is_value < 0) return -1;
        *end = json_span_space(*end, r->end);
        if (is_value && type & kind->others && matches(r, *end, mark, n_mark)) return 1;
    }
    return (*end = find(r, mark, n_mark)) != NULL;
}

/* key NAME key_end VALUE value_end, behind key. */
static int read_argument(struct reader *r, json_t *root, json_t *flat, json_t *arguments)
{
    const struct call_syntax *y = r->s->syntax;
    static const struct call_value any = {1, 1, SCHEMA_ALL & ~(unsigned)SCHEMA_STRING};
    struct call_value kind = any;
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
    if (root && call_value_of(root, call_value_schema(flat, key), &kind, &ignored)) kind = any;
    const char *p = r->p, *end;
    if ((rc = find_end(r, mark, n_mark, &kind, &end)) > 0) {
        r->p = end;
        if (*y->value_end == '\n' && end > p && end[-1] == '\n') end--;
        rc = keep_value(r, arguments, key, p, end, &kind);
    }
    free(key);
    return rc <= 0 ? rc : expect(r, y->value_end);
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

int toolcalls_read(struct toolcalls *t, const struct toolcalls_source *s, const char *text,
                   size_t n, struct err *e)
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
