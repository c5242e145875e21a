#include "core/base/args_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The words of a command line as they are read. */
struct words {
    const struct args_program *p;
    struct args_given *g;
    char **argv; /* [argc] */
    int argc, at;
};

/* An option as it was found: its row, its name as the table has it, its value or NULL. */
struct found {
    const struct args_row *row;
    const char *name, *value;
};

static int is_long(const char *word) { return word[0] == '-' && word[1] == '-'; }

/* Compares NAME with the first n bytes of WORD, "_" as "-". */
static int same(const char *name, const char *word, size_t n)
{
    if (strlen(name) != n) return 0;
    for (size_t i = 0; i < n; i++)
        if (name[i] != word[i] && !(i > 1 && is_long(word) && name[i] == '-' && word[i] == '_'))
            return 0;
    return 1;
}

/* The row that has the name in the first n bytes of WORD; *name is the table's own. */
static const struct args_row *find_row(const struct args_program *p, const char *word, size_t n,
                                       const char **name)
{
    for (int i = 0; i < p->n_rows; i++)
        for (int k = 0; k < ARGS_NAMES && p->rows[i].names[k]; k++)
            if (same(p->rows[i].names[k], word, n)) {
                *name = p->rows[i].names[k];
                return &p->rows[i];
            }
    return NULL;
}

static const struct args_other *find_in(const struct args_other *o, const char *word, size_t n)
{
    for (; o && o->names; o++)
        for (const char *at = o->names; *at; at += strspn(at, " ")) {
            char name[64];
            size_t length = strcspn(at, " ");
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            if (same(name, word, n)) return o;
            at += length;
        }
    return NULL;
}

static const struct args_other *find_other(const struct args_program *p, const char *word, size_t n)
{
    const struct args_other *o = find_in(p->others, word, n);
    return o ? o : find_in(p->others_too, word, n);
}

/* on, off, .. or several of them with commas between */
static int is_switch(const char *word)
{
    static const char *const values[] = {"on", "off", "auto", "0", "1", "-1", "true", "false"};
    for (;;) {
        size_t n = strcspn(word, ","), i = 0;
        while (i < sizeof values / sizeof *values && !same(values[i], word, n)) i++;
        if (i == sizeof values / sizeof *values) return 0;
        if (!word[n]) return 1;
        word += n + 1;
    }
}

/* 1 when the names without dashes are equal, or `word` is a prefix of the other. */
static int resembles(const char *name, const char *word, size_t n)
{
    const char *end = word + n;
    for (;; name++, word++) {
        while (*name == '-') name++;
        while (word < end && (*word == '-' || *word == '_')) word++;
        if (word == end) return 1;
        if (*name != *word) return 0;
    }
}

/* The error of an option that does not exist: names the one that was probably meant. */
static int unknown(const struct args_program *p, const char *word, size_t n, struct err *e)
{
    const char *name, *meant = NULL;
    int n_meant = 0;
    if (!is_long(word) && n > 2 && find_row(p, word, 2, &name))
        return err_set(e, "unknown option '%s' (see --help; a value is a word of its own: %s %s)",
                       word, name, word + 2 + (word[2] == '='));
    for (int i = 0; i < p->n_rows && n > 3; i++) {
        int found = 0;
        for (int k = 0; k < ARGS_NAMES && p->rows[i].names[k]; k++) {
            const char *candidate = p->rows[i].names[k];
            if (!found && is_long(candidate) && resembles(candidate, word, n))
                meant = candidate, found = 1;
        }
        n_meant += found;
    }
    if (n_meant == 1)
        return err_set(e, "unknown option '%.*s' (is %s meant?)", (int)n, word, meant);
    return err_set(e, "unknown option '%.*s' (see --help)", (int)n, word);
}

