#include "core/base/args.h"

#include <string.h>

enum { COLUMNS = 80, LEFT = 28 };

static const struct args_row *row_at(const struct args *a, int i)
{
    return (const void *)((const char *)a->rows + (size_t)i * a->stride);
}

void args_open(struct args *a, const void *rows, size_t stride, int n_rows,
               const struct args_other *others, int argc, char **argv)
{
    memset(a, 0, sizeof *a);
    a->rows = rows;
    a->stride = stride;
    a->n_rows = n_rows;
    a->others = others;
    a->argc = argc;
    a->argv = argv;
    a->at = 1;
}

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

/* The index of the row with this name, or -1; *name is the table's spelling. */
static int find_row(const struct args *a, const char *word, size_t n, const char **name)
{
    for (int i = 0; i < a->n_rows; i++)
        for (int k = 0; k < ARGS_NAMES && row_at(a, i)->names[k]; k++)
            if (same(row_at(a, i)->names[k], word, n)) {
                *name = row_at(a, i)->names[k];
                return i;
            }
    return -1;
}

static const struct args_other *find_other(const struct args *a, const char *word, size_t n)
{
    for (const struct args_other *o = a->others; o && o->names; o++)
        for (const char *p = o->names; *p; p += strspn(p, " ")) {
            char name[64];
            size_t length = strcspn(p, " ");
            snprintf(name, sizeof name, "%.*s", (int)length, p);
            if (same(name, word, n)) return o;
            p += length;
        }
    return NULL;
}

/* 1 for on, off, ..., or a comma-separated list of them. */
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

/* Reports an unknown option with the options that resemble it. */
static int unknown(const struct args *a, const char *word, size_t n, struct err *e)
{
    const char *name, *meant = NULL;
    int n_meant = 0;
    if (!is_long(word) && n > 2 && find_row(a, word, 2, &name) >= 0)
        return err_set(e, "unknown option '%s' (see --help; a value is a word of its own: %s %s)",
                       word, name, word + 2 + (word[2] == '='));
    for (int i = 0; i < a->n_rows && n > 3; i++) {
        int found = 0;
        for (int k = 0; k < ARGS_NAMES && row_at(a, i)->names[k]; k++)
            if (!found && is_long(row_at(a, i)->names[k]) &&
                resembles(row_at(a, i)->names[k], word, n))
                meant = row_at(a, i)->names[k], found = 1;
        n_meant += found;
    }
    if (n_meant == 1)
        return err_set(e, "unknown option '%.*s' (is %s meant?)", (int)n, word, meant);
    return err_set(e, "unknown option '%.*s' (see --help)", (int)n, word);
}

static int other(struct args *a, const struct args_other *o, const char *word, size_t n,
                 struct err *e)
{
    const int has_value = word[n] == '=';
    if (o->answer == ARGS_REFUSED) return err_set(e, "%.*s: %s", (int)n, word, o->says);
    if (has_value && o->answer == ARGS_ACCEPTED)
        return err_set(e, "%.*s takes no value", (int)n, word);
    if (!has_value && o->answer == ARGS_WITH_VALUE && a->at++ == a->argc)
        return err_set(e, "option '%s' needs an argument", word);
    if (!has_value && o->answer == ARGS_WITH_SWITCH && a->at < a->argc && is_switch(a->argv[a->at]))
        a->at++;
    if (a->n_notes < ARGS_NOTES) a->note[a->n_notes++] = (struct args_note){word, (int)n, o->says};
    return 0;
}

/* Refuses an option's name as a value: a forgotten value makes the next option one. */
static int check_value(const struct args *a, const struct args_word *w, struct err *e)
{
    const char *arg = row_at(a, w->row)->arg, *name;
    if ((strcmp(arg, "FILE") && strcmp(arg, "PATH")) ||
        find_row(a, w->value, strlen(w->value), &name) < 0)
        return 0;
    return err_set(e, "%s needs a file, and '%s' is an option (a file of that name is ./%s)",
                   w->name, w->value, w->value);
}

int args_next(struct args *a, struct args_word *w, struct err *e)
{
    while (a->at < a->argc) {
        const char *word = a->argv[a->at++];
        *w = (struct args_word){-1, NULL, word};
        if (a->words_only || word[0] != '-' || !word[1]) return 1;
        if (!strcmp(word, "--")) {
            a->words_only = 1;
            continue;
        }
        size_t n = is_long(word) ? strcspn(word, "=") : strlen(word);
        w->row = find_row(a, word, n, &w->name);
        if (w->row < 0) {
            const struct args_other *o = find_other(a, word, n);
            if (!o) return unknown(a, word, n, e);
            if (other(a, o, word, n, e)) return -1;
            continue;
        }
        w->value = word[n] == '=' ? word + n + 1 : NULL;
        if (!row_at(a, w->row)->arg) return w->value ? err_set(e, "%s takes no value", w->name) : 1;
        if (w->value) return 1;
        if (a->at == a->argc) return err_set(e, "option '%s' needs an argument", word);
        w->value = a->argv[a->at++];
        return check_value(a, w, e) ? -1 : 1;
    }
    return 0;
}

/* The names in the help, as "-n, --predict": those up to the first long one. */
static void names_of(const struct args_row *r, char *out, size_t cap)
{
    *out = 0;
    for (int k = 0; k < ARGS_NAMES && r->names[k]; k++) {
        size_t n = strlen(out);
        snprintf(out + n, cap - n, "%s%s",
                 k                      ? ", "
                 : is_long(r->names[k]) ? "    "
                                        : "",
                 r->names[k]);
        if (is_long(r->names[k])) return;
    }
}

static void wrap(const char *text, int indent, int column, FILE *f)
{
    while (*text) {
        size_t room = (size_t)(COLUMNS - column), n = strlen(text);
        if (n > room) {
            for (n = room; n && text[n] != ' '; n--) continue;
            if (!n) n = strcspn(text, " ");
        }
        fprintf(f, "%.*s\n", (int)n, text);
        text += n + strspn(text + n, " ");
        if (*text) fprintf(f, "%*s", indent, "");
        column = indent;
    }
}

void args_help(const void *rows, size_t stride, int n_rows, FILE *f)
{
    const struct args a = {.rows = rows, .stride = stride};
    for (int i = 0; i < n_rows; i++) {
        const struct args_row *r = row_at(&a, i);
        char left[128];
        if (!r->help) continue;
        if (!r->names[0]) {
            fprintf(f, "\n");
            wrap(r->help, 0, 0, f);
            continue;
        }
        names_of(r, left, sizeof left);
        size_t n = strlen(left);
        if (r->arg) n += (size_t)snprintf(left + n, sizeof left - n, " %s", r->arg);
        if (n < LEFT) fprintf(f, "  %-*s", LEFT, left);
        else fprintf(f, "  %s\n%*s", left, LEFT + 2, "");
        wrap(r->help, LEFT + 2, LEFT + 2, f);
    }
}

void args_say(const struct args_note *note, int n, FILE *f)
{
    for (int i = 0; i < n; i++)
        fprintf(f, "note: %.*s: %s\n", note[i].n, note[i].word, note[i].says);
}
