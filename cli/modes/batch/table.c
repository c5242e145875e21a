#include "cli/modes/batch/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

/* A text of `out` bytes: [from, from + n). */
struct span {
    size_t from, n;
};

struct spans {
    struct span *v; /* [n] */
    size_t n, cap;
};

/* A piece of the template: a text, or the name of a column. */
struct piece {
    struct span text; /* of t->pieces_text */
    int is_column;
    size_t column; /* once the header is known */
};

struct table {
    char separator;
    struct out pieces_text;
    struct piece *piece; /* [n_pieces] */
    size_t n_pieces;
    struct out names; /* of the columns */
    struct spans columns;
    size_t id_column; /* where has_id */
    int has_id;
    struct out cells; /* of the last row */
    struct spans row;
    struct out prompt;
    char bad[160];
};

/* ---- which input is one */

static int ends_with(const char *s, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && !strncasecmp(s + n - m, end, m);
}

char table_separator_of_name(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    if (ends_with(path, n, ".gz")) n -= 3;
    return ends_with(path, n, ".csv") ? ',' : ends_with(path, n, ".tsv") ? '\t' : 0;
}

char table_separator(const char *format, const char *path)
{
    if (!strcmp(format, "csv")) return ',';
    if (!strcmp(format, "tsv")) return '\t';
    return strcmp(format, "auto") ? 0 : table_separator_of_name(path);
}

/* ---- the template */

static int add_span(struct spans *s, size_t from, size_t n, struct err *e)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct span *grown = realloc(s->v, cap * sizeof *grown);
        if (!grown) return err_memory(e);
        s->v = grown;
        s->cap = cap;
    }
    s->v[s->n++] = (struct span){from, n};
    return 0;
}

/* The text since FROM, if any, as a piece. */
static void end_text(struct table *t, size_t from)
{
    if (t->pieces_text.n > from)
        t->piece[t->n_pieces++] = (struct piece){.text = {from, t->pieces_text.n - from}};
}

static int read_template(struct table *t, const char *p, struct err *e)
{
    size_t from = 0;
    int n_columns = 0;
    for (; *p; p++) {
        if ((*p == '{' || *p == '}') && p[1] == *p) p++;
        else if (*p == '}') return err_set(e, "a } stands alone: }} is the character");
        else if (*p == '{') {
            size_t n = strcspn(++p, "{}");
            if (p[n] != '}')
                return err_set(e, "a { has no } behind it: {column} is a cell, {{ the character");
            end_text(t, from);
            t->piece[t->n_pieces++] = (struct piece){.text = {t->pieces_text.n, n}, .is_column = 1};
            out_bytes(&t->pieces_text, p, n);
            from = t->pieces_text.n;
            p += n;
            n_columns++;
            continue;
        }
        out_bytes(&t->pieces_text, p, 1);
    }
    end_text(t, from);
    if (out_failed(&t->pieces_text)) return err_memory(e);
    return n_columns ? 0 : err_set(e, "names no column: {column} stands for a cell of the row");
}

int table_open(struct table **result, const char *template, char separator, struct err *e)
{
    struct table *t = calloc(1, sizeof *t);
    *result = NULL;
    if (!t) return err_memory(e);
    t->separator = separator;
    /* each piece takes a byte of the template or more, and a column has a text before it */
    if (!(t->piece = calloc(strlen(template) + 2, sizeof *t->piece)) ||
        read_template(t, template, e)) {
        if (!t->piece) err_memory(e);
        table_close(t);
        return -1;
    }
    *result = t;
    return 0;
}

void table_close(struct table *t)
{
    if (!t) return;
    out_free(&t->pieces_text);
    out_free(&t->names);
    out_free(&t->cells);
    out_free(&t->prompt);
    free(t->piece);
    free(t->columns.v);
    free(t->row.v);
    free(t);
}

/* ---- rows */

/* The text in O at FROM; what holds nothing has no memory. */
static const char *text_at(const struct out *o, size_t from) { return o->p ? o->p + from : ""; }