/* A name of another program. */
static int take_other(struct words *w, const struct args_other *o, const char *word, size_t n,
                      struct err *e)
{
    const int has_value = word[n] == '=';
    struct args_given *g = w->g;
    if (o->answer == ARGS_REFUSED) return err_set(e, "%.*s: %s", (int)n, word, o->says);
    if (has_value && o->answer == ARGS_ACCEPTED)
        return err_set(e, "%.*s takes no value", (int)n, word);
    if (!has_value && o->answer == ARGS_WITH_VALUE && w->at++ == w->argc)
        return err_set(e, "option '%s' needs an argument", word);
    if (!has_value && o->answer == ARGS_WITH_SWITCH && w->at < w->argc && is_switch(w->argv[w->at]))
        w->at++;
    if (g->n_notes < ARGS_NOTES) g->note[g->n_notes++] = (struct args_note){word, (int)n, o->says};
    return 0;
}

/* ---- values */

static int parse_seed(const struct found *f, struct args_seed *out, struct err *e)
{
    char *end;
    errno = 0;
    *out = (struct args_seed){.is_random = !strcmp(f->value, "-1")};
    if (out->is_random) return 0;
    unsigned long long v = strtoull(f->value, &end, 10);
    if (errno || end == f->value || *end || strchr(f->value, '-'))
        return err_set(e, "%s: '%s' is not a number from 0 to 2^64-1, or -1", f->name, f->value);
    out->value = v;
    return 0;
}

static int parse_number(const struct found *f, double *out, struct err *e)
{
    const struct args_row *r = f->row;
    const int real = r->kind == ARGS_IS_REAL;
    char *end;
    errno = 0;
    double v = real ? strtod(f->value, &end) : (double)strtoll(f->value, &end, 10);
    if (errno || end == f->value || *end || !isfinite(v))
        return err_set(e, "%s: '%s' is not %s", f->name, f->value,
                       real ? "a number" : "an integer");
    if (v < r->lo || v > r->hi)
        return err_set(e, "%s: %s is not in %.10g..%.10g", f->name, f->value, r->lo, r->hi);
    *out = v;
    return 0;
}

static int check_text(const struct found *f, struct err *e)
{
    const char *const *allowed = f->row->allowed;
    char list[64] = "";
    for (int i = 0; allowed && allowed[i]; i++) {
        size_t n = strlen(list);
        if (!strcmp(f->value, allowed[i])) return 0;
        snprintf(list + n, sizeof list - n, i ? ", %s" : "%s", allowed[i]);
    }
    return allowed ? err_set(e, "%s %s: must be one of %s", f->name, f->value, list) : 0;
}

/* One element of a list; equal elements are kept once. */
static int add_int(const struct found *f, struct args_ints *l, struct err *e)
{
    double v;
    if (parse_number(f, &v, e)) return -1;
    if (l->is_default) *l = (struct args_ints){0};
    for (int i = 0; i < l->n; i++)
        if (l->v[i] == (int)v) return 0;
    if (l->n == ARGS_LIST) return err_set(e, "%s: more than %d values", f->name, ARGS_LIST);
    l->v[l->n++] = (int)v;
    return 0;
}

static int add_text(const struct found *f, struct args_texts *l, struct err *e)
{
    if (!*f->value) return err_set(e, "%s: empty text", f->name);
    if (check_text(f, e)) return -1;
    if (strlen(f->value) >= sizeof l->v[0])
        return err_set(e, "%s: '%s' is too long", f->name, f->value);
    if (l->is_default) *l = (struct args_texts){0};
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->v[i], f->value)) return 0;
    if (l->n == ARGS_LIST) return err_set(e, "%s: more than %d values", f->name, ARGS_LIST);
    strcpy(l->v[l->n++], f->value);
    return 0;
}

static int add_list(const struct found *f, void *field, struct err *e)
{
    for (const char *at = f->value;; at++) {
        char item[64];
        size_t n = strcspn(at, ",");
        const struct found one = {f->row, f->name, item};
        if (n >= sizeof item) return err_set(e, "%s: '%s' is too long", f->name, at);
        snprintf(item, sizeof item, "%.*s", (int)n, at);
        if (f->row->kind == ARGS_IS_INTS ? add_int(&one, field, e) : add_text(&one, field, e))
            return -1;
        at += n;
        if (!*at) return 0;
    }
}

