#include "quantize/modules.h"

#include "convert/job.h"
#include "convert/plan_names.h"
#include "core/base/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 320 };

#define OF_ARCHITECTURE ((UINT64_C(1) << 52) - 1) /* traits that are no layer's */

/* "layers.3.x" -> "x"; NULL: of no layer. */
static const char *below_layer(const char *name)
{
    if (strncmp(name, "layers.", 7)) return NULL;
    const char *dot = strchr(name + 7, '.');
    return dot ? dot + 1 : NULL;
}

/* The name, with "%d", that experts of the linear `to` have as modules of their own, where the
 * checkpoint has one tensor WHOLE of them all; NULL: none is known. */
static const char *split_name(const struct plan *p, const char *to, const char *whole)
{
    for (const struct linear_rule *r = linear_rules; r->to; r++) {
        const char *number = strstr(r->from, "%d");
        uint64_t need = r->need & OF_ARCHITECTURE, without = r->without & OF_ARCHITECTURE;
        if (!number || strcmp(r->to, to) || r->pick != PICK_ALL) continue;
        if ((p->config->traits & need) != need || p->config->traits & without) continue;
        if (!strncmp(whole, r->from, (size_t)(number - r->from))) return r->from;
    }
    return NULL;
}

/* The module's name in the result. */
static int name_module(const struct plan *p, const struct plan_linear *l, int i,
                       char name[NAME_BYTES], struct err *e)
{
    const char *module = l->from.part[0].module, *number = strstr(module, "%d");
    if (!l->from.n_experts) return snprintf(name, NAME_BYTES, "%s", module), 0;
    int first = (int)(strstr(module, "layers.") - module), dot;
    if (!number) { /* one tensor of all experts */
        const char *below = below_layer(module + first);
        module = split_name(p, below_layer(l->name), below);
        if (!module)
            return err_set(e, "%s: no name is known for the experts of '%s' by themselves",
                           p->dir->path, l->from.part[0].module);
        dot = (int)(below - l->from.part[0].module);
        number = strstr(module, "%d");
        snprintf(name, NAME_BYTES, "%.*s%.*s%d%s", dot, l->from.part[0].module,
                 (int)(number - module), module, i, number + 2);
        return 0;
    }
    snprintf(name, NAME_BYTES, "%.*s%d%s", (int)(number - module), module, i, number + 2);
    return 0;
}

static int find_module(const struct modules *m, const char *name)
{
    for (int i = m->n - 1; i >= 0 && i > m->n - 16; i--) /* parts of a module are neighbours */
        if (!strcmp(m->module[i].name, name)) return i;
    return -1;
}

/* The bias of one of the experts in one tensor. */
static void find_bias(struct modules *m, struct module *x)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s_bias", x->from.t->t->name);
    x->bias = hfd_find(m->dir, name);
    if (x->bias && (x->bias->t->n_dims != 2 || x->bias->t->shape[1] != x->from.out)) x->bias = NULL;
    if (x->bias) m->replaced[x->bias - m->dir->tensors] = 1;
}

/* The module that number i of a linear comes from, which may be there already; *at -1: it is to
 * stay plain. */
static int take_module(struct modules *m, const struct plan_linear *l, int i, const struct plan *p,
                       const struct settings *s, int *at, struct err *e)
{
    char name[NAME_BYTES];
    struct module_settings to;
    const struct plain_matrix *from = &l->plain[i];
    int whole = l->from.n_experts && !strstr(l->from.part[0].module, "%d");
    if (name_module(p, l, i, name, e)) return -1;
    int64_t out = whole ? from->n_rows : from->out;
    if (settings_of(s, name, &to, e)) return -1;
    *at = -1;
    if (to.skip) return 0;
    if (from->in % 32 || out % 32) {
        note_warn(p->notes,
                  "%s has %" PRId64 " inputs and %" PRId64 " outputs, no multiples of 32: "
                  "it stays as it is",
                  name, from->in, out);
        return 0;
    }
    if ((*at = find_module(m, name)) >= 0) return 0;
    if (!(m->n & (m->n - 1))) {
        struct module *more = realloc(m->module, (size_t)(m->n ? 2 * m->n : 1) * sizeof *more);
        if (!more) return err_memory(e);
        m->module = more;
    }
    struct module *new = &m->module[ *at = m->n];
    *new = (struct module){.name = strdup(name), .from = *from, .to = to, .expert = i};
    if (!new->name) return err_memory(e);
    m->n++;
    m->replaced[from->t - p->dir->tensors] = 1;
    if (!whole) new->from.rows = NULL, new->from.n_rows = from->out;
    else find_bias(m, new);
    return 0;
}

static int alike(const struct module *a, const struct module *b)
{
    return a->to.bits == b->to.bits && module_group(a) == module_group(b);
}

