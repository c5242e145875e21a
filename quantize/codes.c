#include "quantize/codes.h"

#include "convert/panels.h"
#include "core/model/modelfile.h"

#include <stdlib.h>
#include <string.h>

void module_codes_free(struct module_codes *c)
{
    free(c->codes);
    free(c->scales);
    free(c->zeros);
    free(c->g_idx);
    *c = (struct module_codes){0};
}

enum { ALIGN = 64, HIGH = 16 };

struct packing {
    const struct codes_want *want;
    const struct linear *w;
    const struct slots *slots; /* of the module */
    const struct module_codes *from;
    const int32_t *rows;
    uint8_t *codes, *zeros, *panel; /* of the module's first panel; panel [threads][in][16] */
    char *scales;
    uint16_t *wide;   /* [threads][n_groups][16] zero points */
    uint16_t *narrow; /* [threads][n_groups][16] scales */
};

/* Codes, scales and zero points of 16 outputs. */
static void pack_panel(void *arg, int number, int thread)
{
    const struct packing *c = arg;
    const struct linear *w = c->w;
    size_t in = (size_t)w->in, out = (size_t)c->want->out, groups = (size_t)c->want->n_groups,
           packed_groups = (size_t)w->n_groups * MF_PANEL, at = (size_t)number * MF_PANEL;
    int n = w->out - (int)at < MF_PANEL ? w->out - (int)at : MF_PANEL;
    uint8_t *panel = c->panel + (size_t)thread * in * MF_PANEL;
    uint16_t *wide = c->wide + (size_t)thread * groups * MF_PANEL,
             *narrow = c->narrow + (size_t)thread * groups * MF_PANEL;
    size_t column[MF_PANEL];
    for (int i = 0; i < n; i++)
        column[i] = c->rows ? (size_t)c->rows[at + (size_t)i] : at + (size_t)i;
    for (size_t i = 0; i < in; i++)
        for (int l = 0; l < MF_PANEL; l++)
            panel[i * MF_PANEL + (size_t)l] = l < n ? c->from->codes[i * out + column[l]] : 0;
    for (size_t g = 0; g < groups; g++)
        for (int l = 0; l < n; l++) {
            wide[g * MF_PANEL + (size_t)l] = c->from->zeros[g * out + column[l]];
            narrow[g * MF_PANEL + (size_t)l] = c->from->scales[g * out + column[l]];
        }
    panels_pack(c->codes + (size_t)number * (size_t)w->k * 8, panel, c->slots);
    panels_scales(c->scales + (size_t)number * packed_groups * dtype_bytes(w->scale_type),
                  w->scale_type, narrow, DT_F16, MF_PANEL, n, c->slots);
    panels_zeros(c->zeros + (size_t)number * packed_groups, wide, MF_PANEL, n, c->slots);
}

/* 16 times a scale is a number of F16, too. */
static int fits(const struct codes_want *want)
{
    size_t n = (size_t)want->n_groups * (size_t)want->out;
    for (int m = 0; m < want->n; m++)
        for (size_t i = 0; i < n; i++)
            if (f32_from_f16(want->module[m]->scales[i]) * HIGH > 65504) return 0;
    return 1;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Sizes of a module's arrays, and all of them; fills *w. */
static int open_memory(struct linear *w, const struct codes_want *want, const struct slots *s,
                       void **memory, struct err *e)
{
    size_t panels = ((size_t)w->out + MF_PANEL - 1) / MF_PANEL, n = (size_t)want->n,
           k = (size_t)s->k, groups = (size_t)s->n_groups;
    w->weight = NULL;
    w->scale_type = want->bits > 4 && !fits(want) ? DT_F32 : DT_F16;
    w->k = (int)s->k, w->group = (int)s->group, w->n_groups = (int)s->n_groups;
    size_t codes = aligned(n * panels * k * 8),
           scales = aligned(n * panels * groups * MF_PANEL * dtype_bytes(w->scale_type)),
           zeros = aligned(n * panels * groups * MF_PANEL), perm = aligned(n * k * sizeof *w->perm);
    char *p = *memory = aligned_alloc(ALIGN, codes + scales + zeros + perm + 4 * ALIGN);
    if (!p) return err_memory(e);
    w->codes = (const uint8_t *)p;
    w->scales = p + codes;
    w->zeros = (const uint8_t *)(p + codes + scales);
    w->perm = (const int32_t *)(void *)(p + codes + scales + zeros);
    return 0;
}

static int pack_module(struct packing *c, int number, struct pool *p, int *moved, struct err *e)
{
    const struct codes_want *want = c->want;
    const struct linear *w = c->w;
    const struct linear one = w->stack ? linear_of_stack(w, number) : *w;
    struct slots s;
    c->from = want->module[number];
    c->rows = want->rows[number];
    const struct slots_source from = {c->from->g_idx,         w->in,    want->n_groups, want->group,
                                      want->bits > 4 ? 2 : 1, want->low};
    if (slots_plan(&s, &from, e)) return -1;
    CHECK(s.k == w->k && s.n_groups == w->n_groups);
    c->slots = &s;
    c->codes = (uint8_t *)(uintptr_t)one.codes;
    c->scales = (char *)(uintptr_t)one.scales;
    c->zeros = (uint8_t *)(uintptr_t)one.zeros;
    memcpy((int32_t *)(uintptr_t)one.perm, s.perm, (size_t)s.k * sizeof *s.perm);
    *moved |= !s.identity;
    pool_run(p, (w->out + MF_PANEL - 1) / MF_PANEL, pack_panel, c);
    slots_free(&s);
    return 0;
}

int codes_linear(struct linear *w, const struct codes_want *want, struct pool *p, void **memory,
                 struct err *e)
{
    size_t threads = (size_t)pool_n_threads(p), groups = (size_t)want->n_groups * MF_PANEL;
    struct packing c = {want, w, .panel = malloc(threads * (size_t)w->in * MF_PANEL),
                        .wide = malloc(threads * groups * sizeof *c.wide),
                        .narrow = malloc(threads * groups * sizeof *c.narrow)};
    struct slots first = {0};
    const struct slots_source from = {want->module[0]->g_idx, w->in,    want->n_groups, want->group,
                                      want->bits > 4 ? 2 : 1, want->low};
    *memory = NULL;
    int moved = 0, rc = c.panel && c.wide && c.narrow ? 0 : err_memory(e);
    if (!rc) rc = slots_plan(&first, &from, e) || open_memory(w, want, &first, memory, e);
    for (int i = 0; i < want->n && !rc; i++) rc = pack_module(&c, i, p, &moved, e);
    if (!rc && !moved) w->perm = NULL;
    if (!rc) linear_find_pairs(w);
    if (rc) {
        free(*memory);
        *memory = NULL;
    }
    slots_free(&first);
    free(c.panel);
    free(c.wide);
    free(c.narrow);
    return rc ? -1 : 0;
}