static int add_string(const struct found *f, struct args_strings *l, struct err *e)
{
    if (!*f->value) return err_set(e, "%s: empty text", f->name);
    if (l->n == ARGS_REPEATS) return err_set(e, "%s: more than %d times", f->name, ARGS_REPEATS);
    l->v[l->n++] = f->value;
    return 0;
}

static int set_field(const struct found *f, void *options, struct err *e)
{
    void *field = (char *)options + f->row->offset;
    double v = 0;
    int rc = 0;
    switch (f->row->kind) {
    case ARGS_IS_FLAG: *(int *)field = 1; break;
    case ARGS_IS_SEED: return parse_seed(f, field, e);
    case ARGS_IS_INT:
        rc = parse_number(f, &v, e);
        if (!rc) *(int *)field = (int)v;
        break;
    case ARGS_IS_REAL: return parse_number(f, field, e);
    case ARGS_IS_TEXT: *(const char **)field = f->value; return check_text(f, e);
    case ARGS_IS_STRINGS: return add_string(f, field, e);
    case ARGS_IS_INTS:
    case ARGS_IS_TEXTS: return add_list(f, field, e);
    }
    return rc;
}

/* ---- the command line */

int args_is_file(const struct args_row *r)
{
    return r->file != ARGS_NO_FILE;
}

/* The name of a file can be forgotten, and is then the next option. */
static int check_file(const struct args_program *p, const struct found *f, struct err *e)
{
    const char *name;
    if (!args_is_file(f->row) || !find_row(p, f->value, strlen(f->value), &name)) return 0;
    return err_set(e, "%s needs a file, and '%s' is an option (a file of that name is ./%s)",
                   f->name, f->value, f->value);
}

/* The value of the option in the first n bytes of WORD: behind "=" or the next word. */
static int find_value(struct words *w, const char *word, size_t n, struct found *f, struct err *e)
{
    f->value = word[n] == '=' ? word + n + 1 : NULL;
    if (!f->row->arg) return f->value ? err_set(e, "%s takes no value", f->name) : 0;
    if (f->value) return 0;
    if (w->at == w->argc) return err_set(e, "option '%s' needs an argument", word);
    f->value = w->argv[w->at++];
    return check_file(w->p, f, e);
}

static int take_option(struct words *w, const char *word, void *options, struct err *e)
{
    size_t n = is_long(word) ? strcspn(word, "=") : strlen(word);
    struct found f;
    f.row = find_row(w->p, word, n, &f.name);
    if (!f.row) {
        const struct args_other *o = find_other(w->p, word, n);
        return o ? take_other(w, o, word, n, e) : unknown(w->p, word, n, e);
    }
    if (find_value(w, word, n, &f, e) || set_field(&f, options, e)) return -1;
    w->g->name[f.row - w->p->rows] = f.name;
    return 0;
}

int args_parse(const struct args_program *p, void *options, struct args_given *g, int argc,
               char **argv, struct err *e)
{
    struct words w = {p, g, argv, argc, 1};
    int words_only = 0;
    CHECK(p->n_rows <= ARGS_ROWS && p->n_words <= ARGS_WORDS);
    *g = (struct args_given){.n_words = 0};
    while (w.at < argc) {
        const char *word = argv[w.at++];
        if (!words_only && !strcmp(word, "--")) {
            words_only = 1;
        } else if (!words_only && word[0] == '-' && word[1]) {
            if (take_option(&w, word, options, e)) return -1;
        } else {
            const struct args_other *o = words_only ? NULL : find_other(p, word, strlen(word));
            if (o && g->n_words == p->n_words) {
                if (take_other(&w, o, word, strlen(word), e)) return -1;
                continue;
            }
            if (g->n_words == p->n_words)
                return err_set(e, "unexpected argument '%s' (see --help)", word);
            g->word[g->n_words++] = word;
        }
    }
    args_choose_mode(p, g);
    return 0;
}

const struct args_row *args_find(const struct args_program *p, const char *name)
{
    return find_row(p, name, strlen(name), &name);
}