static int add_linear(struct modules *m, const struct plan_linear *l, const struct plan *p,
                      const struct settings *s, struct err *e)
{
    struct module_linear *to = &m->linear[m->n_linears++];
    *to = (struct module_linear){.plan = l};
    if (!l->plain || l->from.keep_plain || l->from.by_rows || !below_layer(l->name) ||
        l->n_parts > 1)
        return 0;
    int plain = 0, *module = malloc((size_t)l->n_modules * sizeof *module);
    if (!module) return err_memory(e);
    to->module = module;
    for (int i = 0; i < l->n_modules; i++) {
        if (take_module(m, l, i, p, s, &module[i], e)) return -1;
        plain += module[i] < 0;
        if (module[i] < 0 || module[0] < 0) continue;
        if (!alike(&m->module[module[i]], &m->module[module[0]]))
            return err_set(e, "--rule: experts of one layer must be quantized alike: %s and %s",
                           m->module[module[0]].name, m->module[module[i]].name);
    }
    if (plain && plain < l->n_modules)
        return err_set(e, "--rule: %s: all experts of one layer stay plain, or none", l->name);
    if (plain) {
        free(module);
        to->module = NULL;
        return 0;
    }
    to->whole = l->from.n_experts ? !strstr(l->from.part[0].module, "%d") || !l->plain[0].rows
                                  : !l->plain[0].rows;
    return 0;
}

/* A linear that is kept plain, but is a part of a module that is quantized for its other parts. */
static int link_part(const struct modules *m, struct module_linear *l, struct err *e)
{
    const struct plan_linear *p = l->plan;
    if (l->module || !p->plain || p->n_modules > 1 || p->from.by_rows) return 0;
    for (int i = 0; i < m->n && !l->module; i++) {
        if (strcmp(m->module[i].name, p->from.part[0].module)) continue;
        if (!(l->module = malloc(sizeof *l->module))) return err_memory(e);
        *l->module = i;
        l->whole = !p->plain[0].rows;
    }
    return 0;
}

/* ---- what stays plain */

/* The module of a matrix of the checkpoint, as a pattern: numbers stand for all numbers. */
static int pattern_of(const char *tensor, int exact, char pattern[NAME_BYTES])
{
    size_t n = strlen(tensor), at = 0;
    if (n < 8 || strcmp(tensor + n - 7, ".weight")) return 0;
    pattern[at++] = '^';
    for (size_t i = 0; i < n - 7 && at + 8 < NAME_BYTES; i++) {
        int digit = isdigit((unsigned char)tensor[i]) && i && (tensor[i - 1] == '.');
        if (digit && !exact) {
            memcpy(pattern + at, "\\d+", 3);
            at += 3;
            while (isdigit((unsigned char)tensor[i + 1])) i++;
        } else {
            if (tensor[i] == '.') pattern[at++] = '\\';
            pattern[at++] = tensor[i];
        }
    }
    pattern[at++] = '$';
    pattern[at] = 0;
    return 1;
}

static int is_known(const struct modules *m, const char *pattern)
{
    size_t at;
    const json_t *old;
    json_array_foreach (m->plain, at, old)
        if (!strcmp(json_string_value(old), pattern)) return 1;
    return 0;
}

/* A pattern of the modules that are like this one, if none of them is quantized, else of it. */
static int add_plain(struct modules *m, const struct hf_tensor *t, struct err *e)
{
    char pattern[NAME_BYTES];
    const char *name = t->t->name;
    int yes = 0;
    if (t->t->n_dims != 2 || strstr(name, "embed") || strstr(name, "lm_head")) return 0;
    if (m->replaced[t - m->dir->tensors] || !pattern_of(name, 0, pattern)) return 0;
    if (is_known(m, pattern)) return 0;
    for (int i = 0; i < m->n && !yes; i++)
        if (qc_match(pattern, m->module[i].name, &yes, e)) return -1;
    if (yes) pattern_of(name, 1, pattern);
    if (!is_known(m, pattern)) json_array_append_new(m->plain, json_string(pattern));
    return 0;
}

static int by_tensor(const void *a, const void *b)
{
    const struct module *x = *(const struct module *const *)a,
                        *y = *(const struct module *const *)b;
    return x->from.t < y->from.t ? -1 : x->from.t > y->from.t;
}

/* A tensor of all experts is replaced as a whole: the rows of its modules are all its rows. */
static int check_whole(const struct modules *m, struct err *e)
{
    const struct module **all = malloc(((size_t)m->n + 1) * sizeof *all);
    if (!all) return err_memory(e);
    for (int i = 0; i < m->n; i++) all[i] = &m->module[i];
    qsort(all, (size_t)m->n, sizeof *all, by_tensor);
    int rc = 0;
    for (int i = 0, end; i < m->n && !rc; i = end) {
        uint64_t rows = 0, bytes = all[i]->from.t->t->bytes;
        for (end = i; end < m->n && all[end]->from.t == all[i]->from.t; end++)
            rows += (uint64_t)(all[end]->from.n_rows * all[end]->from.in);
        if (rows * dtype_bytes(all[i]->from.t->t->dtype) != bytes)
            rc = err_set(e,
                         "--rule: '%s' holds several modules, and is quantized as a whole or "
                         "not at all",
                         all[i]->from.t->t->name);
    }
    free(all);
    return rc;
}