/* A quoted cell that begins at AT; *at moves behind its closing quote. 1: there is none. */
static int read_quoted(const char *p, size_t n, size_t *at, struct out *o)
{
    size_t i = *at + 1;
    for (;;) {
        const char *quote = i < n ? memchr(p + i, '"', n - i) : NULL;
        if (!quote) return 1;
        size_t end = (size_t)(quote - p);
        out_bytes(o, p + i, end - i);
        i = end + 1;
        if (i == n || p[i] != '"') break;
        out_bytes(o, "\"", 1);
        i++;
    }
    *at = i;
    return 0;
}

/* The cells of ROW [n] into *o and *s. 1: it has none that are right; -1: out of memory. */
static int split(const struct table *t, const char *row, size_t n, struct out *o, struct spans *s,
                 struct err *e)
{
    out_clear(o);
    s->n = 0;
    for (size_t at = 0;; at++) {
        size_t from = o->n;
        int is_bad = 0;
        if (at < n && row[at] == '"') {
            is_bad = read_quoted(row, n, &at, o) || (at < n && row[at] != t->separator);
        } else {
            const char *end = at < n ? memchr(row + at, t->separator, n - at) : NULL;
            size_t bytes = (end ? (size_t)(end - row) : n) - at;
            out_bytes(o, row + at, bytes);
            at += bytes;
        }
        if (is_bad) return 1;
        if (add_span(s, from, o->n - from, e)) return -1;
        if (at >= n) break;
    }
    return out_failed(o) ? err_memory(e) : 0;
}

static int is_text(const struct out *o, const struct span *s, const char *text, size_t n)
{
    return s->n == n && (!n || !memcmp(text_at(o, s->from), text, n));
}

static int find_column(const struct table *t, const char *name, size_t n, size_t *column)
{
    for (*column = 0; *column < t->columns.n; ++*column)
        if (is_text(&t->names, &t->columns.v[*column], name, n)) return 1;
    return 0;
}

/* 'a', 'b', .. as far as there is room. */
static void list_columns(const struct table *t, char *text, size_t room)
{
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < t->columns.n && at + 48 < room; i++) {
        const struct span *s = &t->columns.v[i];
        at += (size_t)snprintf(text + at, room - at, "%s'%.*s'", i ? ", " : "",
                               (int)(s->n < 32 ? s->n : 32), text_at(&t->names, s->from));
        if (i + 1 < t->columns.n && at + 48 >= room) snprintf(text + at, room - at, ", ..");
    }
}

static int is_utf8(const char *s, size_t n)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t got;
    for (size_t i = 0; i < n; i += (size_t)got)
        if ((got = utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i),
                                    &c)) <= 0)
            return 0;
    return 1;
}

/* The columns of the template, once those of the table are known. */
static int find_columns(struct table *t, const char *path, struct err *e)
{
    char list[240];
    for (size_t i = 0; i < t->n_pieces; i++) {
        struct piece *x = &t->piece[i];
        const char *name = text_at(&t->pieces_text, x->text.from);
        if (!x->is_column || find_column(t, name, x->text.n, &x->column)) continue;
        list_columns(t, list, sizeof list);
        return err_set(e, "--prompt-template: {%.*s}: %s has no such column, it has %s",
                       (int)(x->text.n < 64 ? x->text.n : 64), name, path, list);
    }
    t->has_id = find_column(t, "custom_id", strlen("custom_id"), &t->id_column) ||
                find_column(t, "id", strlen("id"), &t->id_column);
    return 0;
}

int table_take_header(struct table *t, const struct input_line *row, const char *path,
                      struct err *e)
{
    int rc = split(t, row->text, row->n, &t->names, &t->columns, e);
    if (rc < 0) return -1;
    if (rc) return err_set(e, "%s: the header has text behind a closing quote", path);
    if (row->too_long) return err_set(e, "%s: the header is longer than 64 MiB", path);
    if (!is_utf8(row->text, row->n)) return err_set(e, "%s: the header is not UTF-8", path);
    for (size_t i = 0; i < t->columns.n; i++) {
        const struct span *s = &t->columns.v[i];
        size_t first;
        find_column(t, text_at(&t->names, s->from), s->n, &first);
        if (first < i)
            return err_set(e, "%s: columns %zu and %zu have the same name: '%.*s'", path, first + 1,
                           i + 1, (int)(s->n < 64 ? s->n : 64), text_at(&t->names, s->from));
    }
    return find_columns(t, path, e);
}

