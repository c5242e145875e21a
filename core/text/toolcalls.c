#include "core/text/toolcalls.h"

#include "core/base/json_span.h"
#include "core/grammar/call_values.h"
#include "core/grammar/free_text.h"
#include "core/text/literals.h"
#include "core/text/python_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    const struct toolcalls_source *s;
    const char *begin, *p, *end; /* of the answer; what is left of it */
    struct toolcalls *t;
    char *mended; /* a call's object that was no JSON, as JSON; NULL: none */
    int is_bare;  /* the call lacks its opening: only a tool's name tells it */
    int is_open;  /* what stands before the name is read */
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

/* The value [p, end) as Python writes it, as JSON of one of TYPES; *behind: the byte after it. */
static int read_literal(const struct reader *r, const char *p, const char *end, unsigned types,
                        const char **behind, char **text)
{
    unsigned type;
    size_t n;
    *text = NULL;
    if (r->s->is_exact) return 0;
    int rc = literal_to_json(p, end, behind, text, &n, r->e);
    if (rc > 0) rc = type_of_json(*text, n, &type, r->e);
    if (rc > 0 && type & types) return 1;
    free(*text);
    *text = NULL;
    return rc < 0 ? -1 : 0;
}

/* The object that follows, [*begin, *end). */
static int read_object(struct reader *r, const char **begin, const char **end)
{
    unsigned type;
    const char *p = *begin = json_span_space(r->p, r->end);
    if (p == r->end || *p != '{') return 0;
    r->p = *end = json_span_value(p, r->end);
    int rc = type_of_json(p, (size_t)(r->p - p), &type, r->e);
    if (rc) return rc;
    free(r->mended);
    rc = read_literal(r, p, r->end, SCHEMA_OBJECT, &r->p, &r->mended);
    if (rc <= 0) return rc;
    *begin = r->mended;
    *end = r->mended + strlen(r->mended);
    return 1;
}

static json_t *find_tool(const struct reader *r, const char *name, size_t n)
{
    json_t *tool;
    size_t i;
    json_array_foreach (r->s->tools, i, tool) {
        const char *other = json_string_value(json_object_get(tool, "name"));
        if (other && strlen(other) == n && !memcmp(other, name, n)) return tool;
    }
    return NULL;
}

/* The member KEY of the object [p, end) as it is spelled, if it is an object; what a string holds;
 * {} for null. */
