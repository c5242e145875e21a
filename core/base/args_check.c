/* args_check.c: checks which options go together, by the columns modes, chooses, group, needs. */
#include "core/base/args_internal.h"

#include "core/base/printable.h"

#include <string.h>

/* The name of the option that chose mode `m`; NULL: it was not chosen. */
static const char *chooser(const struct args_program *p, const struct args_given *g, int m)
{
    for (int i = 0; i < p->n_rows; i++)
        if (g->name[i] && p->rows[i].chooses == m) return g->name[i];
    return NULL;
}

void args_choose_mode(const struct args_program *p, struct args_given *g)
{
    g->mode = 0;
    for (int m = p->n_modes - 1; m > 0; m--) /* the first of several, but those that stand alone */
        if (chooser(p, g, m) && !(g->mode && p->modes[g->mode].alone)) g->mode = m;
}

static int excluded(const struct args_program *p, int m, const char *a, const char *b,
                    struct err *e)
{
    const char *why = m ? p->modes[m].why : NULL;
    return err_set(e, "%s and %s exclude each other%s%s", a, b, why ? ": " : "", why ? why : "");
}

void args_modes_needed(const struct args_program *p, unsigned modes, char *out, size_t cap)
{
    int left = 0;
    *out = 0;
    for (int m = 0; m < p->n_modes; m++) left += (modes >> m & 1) != 0;
    for (int m = 0; m < p->n_modes; m++) {
        size_t n = strlen(out);
        if (!(modes >> m & 1)) continue;
        left--;
        snprintf(out + n, cap - n, "%s%s", p->modes[m].needed,
                 left > 1    ? ", "
                 : left == 1 ? " or "
                             : "");
    }
}

/* An option given in a mode that it does not belong to. */
static int wrong_mode(const struct args_program *p, const struct args_given *g, int i,
                      struct err *e)
{
    const struct args_row *r = &p->rows[i];
    const char *chose = chooser(p, g, g->mode); /* NULL: the program itself has */
    char list[200];
    if (r->modes & args_bit(0))
        return excluded(p, g->mode, chose ? chose : p->modes[g->mode].needed, g->name[i], e);
    args_modes_needed(p, r->modes, list, sizeof list);
    return err_set(e, "%s needs %s", g->name[i], list);
}

/* "-sys needs --chat or -cnv". */
static int lacks(const char *name, const char *needs, struct err *e)
{
    err_set(e, "%s needs", name);
    for (const char *at = needs; *at; at += strspn(at, " ")) {
        size_t n = strlen(e->msg), word = strcspn(at, " ");
        snprintf(e->msg + n, sizeof e->msg - n, "%s %.*s", at == needs ? "" : " or", (int)word, at);
        at += word;
    }
    return -1;
}

int args_check(const struct args_program *p, const struct args_given *g, struct err *e)
{
    const char *chose = g->mode ? chooser(p, g, g->mode) : NULL, *other;
    if (g->mode && p->modes[g->mode].alone) return 0;
    for (int m = 1; m < p->n_modes; m++)
        if (m != g->mode && (other = chooser(p, g, m))) return excluded(p, 0, chose, other, e);
    for (int i = 0; i < p->n_rows; i++) {
        const struct args_row *r = &p->rows[i];
        if (!g->name[i]) continue;
        if (r->modes && !(r->modes & args_bit(g->mode))) return wrong_mode(p, g, i, e);
        for (int k = i + 1; k < p->n_rows && r->group; k++)
            if (g->name[k] && p->rows[k].group == r->group)
                return excluded(p, 0, g->name[i], g->name[k], e);
        if (r->needs && !args_any_given(p, g, r->needs)) return lacks(g->name[i], r->needs, e);
    }
    return 0;
}

const char *args_name_given(const struct args_program *p, const struct args_given *g, size_t offset)
{
    for (int i = 0; i < p->n_rows; i++)
        if (p->rows[i].names[0] && p->rows[i].offset == offset) return g->name[i];
    return NULL;
}

const char *args_any_given(const struct args_program *p, const struct args_given *g,
                           const char *names)
{
    for (const char *at = names; *at; at += strspn(at, " ")) {
        char name[64];
        size_t n = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n;
        const struct args_row *r = args_find(p, name);
        CHECK(r);
        if (g->name[r - p->rows]) return g->name[r - p->rows];
    }
    return NULL;
}

void args_say(const struct args_given *g)
{
    for (int i = 0; i < g->n_notes; i++) {
        char word[PRINTABLE];
        fprintf(stderr, "note: %.*s: %s\n", g->note[i].n, printable_text(g->note[i].word, word),
                g->note[i].says);
    }
}