int modules_open(struct modules *m, const struct plan *p, const struct settings *s, struct err *e)
{
    *m = (struct modules){.linear = calloc(p->n_linears + 1, sizeof *m->linear),
                          .dir = p->dir,
                          .replaced = calloc(p->dir->n_tensors + 1, 1),
                          .plain = json_array()};
    if (!m->linear || !m->replaced) return err_memory(e);
    for (size_t i = 0; i < p->n_linears; i++)
        if (add_linear(m, p->linears[i], p, s, e)) return -1;
    for (int i = 0; i < m->n_linears; i++)
        if (link_part(m, &m->linear[i], e)) return -1;
    if (!m->n) return err_set(e, "%s: nothing is left to be quantized", p->dir->path);
    int64_t most = 0;
    for (int i = 0; i < m->n; i++) most = m->module[i].from.in > most ? m->module[i].from.in : most;
    if (s->w4a4 && most <= s->all.group)
        return err_set(
            e,
            "%s: --w4a4: no linear has more inputs than the %d that have 8 bits (%" PRId64
            " at most): take a smaller --group",
            p->dir->path, s->all.group, most);
    if (check_whole(m, e)) return -1;
    for (size_t i = 0; i < p->dir->n_tensors; i++)
        if (add_plain(m, &p->dir->tensors[i], e)) return -1;
    return json_check(e);
}

void modules_close(struct modules *m)
{
    for (int i = 0; i < m->n; i++) free(m->module[i].name);
    for (int i = 0; i < m->n_linears; i++) free(m->linear[i].module);
    free(m->module);
    free(m->linear);
    free(m->replaced);
    json_decref(m->plain);
    *m = (struct modules){0};
}

const struct module_linear *modules_find(const struct modules *m, const char *name)
{
    for (int i = 0; i < m->n_linears; i++)
        if (m->linear[i].plan->name && !strcmp(m->linear[i].plan->name, name)) return &m->linear[i];
    return NULL;
}

int module_bias(const struct module *m, float **bias, struct err *e)
{
    float *all;
    *bias = NULL;
    if (!m->bias) return 0;
    if (plan_numbers_at(m->bias, m->expert * m->from.out, m->from.out, &all, e)) return -1;
    *bias = malloc((size_t)m->from.n_rows * sizeof **bias);
    for (int64_t i = 0; i < m->from.n_rows && *bias; i++)
        (*bias)[i] = all[m->from.rows ? m->from.rows[i] : i];
    free(all);
    return *bias ? 0 : err_memory(e);
}

struct reading {
    const struct module *m;
    float *w;
    uint8_t *raw, *row; /* [threads] of raw_bytes, row_bytes */
    size_t raw_bytes, row_bytes;
    struct err *failed; /* [threads], the first of each */
};

enum { READ_ROWS = 64 };

static void read_rows(void *arg, int task, int thread)
{
    const struct reading *c = arg;
    const struct plain_matrix *from = &c->m->from;
    enum dtype type = from->t->t->dtype;
    size_t in = (size_t)from->in;
    int64_t r = (int64_t)task * READ_ROWS, left = from->n_rows - r;
    int64_t n = left < READ_ROWS ? left : READ_ROWS;
    uint8_t *raw = c->raw + (size_t)thread * c->raw_bytes;
    struct err *e = &c->failed[thread];
    if (e->msg[0] || job_read_rows(from, r, n, raw, c->row + (size_t)thread * c->row_bytes, e))
        return;
    for (size_t i = 0; i < (size_t)n * in; i++) {
        float x = f32_at(raw, type, i);
        c->w[(size_t)r * in + i] = x;
        if (isfinite(x)) continue;
        err_set(e, "%s: tensor '%s' holds %s: %s cannot be quantized", from->t->shard->path,
                from->t->t->name, isnan(x) ? "NaN" : "infinity", c->m->name);
        return;
    }
}

int module_weights(const struct module *m, float *w, struct pool *p, struct err *e)
{
    const struct plain_matrix *from = &m->from;
    size_t element = dtype_bytes(from->t->t->dtype), n = (size_t)pool_n_threads(p);
    struct reading c = {.m = m,
                        .w = w,
                        .raw_bytes = READ_ROWS * (size_t)from->in * element,
                        .row_bytes = (size_t)from->out * element + 64,
                        .failed = calloc(n, sizeof *c.failed)};
    c.raw = malloc(n * c.raw_bytes);
    c.row = malloc(n * c.row_bytes);
    int rc = c.raw && c.row && c.failed ? 0 : err_memory(e);
    if (!rc) pool_run(p, (int)((from->n_rows + READ_ROWS - 1) / READ_ROWS), read_rows, &c);
    for (size_t i = 0; i < n && !rc; i++)
        if (c.failed[i].msg[0]) *e = c.failed[i], rc = -1;
    free(c.raw);
    free(c.row);
    free(c.failed);
    return rc;
}