int table_names_rows(const struct table *t) { return t->has_id; }

int table_read_row(struct table *t, struct input_line *line, struct err *e)
{
    const char *row = line->text;
    size_t n = line->n;
    line->number--; /* the header's */
    line->row = row;
    line->n_row = n;
    line->is_row = 1;
    line->bad = line->id = NULL;
    if (line->too_long) return 0;
    int rc = split(t, row, n, &t->cells, &t->row, e);
    if (rc < 0) return -1;
    if (rc || t->row.n != t->columns.n || !is_utf8(row, n)) {
        if (rc)
            snprintf(t->bad, sizeof t->bad, "row %llu: has text behind a closing quote",
                     (unsigned long long)line->number);
        else if (t->row.n != t->columns.n)
            snprintf(t->bad, sizeof t->bad, "row %llu: has %zu cell%s, the header %zu",
                     (unsigned long long)line->number, t->row.n, t->row.n == 1 ? "" : "s",
                     t->columns.n);
        else
            snprintf(t->bad, sizeof t->bad, "row %llu: is not UTF-8",
                     (unsigned long long)line->number);
        line->bad = t->bad;
        return 0;
    }
    out_clear(&t->prompt);
    for (size_t i = 0; i < t->n_pieces; i++) {
        const struct piece *x = &t->piece[i];
        const struct span *s = x->is_column ? &t->row.v[x->column] : &x->text;
        out_bytes(&t->prompt, text_at(x->is_column ? &t->cells : &t->pieces_text, s->from), s->n);
    }
    if (out_failed(&t->prompt)) return err_memory(e);
    line->text = text_at(&t->prompt, 0);
    line->n = t->prompt.n;
    if (t->has_id && t->row.v[t->id_column].n) {
        line->id = text_at(&t->cells, t->row.v[t->id_column].from);
        line->n_id = t->row.v[t->id_column].n;
    }
    return 0;
}

/* ---- written again */

/* Bytes that are not UTF-8 become U+FFFD. */
static void put_text(struct out *o, const char *text, size_t n, int doubles)
{
    utf8proc_int32_t c;
    for (size_t i = 0; i < n;) {
        utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                                (utf8proc_ssize_t)(n - i), &c);
        if (got <= 0) out_text(o, "\xef\xbf\xbd");
        else out_folded(o, text + i, (size_t)got);
        if (doubles && text[i] == '"') out_text(o, "\"");
        i += got > 0 ? (size_t)got : 1;
    }
}

void table_put_cell(struct out *o, char separator, const char *text, size_t n)
{
    int quotes = n && (memchr(text, separator, n) || memchr(text, '"', n) ||
                       memchr(text, '\n', n) || memchr(text, '\r', n));
    if (quotes) out_text(o, "\"");
    put_text(o, text, n, quotes);
    if (quotes) out_text(o, "\"");
}

int table_put_header(struct out *o, const struct table *t, char separator, const char *const *more,
                     int n, struct err *e)
{
    size_t column;
    for (size_t i = 0; i < t->columns.n; i++) {
        table_put_cell(o, separator, text_at(&t->names, t->columns.v[i].from), t->columns.v[i].n);
        out_bytes(o, &separator, 1);
    }
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", more[i]);
        for (int k = 2; find_column(t, name, strlen(name), &column); k++)
            snprintf(name, sizeof name, "%.40s_%d", more[i], k);
        if (i) out_bytes(o, &separator, 1);
        table_put_cell(o, separator, name, strlen(name));
    }
    out_text(o, "\n");
    return out_failed(o) ? err_memory(e) : 0;
}

int table_put_row(struct out *o, struct table *t, char separator, const char *row, size_t n,
                  struct err *e)
{
    if (split(t, row, n, &t->cells, &t->row, e) < 0) return -1;
    for (size_t i = 0; i < t->columns.n; i++) {
        if (i < t->row.n)
            table_put_cell(o, separator, text_at(&t->cells, t->row.v[i].from), t->row.v[i].n);
        out_bytes(o, &separator, 1);
    }
    return 0;
}