static int object_of(struct reader *r, const char *p, const char *end, const char *key, char **text)
{
    if (!json_span_member(&p, &end, key)) return 0;
    if (*p == '{') return (*text = copy(p, (size_t)(end - p), r->e)) ? 1 : -1;
    json_t *v = json_read(p, (size_t)(end - p), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, r->e);
    int rc = v || !err_is_memory(r->e) ? json_is_string(v) : -1;
    if (json_is_null(v) && !r->s->is_exact) rc = (*text = copy("{}", 2, r->e)) ? 2 : -1;
    if (rc == 1 && !(*text = copy(json_string_value(v), json_string_length(v), r->e))) rc = -1;
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
    int rc = read_object(r, &p, &end);
    if (rc <= 0) return rc;
    const char *q = p, *q_end = end;
    if (!json_span_member(&q, &q_end, y->name_key) || *q != '"') return 0;
    if ((rc = object_of(r, p, end, y->name_key, &c->name)) <= 0) return rc;
    call_syntax_opening(y, &opening);
    if (!*c->name || ((!opening || r->is_bare) && !find_tool(r, c->name, strlen(c->name))))
        return 0;
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

/* Takes INDEX and a number off the end of a name. */
static void cut_index(char *name, const char *index)
{
    size_t n = strlen(name), digits = 0, text = index ? strlen(index) : 0;
    while (digits < n && name[n - digits - 1] >= '0' && name[n - digits - 1] <= '9') digits++;
    if (text && digits && n > digits + text && !memcmp(name + n - digits - text, index, text))
        name[n - digits - text] = 0;
}

static int named_call(struct reader *r, struct tool_call *c)
{
    const struct call_syntax *y = r->s->syntax;
    int rc = read_name(r, &c->name);
    if (rc <= 0) return rc;
    cut_index(c->name, y->index);
    if (y->call_id && expect(r, y->call_id)) {
        int n = 0;
        while (r->p < r->end && n < CALL_ID_LETTERS && call_syntax_takes_name(r->p, 1))
            c->id[n++] = *r->p++;
    }
    const char *before = r->p;
    if (!expect(r, y->name_end)) r->p = before; /* some leave it out */
    const char *p, *end;
    if ((rc = read_object(r, &p, &end)) <= 0) return rc;
    return (c->arguments = copy(p, (size_t)(end - p), r->e)) ? 1 : -1;
}

/* Only a tool's name tells that it is a call. */
static int python_call(struct reader *r, struct tool_call *c)
{
    int rc = python_call_read(r->p, r->end, &r->p, &c->name, &c->arguments, r->e);
    return rc > 0 ? find_tool(r, c->name, strlen(c->name)) != NULL : rc;
}

/* ---- each argument by itself */

/* The word [p, p + n), true or false or null as Python spells it and, where no string may stand
 * for it, in any case, as JSON; NULL: it is none that KIND allows. */
static const char *as_word(const struct reader *r, const char *p, size_t n,
                           const struct call_value *kind)
{
    static const struct {
        const char *name, *json;
        unsigned type;
    } words[] = {{"True", "true", SCHEMA_BOOLEAN},
                 {"False", "false", SCHEMA_BOOLEAN},
                 {"None", "null", SCHEMA_NULL},
                 {"Null", "null", SCHEMA_NULL}};
    int any_case = !r->s->is_exact && !kind->has_text && !(kind->others & SCHEMA_STRING);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (kind->others & words[i].type && n == strlen(words[i].name) &&
            (any_case ? !strncasecmp(p, words[i].name, n) : i < 3 && !memcmp(p, words[i].name, n)))
            return words[i].json;
    return NULL;
}

/* What [p, end) is as JSON, by its schema, into a string of the object ARGUMENTS. */
static int keep_value(struct reader *r, json_t *arguments, const char *key, const char *p,
                      const char *end, const struct call_value *kind)
{
    const char *q = json_span_space(p, end), *last = end, *behind;
    unsigned type;
    json_t *text = NULL;
    while (last > q && is_space(last[-1])) last--;
    size_t n = (size_t)(last - q);
    const char *word = as_word(r, q, n, kind);
    if (word) text = json_string(word);
    int rc = text ? 0 : type_of_json(q, n, &type, r->e);
    if (rc < 0) return -1;
    if (rc && type & kind->others) text = json_stringn(q, n);
    if (!rc && !text && !kind->has_text) {
        char *literal;
        rc = read_literal(r, q, last, kind->others & ~(unsigned)SCHEMA_STRING, &behind, &literal);
        if (rc < 0) return -1;
        if (rc && behind == last) text = json_string(literal);
        free(literal);
    }
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

/* The first of the tags [n] that TEXT consists of, between white space. */
static const char *first_tag(const char *text, size_t *n)
{
    if (!text) text = "";
    text += strspn(text, " \n");
    *n = strcspn(text, " \n");
    return text;
}

/* The last of them: the one that stands before every call of a tag. */
static const char *last_tag(const char *text, size_t *n)
{
    const char *last = text;
    for (const char *p = first_tag(text, n); *n; p = first_tag(p + *n, n)) last = p;
    *n = strcspn(last, " \n");
    const char *tag = strrchr(text, '<');
    if (!tag || *last == '<' || tag > last) return last;
    *n += (size_t)(last - tag); /* the tag has attributes */
    return tag;
}

/* 1: a whole key NAME key_end begins at P. */
static int begins_argument(const struct reader *r, const char *p)
{
    const struct call_syntax *y = r->s->syntax;
    struct reader at = *r;
    size_t n, taken = matches(r, p, y->key, strlen(y->key));
    if (!taken) return 0;
    at.p = p = json_span_space(p + taken, r->end);
    while (at.p < r->end && call_syntax_takes_name(at.p, 1)) at.p++;
    first_tag(y->key_end, &n);
    return at.p > p && expect_bytes(&at, y->key_end, n);
}

/* 1: a call begins at P. */
static int begins_call(const struct reader *r, const char *p)
{
    const struct call_syntax *y = r->s->syntax;
    size_t n_opening, n;
    const char *opening = call_syntax_opening(y, &n_opening), *tag = last_tag(y->call, &n);
    return matches(r, p, opening, n_opening) || matches(r, p, tag, n);
}

/* Behind the tool's name that begins at P, perhaps with white space around it; NULL: none does. */
static const char *behind_tool(const struct reader *r, const char *p)
{
    const char *begin = p = json_span_space(p, r->end);
    while (p < r->end && call_syntax_takes_name(p, 1)) p++;
    return find_tool(r, begin, (size_t)(p - begin)) ? json_span_space(p, r->end) : NULL;
}

/* 1: a call of a tool begins at P. */
static int begins_tool(const struct reader *r, const char *p)
{
    const struct call_syntax *y = r->s->syntax;
    size_t n_opening, n;
    const char *opening = call_syntax_opening(y, &n_opening), *tag = last_tag(y->call, &n);
    size_t taken = opening == tag ? 0 : matches(r, p, opening, n_opening);
    if (taken) p = json_span_space(p + taken, r->end);
    return (taken = matches(r, p, tag, n)) && behind_tool(r, p + taken);
}

/* 1: one of the tags that end a call stands at P. */
static int ends_call(const struct reader *r, const char *p)
{
    size_t n;
    for (const char *tag = first_tag(r->s->syntax->call_end, &n); n; tag = first_tag(tag + n, &n))
        if (matches(r, p, tag, n)) return 1;
    return 0;
}

/* Where the value that follows ends: at the mark; where it lacks that, before the next argument,
 * before the end of its call if no mark comes before the next call, before a call of a tool, or
 * with the answer. */
static const char *find_end(const struct reader *r, const char *mark, size_t n_mark)
{
    const char *end = NULL;
    int is_ended = 0;
    if (r->s->is_exact) return find(r, mark, n_mark);
    for (const char *p = r->p; p < r->end; p++) {
        if (matches(r, p, mark, n_mark)) return p;
        if (begins_argument(r, p)) return end ? end : p;
        if (is_ended && begins_call(r, p)) return end;
        is_ended |= ends_call(r, p);
        if (!end && (is_ended || begins_tool(r, p))) end = p;
    }
    return end || r->s->is_cut ? end : r->end;
}

/* The end of a value of a schema; where strings have quotes, it may be that of a JSON document, in
 * which the mark may stand. */
static int find_value(struct reader *r, const char *mark, size_t n_mark,
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
    return (*end = find_end(r, mark, n_mark)) != NULL;
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
    if ((rc = find_value(r, mark, n_mark, &kind, &end)) > 0) {
        r->p = end;
        int is_ended = matches(r, end, mark, n_mark) > 0;
        if ((*y->value_end == '\n' || !is_ended) && end > p && end[-1] == '\n') end--;
        rc = keep_value(r, arguments, key, p, end, &kind);
    }
    free(key);
    return rc <= 0 ? rc : expect(r, y->value_end) || !r->s->is_exact;
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
    tool = find_tool(r, c->name, strlen(c->name));
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

static int read_body(struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    struct tool_call *more = realloc(r->t->call, (size_t)(r->t->n + 1) * sizeof *more);
    if (!more) return err_memory(r->e);
    r->t->call = more;
    struct tool_call *c = &more[r->t->n++];
    *c = (struct tool_call){0};
    return y->body == CALL_JSON     ? json_call(r, c)
           : y->body == CALL_NAMED  ? named_call(r, c)
           : y->body == CALL_PYTHON ? python_call(r, c)
                                    : members_call(r, c);
}

/* The end of a call. Of its tags some may be missing where the answer ended or more follows. */
static int expect_end(struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    size_t n;
    int found = 0;
    if (expect(r, y->call_end) || at_end(r)) return 1;
    if (r->s->is_exact) return 0;
    for (const char *p = first_tag(y->call_end, &n); n; p = first_tag(p + n, &n)) {
        size_t fence = strcspn(p, "<"); /* the end of a block before the tag */
        if (fence && fence < n) found += expect_bytes(r, p, fence), p += fence, n -= fence;
        found += expect_bytes(r, p, n);
    }
    const char *next = json_span_space(r->p, r->end);
    if (next == r->end) return !r->s->is_cut;
    return found || begins_call(r, next) || (y->end && matches(r, next, y->end, strlen(y->end)));
}

/* The tool's name that ends before P, perhaps with white space between; NULL: none does. */
static const char *tool_before(const struct reader *r, const char *p)
{
    while (p > r->p && is_space(p[-1])) p--;
    const char *end = p;
    while (p > r->p && call_syntax_takes_name(p - 1, 1)) p--;
    return find_tool(r, p, (size_t)(end - p)) ? p : NULL;
}

/* 1: at P is what stands behind a call's name. */
static int is_behind_name(const struct reader *r, const char *p)
{
    const struct call_syntax *y = r->s->syntax;
    const char *const texts[] = {y->key, y->call_end, y->call_id, y->name_end};
    for (int i = 0; i < 4; i++) {
        size_t n;
        const char *tag = first_tag(texts[i], &n);
        if (n > 1 && matches(r, p, tag, n)) return 1;
    }
    return 0;
}

/* 1: one more call stands in the same tag: an object, or a tool's name before an argument. */
static int goes_on(const struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    const char *p = json_span_space(r->p, r->end);
    if (r->s->is_exact || y->begin || !y->call || p == r->end) return 0;
    if (y->body == CALL_JSON) return *p == '{';
    return y->body == CALL_MEMBERS && (p = behind_tool(r, p)) && is_behind_name(r, p);
}

/* call BODY call_end, or several bodies in one tag. */
static int read_call(struct reader *r)
{
    int rc = 1;
    if (!r->is_open && !expect(r, r->s->syntax->call)) return 0;
    r->is_open = 0;
    do rc = read_body(r);
    while (rc > 0 && goes_on(r));
    return rc <= 0 ? rc : expect_end(r);
}

/* One call, or all of a list, behind what begins it. */
static int read_list(struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    int rc;
    for (;;) {
        if ((rc = read_call(r)) <= 0) return rc;
        if (y->end ? expect(r, y->end) || at_end(r) : y->call != NULL) return 1;
        if (!expect(r, y->between)) return !y->end;
    }
}

/* From an opening on. */
static int read_calls(struct reader *r)
{
    const struct call_syntax *y = r->s->syntax;
    if (y->maybe) expect(r, y->maybe);
    return expect(r, y->begin) ? read_list(r) : 0;
}

/* All but the first N calls. */
static void forget_calls(struct toolcalls *t, int n)
{
    while (t->n > n) {
        struct tool_call *last = &t->call[--t->n];
        free(last->name);
        free(last->arguments);
    }
    if (t->n) return;
    free(t->call);
    t->call = NULL;
}

static int add_text(struct toolcalls *t, const char *p, const char *end)
{
    memcpy(t->text + t->text_bytes, p, (size_t)(end - p));
    t->text_bytes += (size_t)(end - p);
    return 1;
}

/* ---- calls without their opening */

/* Where such a call begins before END, *body: where it goes on behind its tag, if it has one. A
 * tool's name tells it, and an object its end, too. NULL: there is none. */
static const char *find_bare(const struct reader *r, const char *end, const char **body)
{
    const struct call_syntax *y = r->s->syntax;
    size_t n, n_opening, taken;
    const char *p = json_span_space(r->p, r->end), *at;
    const char *tag = last_tag(y->call ? y->call : "", &n);
    const char *opening = call_syntax_opening(y, &n_opening);
    if (!y->call || (y->body == CALL_JSON && !y->begin)) { /* an object or a list of them */
        if (r->t->n || r->t->text_bytes || p == end || *p != (y->begin ? '[' : '{')) return NULL;
        *body = p + (y->begin != NULL);
        return p;
    }
    for (p = r->p; p < end; p++) {
        if (tag == opening) {
            if (is_behind_name(r, p) && (at = tool_before(r, p))) return *body = at;
        } else if ((taken = matches(r, p, tag, n)) && behind_tool(r, p + taken)) {
            *body = y->begin ? p : p + taken;
            return p;
        }
    }
    return NULL;
}

/* 1: TEXT stands before P as other tokens spell it. */
static int is_behind_spelling(const struct reader *r, const char *p, const char *text, size_t n)
{
    while (p > r->begin && is_space(p[-1])) p--;
    return n && (size_t)(p - r->begin) >= n && !memcmp(p - n, text, n);
}

/* The call that begins at AT, as text if it is none. */
static int read_bare(struct reader *r, const char *at, const char *body)
{
    const struct call_syntax *y = r->s->syntax;
    size_t n, n_text;
    int n_calls = r->t->n, rc = 0;
    const char *opening = call_syntax_opening(y, &n);
    add_text(r->t, r->p, at);
    n_text = r->t->text_bytes;
    r->p = body;
    r->is_bare = 1;
    r->is_open = !y->begin;
    if (!is_behind_spelling(r, at, opening, n)) rc = y->end ? read_list(r) : read_call(r);
    r->is_bare = r->is_open = 0;
    if (rc > 0 && y->body == CALL_JSON && !y->begin) {
        size_t n_end = strcspn(y->call_end + 1, " \n"); /* it was there */
        rc = is_behind_spelling(r, r->p, y->call_end + 1, n_end) || r->p[-1] == FREE_TEXT_MARK[0];
    }
    if (rc) return rc;
    forget_calls(r->t, n_calls);
    r->t->text_bytes = n_text;
    r->p = at + 1;
    return add_text(r->t, at, r->p);
}

/* ---- all of an answer */

/* Where the text before the opening at P ends: what may stand before an opening is no text. */
static const char *before_opening(const struct reader *r, const char *p)
{
    const char *maybe = r->s->syntax->maybe;
    size_t n = maybe && p < r->end ? strlen(maybe) : 0;
    for (const char *at = r->p; n && at < p; at++)
        if (at + matches(r, at, maybe, n) == p) return at;
    return p;
}

/* Text and calls in turn. */
static int read_all(struct reader *r)
{
    size_t n;
    const char *opening = call_syntax_opening(r->s->syntax, &n), *at = NULL, *body;
    int rc = 1;
    if (!n) {
        if ((rc = read_calls(r)) <= 0) return rc;
        return add_text(r->t, r->p, r->end);
    }
    while (rc > 0) {
        if (!at || at < r->p) at = find(r, opening, n);
        const char *end = at ? at : r->end,
                   *bare = r->s->is_exact ? NULL : find_bare(r, end, &body);
        if (!at) at = r->end;
        if (bare) {
            rc = read_bare(r, bare, body);
        } else {
            add_text(r->t, r->p, before_opening(r, at));
            if ((r->p = at) == r->end) return 1;
            rc = read_calls(r);
        }
    }
    return rc;
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
    struct reader r = {.s = s, .begin = text, .p = text, .end = text + n, .t = t, .e = e};
    *t = (struct toolcalls){0};
    if (!(t->text = malloc(n + 1))) return err_memory(e);
    json_forget();
    int rc = read_all(&r);
    free(r.mended);
    if (rc < 0 || json_check(e)) return -1;
    if (rc && t->n) {
        trim(t);
        return 0;
    }
    forget_calls(t, 0);
    if (n) memcpy(t->text, text, n);
    t->text_bytes = n;
    return 0;
}

void toolcalls_close(struct toolcalls *t)
{
    forget_calls(t, 0);
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
