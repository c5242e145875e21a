#include "convert/plan_linear.h"

#include "core/model/modelfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_BYTES = 8 << 20, NAME_BYTES = 320 };

/* The module's name for expert X: "%d" replaced. */
static void name_of(char name[NAME_BYTES], const char *module, int x)
{
    const char *at = strstr(module, "%d");
    if (!at) snprintf(name, NAME_BYTES, "%s", module);
    else snprintf(name, NAME_BYTES, "%.*s%d%s", (int)(at - module), module, x, at + 2);
}

/* 1 if one tensor holds all experts. */
static int is_whole(const struct linear_from *from, int part)
{
    return from->n_experts && !from->by_rows && !strstr(from->part[part].module, "%d");
}

int plan_linear_exists(const struct plan *p, const char *module)
{
    static const char *const tails[] = {".weight", ".qweight", ".weight_packed", ".B", "",
                                        "_blocks", NULL};
    char name[NAME_BYTES], full[NAME_BYTES + 32];
    name_of(name, module, 0);
    for (const char *const *t = tails; *t; t++) {
        snprintf(full, sizeof full, "%s%s", name, *t);
        if (hfd_find(p->dir, full)) return 1;
    }
    return 0;
}

static const struct hf_tensor *find(const struct plan *p, const char *module, const char *what)
{
    char full[NAME_BYTES + 32];
    snprintf(full, sizeof full, "%s.%s", module, what);
    return hfd_find(p->dir, full);
}

int64_t plan_linear_outputs(const struct plan *p, const char *module)
{
    char name[NAME_BYTES];
    name_of(name, module, 0);
    const struct hf_tensor *q = find(p, name, "qweight"), *w = find(p, name, "weight"),
                           *packed = find(p, name, "weight_packed");
    if (q && q->t->n_dims == 2) return q->t->shape[1] * (p->quant->method == QUANT_AWQ ? 8 : 1);
    if (packed && packed->t->n_dims == 2) return packed->t->shape[0];
    return w && w->t->n_dims == 2 ? w->t->shape[0] : 0;
}

void plan_linear_free(struct plan_linear *l)
{
    for (int i = 0; l->quant && i < l->n_modules; i++) free(l->quant[i].module);
    for (int k = 0; k < LINEAR_PARTS; k++) {
        free((void *)(uintptr_t)l->from.part[k].module);
        free((void *)(uintptr_t)l->from.part[k].rows);
    }
    for (size_t i = 0; i < l->n_slots; i++) {
        slots_free(l->slots[i]);
        free(l->slots[i]);
    }
    free(l->slots);
    free(l->quant);
    free(l->plain);
    free(l->bias);
    free(l->name);
    free(l);
}

/* A plan_linear of the plan with copies of the caller's names and rows. */
static struct plan_linear *new_linear(struct plan *p, const struct linear_from *from)
{
    if (!(p->n_linears & (p->n_linears - 1))) {
        struct plan_linear **more = realloc(p->linears,
                                            (p->n_linears ? 2 * p->n_linears : 1) * sizeof *more);
        if (!more) return NULL;
        p->linears = more;
    }
    struct plan_linear *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    p->linears[p->n_linears++] = l;
    l->from = *from;
    memset(l->from.part, 0, sizeof l->from.part);
    for (int k = 0; k < LINEAR_PARTS && from->part[k].module; k++, l->n_parts++) {
        struct linear_part *to = &l->from.part[k];
        *to = from->part[k];
        to->rows = NULL;
        if (!from->part[k].rows) to->n_rows = to->out;
        to->module = strdup(from->part[k].module);
        if (from->part[k].rows) {
            int64_t n = to->n_rows * (from->by_rows ? from->n_experts : 1);
            int32_t *rows = malloc((size_t)n * sizeof *rows + 1);
            if (rows) memcpy(rows, from->part[k].rows, (size_t)n * sizeof *rows);
            to->rows = rows;
            for (int64_t i = 0; i < n && rows; i++) CHECK(rows[i] >= 0 && rows[i] < to->out);
        }
        if (!to->module || (from->part[k].rows && !to->rows)) return NULL;
        CHECK(!k || from->part[k - 1].n_rows % MF_PANEL == 0 ||
              (!from->part[k - 1].rows && from->part[k - 1].out % MF_PANEL == 0));
        l->n_rows += to->n_rows;
        l->n_panels += (to->n_rows + MF_PANEL - 1) / MF_PANEL;
    }
    CHECK(l->n_parts && from->in > 0 && l->n_rows > 0);
    l->n_modules = (from->n_experts ? from->n_experts : 1) * l->n_parts;
    return l;
}

/* The rows of module i. */
static const int32_t *rows_of(const struct plan_linear *l, int i)
{
    const struct linear_part *part = &l->from.part[i % l->n_parts];
    return part->rows && l->from.by_rows ? part->rows + i / l->n_parts * part->n_rows : part->rows;
}

static int add_plain(struct plan_linear *l, int i, const struct hf_tensor *t, struct err *e)
{
    const struct linear_part *part = &l->from.part[i % l->n_parts];
    int64_t in = l->from.in, experts = l->from.n_experts;
    int whole = is_whole(&l->from, i % l->n_parts), turned = whole && l->from.transposed;
    char have[128], want[96];
    if (!l->plain && !(l->plain = calloc((size_t)l->n_modules, sizeof *l->plain)))
        return err_memory(e);
    if (plan_is_float(t, e)) return -1;
    const int64_t shape[3] = {experts, turned ? in : part->out, turned ? part->out : in};
    int skip = !whole, ok = t->t->n_dims == 3 - skip;
    for (int d = 0; d < 3 - skip && ok; d++) ok = t->t->shape[d] == shape[d + skip];
    if (!ok) {
        int n = whole ? snprintf(want, sizeof want, "%" PRId64 ", ", experts) : 0;
        snprintf(want + n, sizeof want - (size_t)n, "%" PRId64 ", %" PRId64, shape[1], shape[2]);
        return err_set(e, "%s: tensor '%s' is %s, config.json wants [%s]", t->shard->path,
                       t->t->name, plan_shape(t, have), want);
    }
    if (i && t->t->dtype != l->plain[0].t->t->dtype)
        return err_set(e, "%s: tensor '%s' is %s, '%s' of the same linear is %s", t->shard->path,
                       t->t->name, st_dtype_name(t->t->dtype), l->plain[0].t->t->name,
                       st_dtype_name(l->plain[0].t->t->dtype));
    uint64_t bytes = (uint64_t)(in * part->out) * dtype_bytes(t->t->dtype);
    l->plain[i] = (struct plain_matrix){.t = t,
                                        .at = whole ? (uint64_t)(i / l->n_parts) * bytes : 0,
                                        .in = in,
                                        .out = part->out,
                                        .n_rows = part->n_rows,
                                        .rows = rows_of(l, i),
                                        .transposed = turned};
    if (!l->from.turned) return 0;
    /* its rows, neighbours in the checkpoint, are the inputs of the model file's */
    struct plain_matrix *m = &l->plain[i];
    m->at = (uint64_t)(*m->rows * in) * dtype_bytes(t->t->dtype);
    m->in = part->n_rows, m->out = m->n_rows = in, m->rows = NULL, m->transposed = 1;
    return 0;
}

/* What a module's tensors say it is. */
enum found { FOUND_NOTHING, FOUND_QUANT, FOUND_PACKED, FOUND_MXFP4, FOUND_PLAIN };

static enum found look(struct plan *p, const char *module, int whole, const struct hf_tensor **t)
{
    char blocks[NAME_BYTES + 8];
    snprintf(blocks, sizeof blocks, "%s_blocks", module);
    if (whole) {
        if ((*t = plan_find(p, module, ""))) return FOUND_PLAIN;
        return (*t = plan_find(p, blocks, "")) ? FOUND_MXFP4 : FOUND_NOTHING;
    }
    if ((*t = plan_find(p, module, "qweight"))) return FOUND_QUANT;
    if ((*t = plan_find(p, module, "weight_packed"))) return FOUND_PACKED;
    *t = plan_find(p, module, "weight");
    if (*t && (*t)->t->dtype == DT_I8) return FOUND_PACKED;
    return *t ? FOUND_PLAIN : FOUND_NOTHING;
}

static int add_quant(struct plan *p, struct plan_linear *l, int i, const char *module,
                     enum found how, struct err *e)
{
    if (!l->quant && !(l->quant = calloc((size_t)l->n_modules, sizeof *l->quant)))
        return err_memory(e);
    struct quant_linear *q = &l->quant[i];
    const struct linear_part *part = &l->from.part[i % l->n_parts];
    if (i && l->from.by_rows) { /* other rows of the same module */
        *q = l->quant[0];
        q->module = strdup(module);
        q->rows = rows_of(l, i);
        return q->module ? 0 : err_memory(e);
    }
    *q = (struct quant_linear){.module = strdup(module),
                               .in = l->from.in,
                               .out = part->out,
                               .n_rows = part->n_rows,
                               .rows = part->rows};
    if (!q->module) return err_memory(e);
    if (how == FOUND_PACKED) return plan_packed_read(p, q, e);
    if (how == FOUND_MXFP4) return plan_mxfp4_read(p, q, i / l->n_parts, l->from.n_experts, e);
    return plan_quant_read(p, q, e);
}

/* Finds module i and reads it. */
static int read_module(struct plan *p, struct plan_linear *l, int i, struct err *e)
{
    const struct hf_tensor *t;
    char module[NAME_BYTES];
    int part = i % l->n_parts, whole = is_whole(&l->from, part);
    name_of(module, l->from.part[part].module, i / l->n_parts);
    enum found how = look(p, module, whole, &t);
    if (how == FOUND_NOTHING) {
        const char *hint =
            plan_find(p, module, "B")
                ? " ('B' is Marlin's layout for GPUs: use the GPTQ checkpoint it was made from)"
                : "";
        if (whole)
            return err_set(e, "%s: tensor '%s' of all experts is missing", p->dir->path, module);
        return err_set(e, "%s: module '%s' has neither qweight nor weight%s", p->dir->path, module,
                       hint);
    }
    if (how == FOUND_PLAIN ? l->quant != NULL : l->plain != NULL)
        return err_set(e,
                       "%s: module '%s' is %squantized, unlike others of the same linear or stack "
                       "of experts: it must be as they are",
                       p->dir->path, module, how == FOUND_PLAIN ? "not " : "");
    return how == FOUND_PLAIN ? add_plain(l, i, t, e) : add_quant(p, l, i, module, how, e);
}

/* --plain 8bit: the plain matrices become quantized modules. */
static int round_all(struct plan *p, struct plan_linear *l, struct err *e)
{
    if (!(l->quant = calloc((size_t)l->n_modules, sizeof *l->quant))) return err_memory(e);
    for (int i = 0; i < l->n_modules; i++) {
        const struct plain_matrix *m = &l->plain[i];
        struct quant_linear *q = &l->quant[i];
        *q = (struct quant_linear){.module = strdup(m->t->t->name),
                                   .in = m->in,
                                   .out = m->out,
                                   .n_rows = m->n_rows,
                                   .rows = m->rows,
                                   .plain = m};
        if (!q->module) return err_memory(e);
        if (plan_rounded_read(p, q, e)) return -1;
    }
    p->facts.n_rounded += l->n_modules;
    return 0;
}

static int same_slots(const struct slots *a, const struct slots *b)
{
    return a->group == b->group && a->n_groups == b->n_groups && a->k == b->k && a->low == b->low &&
           !memcmp(a->perm, b->perm, (size_t)a->k * sizeof *a->perm) &&
           !memcmp(a->groups, b->groups, (size_t)a->n_groups * sizeof *a->groups);
}

/* Plans the slots of module i. Modules with the same slots share them. */
static int read_slots(struct plan *p, struct plan_linear *l, int i, int planes, struct err *e)
{
    struct slots s, *last = l->n_slots ? l->slots[l->n_slots - 1] : NULL;
    if (plan_quant_slots(p, &l->quant[i], planes, &s, e)) return -1;
    if (last && same_slots(last, &s)) {
        slots_free(&s);
        l->quant[i].slots = last;
        return 0;
    }
    if (last && (s.k != last->k || s.group != last->group)) {
        err_set(e,
                "%s: module '%s' has %" PRId64 " packed inputs in groups of %" PRId64
                ", '%s' of the same stack of experts %" PRId64 " in groups of %" PRId64
                ": they must be quantized alike",
                p->dir->path, l->quant[i].module, s.k, s.group, l->quant[i - 1].module, last->k,
                last->group);
        slots_free(&s);
        return -1;
    }
    struct slots *copy = malloc(sizeof *copy);
    if (!copy) {
        slots_free(&s);
        return err_memory(e);
    }
    *copy = s;
    l->slots[l->n_slots++] = copy;
    l->quant[i].slots = copy;
    return 0;
}

/* Slots of one of two parts with different orders of inputs: those of part A, then those of part B.
 * In the slots of the other part its codes and scales are 0. */
static struct slots *joined(const struct slots *a, const struct slots *b, int second)
{
    const struct slots *own = second ? b : a;
    size_t k = (size_t)(a->k + b->k), n = (size_t)(a->n_groups + b->n_groups);
    struct slots *s = malloc(sizeof *s);
    if (!s) return NULL;
    *s = (struct slots){.group = a->group,
                        .n_groups = (int64_t)n,
                        .k = (int64_t)k,
                        .groups = malloc(n * sizeof *s->groups),
                        .perm = malloc(k * sizeof *s->perm),
                        .act_order = own->act_order,
                        .assumed = own->assumed};
    if (!s->groups || !s->perm) {
        slots_free(s);
        free(s);
        return NULL;
    }
    for (size_t j = 0; j < k; j++) s->perm[j] = -1;
    for (size_t g = 0; g < n; g++) s->groups[g] = (struct slot_group){-1, 0};
    size_t at = second ? (size_t)a->n_groups : 0;
    memcpy(s->groups + at, own->groups, (size_t)own->n_groups * sizeof *s->groups);
    memcpy(s->perm + at * (size_t)s->group, own->perm, (size_t)own->k * sizeof *s->perm);
    return s;
}

/* Gives both parts of every expert slots for the inputs of both. */
static int join_slots(struct plan_linear *l, struct err *e)
{
    struct slots **old = l->slots, **all = calloc((size_t)l->n_modules, sizeof *all);
    size_t n_old = l->n_slots, n = 0;
    if (!all) return err_memory(e);
    for (int i = 0; i + 1 < l->n_modules && all; i += 2) {
        const struct slots *a = l->quant[i].slots, *b = l->quant[i + 1].slots;
        for (int k = 0; k < 2; k++) l->quant[i + k].slots = all[n++] = joined(a, b, k);
        if (!all[n - 1] || !all[n - 2]) break;
    }
    l->slots = all;
    for (l->n_slots = 0; l->n_slots < n && all[l->n_slots]; l->n_slots++) {
    }
    for (size_t i = l->n_slots; i < n; i++) { /* of the pair without memory */
        if (all[i]) slots_free(all[i]);
        free(all[i]);
    }
    for (size_t i = 0; i < n_old; i++) {
        slots_free(old[i]);
        free(old[i]);
    }
    free(old);
    l->joined = 1;
    return l->n_slots == (size_t)l->n_modules ? 0 : err_memory(e);
}

static int read_all_slots(struct plan *p, struct plan_linear *l, struct err *e)
{
    int planes = 1, differ = 0;
    enum dtype type = DT_F16;
    if (!(l->slots = calloc((size_t)l->n_modules, sizeof *l->slots))) return err_memory(e);
    for (int i = 0; i < l->n_modules; i++) {
        if (l->quant[i].bits > 4) planes = 2;
        if (l->quant[i].scale_type == DT_F32) type = DT_F32;
    }
    for (int i = 0; i < l->n_modules; i++) {
        l->quant[i].scale_type = type;
        if (read_slots(p, l, i, planes, e)) return -1;
        differ |= i % l->n_parts && l->quant[i].slots != l->quant[i - 1].slots;
    }
    return differ ? join_slots(l, e) : 0;
}

/* Copies the rows of a module's bias. WHOLE: of expert x, from a tensor of all experts. */
static int take_bias(const struct linear_part *part, const struct hf_tensor *t, int whole,
                     int64_t n_experts, int64_t x, float *out, struct err *e)
{
    float *all;
    char have[128];
    if (whole && (t->t->n_dims != 2 || t->t->shape[0] != n_experts || t->t->shape[1] != part->out))
        return err_set(e, "%s: tensor '%s' is %s, config.json wants [%" PRId64 ", %" PRId64 "]",
                       t->shard->path, t->t->name, plan_shape(t, have), n_experts, part->out);
    if (whole ? plan_numbers_at(t, x * part->out, part->out, &all, e)
              : plan_floats(t, part->out, &all, e))
        return -1;
    for (int64_t i = 0; i < part->n_rows; i++) out[i] = all[part->rows ? part->rows[i] : i];
    free(all);
    return 0;
}

/* Of a stack of rows of one module: none, or of zeros. */
static int refuse_bias(struct plan *p, struct plan_linear *l, struct err *e)
{
    const struct linear_part *part = &l->from.part[0];
    const struct hf_tensor *t = plan_find(p, part->module, "bias");
    float *all;
    if (!t) return 0;
    if (plan_floats(t, part->out, &all, e)) return -1;
    int zero = 1;
    for (int64_t i = 0; i < part->out; i++) zero &= all[i] == 0;
    free(all);
    return zero ? 0
                : err_set(e, "%s: tensor '%s': a bias of this linear is not supported",
                          t->shard->path, t->t->name);
}

static int read_bias(struct plan *p, struct plan_linear *l, struct err *e)
{
    size_t n = (size_t)l->n_rows * (size_t)(l->n_modules / l->n_parts);
    int n_found = 0, zero = 1;
    if (l->from.bias == BIAS_IGNORED) return 0;
    if (l->from.by_rows) return refuse_bias(p, l, e);
    for (int i = 0; i < l->n_modules; i++) {
        const struct linear_part *part = &l->from.part[i % l->n_parts];
        int whole = is_whole(&l->from, i % l->n_parts);
        char module[NAME_BYTES], full[NAME_BYTES + 8];
        name_of(module, part->module, i / l->n_parts);
        snprintf(full, sizeof full, "%s%sbias", module, whole ? "_" : ".");
        const struct hf_tensor *t = plan_find(p, full, "");
        if (!t && (l->from.bias == BIAS_REQUIRED || n_found))
            return err_set(e, "%s: tensor '%s' is missing, which %s %s have", p->dir->path, full,
                           n_found ? "other experts" : p->config->architecture,
                           n_found ? "or parts" : "models");
        if (!t) continue;
        if (i != n_found++)
            return err_set(e, "%s: tensor '%s' is there, but other experts or parts have no bias",
                           p->dir->path, full);
        if (!l->bias && !(l->bias = calloc(n, sizeof *l->bias))) return err_memory(e);
        float *out = l->bias + (size_t)(i / l->n_parts) * (size_t)l->n_rows +
                     (i % l->n_parts ? l->from.part[0].n_rows : 0);
        if (take_bias(part, t, whole, l->from.n_experts, i / l->n_parts, out, e)) return -1;
    }
    l->has_bias = n_found > 0;
    for (size_t i = 0; i < n && l->bias && zero; i++) zero = l->bias[i] == 0;
    if (l->bias && zero) { /* old AutoGPTQ gives every module a bias of zeros */
        free(l->bias);
        l->bias = NULL;
        p->facts.n_zero_biases += n_found;
    }
    return 0;
}

int plan_linear_read(struct plan *p, const struct linear_from *from, struct plan_linear **result,
                     struct err *e)
{
    struct plan_linear *l = new_linear(p, from);
    if (!l) return err_memory(e);
    for (int i = 0; i < l->n_modules; i++)
        if (read_module(p, l, i, e)) return -1;
    int plain = l->plain != NULL;
    if (plain && p->options.plain8 && !from->keep_plain && round_all(p, l, e)) return -1;
    if ((l->quant && read_all_slots(p, l, e)) || read_bias(p, l, e)) return -1;
    int n = from->turned ? 0 : from->by_rows ? 1 : l->n_modules; /* modules of the checkpoint */
    if (plain) p->facts.n_plain += n;
    else p->facts.n_quantized += n;
    *result = l;
    return 0;
}

/* rows[i] = rows[order[i]], and the same of the bias; of all experts. */
static int reorder(struct plan_linear *l, const int32_t *order, struct err *e)
{
    struct linear_part *part = &l->from.part[0];
    size_t n = (size_t)l->n_rows;
    int32_t *rows = malloc(n * sizeof *rows);
    size_t experts = (size_t)l->n_modules;
    float *bias = l->bias ? malloc(experts * n * sizeof *bias) : NULL;
    if (!rows || (l->bias && !bias)) {
        free(rows);
        free(bias);
        return err_memory(e);
    }
    for (size_t i = 0; i < n; i++) {
        rows[i] = part->rows ? part->rows[order[i]] : order[i];
        for (size_t x = 0; x < experts && bias; x++)
            bias[x * n + i] = l->bias[x * n + (size_t)order[i]];
    }
    free((void *)(uintptr_t)part->rows);
    free(l->bias);
    part->rows = rows;
    for (size_t x = 0; x < experts; x++) l->quant[x].rows = rows;
    l->bias = bias;
    return 0;
}

int plan_linear_sort(struct plan *p, struct plan_linear *gate, struct plan_linear *up,
                     struct plan_linear *down, const char *order_name, struct err *e)
{
    if (!gate) gate = up;
    if (!gate->quant || !up->quant || !down->quant || gate->plain || up->plain ||
        gate->n_parts > 1 || up->n_parts > 1 || down->n_parts > 1 || down->n_slots > 1 ||
        down->joined || !down->slots[0]->act_order || p->quant->method == QUANT_AWQ)
        return 0;
    int64_t n = down->from.in;
    CHECK(gate->n_rows == n && up->n_rows == n);
    int32_t *order = malloc((size_t)n * sizeof *order);
    if (!order || slots_sort(down->slots[0], n, order)) {
        free(order);
        return err_memory(e);
    }
    if (reorder(up, order, e) || (gate != up && reorder(gate, order, e))) {
        free(order);
        return -1;
    }
    p->facts.n_sorted++;
    return plan_memory(p, order_name, DT_I32, n, order, e);
}

/* Shape of an output tensor: of a stack with the experts before it. */
static struct tensor_shape stacked(const struct plan_linear *l, struct tensor_shape s)
{
    if (!l->from.n_experts) return s;
    memmove(s.size + 1, s.size, (size_t)s.n_dims * sizeof *s.size);
    s.size[0] = l->from.n_experts;
    s.n_dims++;
    return s;
}

/* Adds the tensor NAME.perm if an expert needs it. */
static int put_perm(struct plan *p, const struct plan_linear *l, const char *name, struct err *e)
{
    int n = l->n_modules / l->n_parts, moved = 0;
    size_t k = (size_t)l->quant[0].slots->k;
    int32_t *perm = malloc((size_t)n * k * sizeof *perm);
    if (!perm) return err_memory(e);
    for (int x = 0; x < n; x++) {
        int32_t *own = perm + (size_t)x * k;
        moved |= slots_arriving(l->quant[x * l->n_parts].slots, own);
        for (size_t j = 0; j < k && l->joined;
             j++) /* the second part's, where the first has none */
            if (own[j] < 0) own[j] = l->quant[x * l->n_parts + 1].slots->perm[j];
        if (l->n_slots == 1 && !moved) break;
    }
    if (!moved) {
        free(perm);
        return 0;
    }
    struct tensor_shape shape = stacked(l, (struct tensor_shape){1, {(int64_t)k}});
    return plan_data(p, name, DT_I32, shape, perm, e);
}

/* Adds the tensor NAME.offsets.weight, of as many pieces as the others; *at: its number. */
static int put_offsets(struct plan *p, const struct plan_linear *l, const char *name, size_t n,
                       size_t *at, struct err *e)
{
    const struct quant_linear *q = &l->quant[0];
    const struct tensor_shape shape = {2, {l->n_rows, q->slots->n_groups}};
    char full[NAME_BYTES];
    for (int i = 0; i < l->n_modules; i++)
        if (!l->quant[i].least || l->from.n_experts || !l->quant[i].slots->identity)
            return err_set(e,
                           "%s: module '%s': least values of groups are read of linears whose "
                           "inputs are in order, and which are not experts",
                           p->dir->path, l->quant[i].module);
    snprintf(full, sizeof full, "%s.offsets.weight", name);
    return plan_tensor(p, at, full, q->least->t->dtype, shape, n, e);
}

static int put_quant(struct plan *p, struct plan_linear *l, const char *name, struct err *e)
{
    const struct slots *s = l->quant[0].slots;
    size_t n = 0, more, at[3], offsets = 0;
    int has_offsets = 0;
    char full[NAME_BYTES];
    const struct tensor_shape codes = {4, {l->n_panels, s->k / MF_BLOCK, MF_PANEL, 4}},
                              groups = {3, {l->n_panels, s->n_groups, MF_PANEL}};
    static const char *const names[] = {"codes", "scales", "zeros"};
    const enum dtype types[] = {DT_U8, l->quant[0].scale_type, DT_U8};
    for (int i = 0; i < l->n_modules; i++, n += more)
        if (plan_quant_jobs(NULL, &l->quant[i], 0, &more, e)) return -1;
    for (int i = 0; i < 3; i++) {
        snprintf(full, sizeof full, "%s.%s", name, names[i]);
        if (plan_tensor(p, &at[i], full, types[i], stacked(l, i ? groups : codes), n, e)) return -1;
    }
    for (int i = 0; i < l->n_modules; i++) has_offsets |= l->quant[i].least != NULL;
    if (has_offsets && put_offsets(p, l, name, n, &offsets, e)) return -1;
    n = 0;
    for (int i = 0; i < l->n_modules; i++, n += more) {
        struct quant_linear *q = &l->quant[i];
        q->first_panel = (i / l->n_parts) * l->n_panels +
                         (i % l->n_parts ? l->from.part[0].n_rows / MF_PANEL : 0);
        q->codes_at = at[0], q->scales_at = at[1], q->zeros_at = at[2], q->offsets_at = offsets;
        if (plan_quant_jobs(p, q, n, &more, e)) return -1;
    }
    snprintf(full, sizeof full, "%s.perm", name);
    return put_perm(p, l, full, e);
}

/* Bytes of the source that a job needs at once: of `n` rows from `row` on. */
static uint64_t rows_span(const struct plain_matrix *m, int64_t row, int64_t n, uint64_t item)
{
    int64_t lo = row, hi = row + n - 1;
    if (!m->transposed) return (uint64_t)m->in * item;
    for (int64_t i = row; i < row + n && m->rows; i++) {
        if (i == row || m->rows[i] < lo) lo = m->rows[i];
        if (i == row || m->rows[i] > hi) hi = m->rows[i];
    }
    return (uint64_t)(hi - lo + 1) * item;
}

/* Adds the jobs of a plain matrix at AT of the output tensor, as pieces *PIECE.. on; P NULL: only
 * counts them. */
static int plain_jobs(struct plan *p, const struct plain_matrix *m, struct plan_job *j,
                      struct err *e)
{
    uint64_t item = dtype_bytes(m->t->t->dtype), row_bytes = (uint64_t)m->in * item,
             bytes = (uint64_t)m->n_rows * row_bytes, end = j->at + bytes, step = COPY_BYTES;
    int gather = m->rows || m->transposed;
    if (gather) step = COPY_BYTES > row_bytes ? COPY_BYTES / row_bytes * row_bytes : row_bytes;
    j->kind = gather ? JOB_ROWS : JOB_COPY;
    j->source = m->t, j->from = m->at, j->matrix = m, j->row = 0;
    for (; j->at < end; j->at += j->bytes, j->from += j->bytes, j->piece++) {
        j->bytes = end - j->at < step ? end - j->at : step;
        if (p) {
            if (gather) {
                int64_t n = (int64_t)(j->bytes / row_bytes);
                uint64_t span = rows_span(m, j->row, n, item);
                if (span > p->row_max) p->row_max = span;
            }
            if (j->bytes > p->src_max) p->src_max = j->bytes;
            if (plan_add_job(p, j, e)) return -1;
        }
        if (gather) j->row += (int64_t)(j->bytes / row_bytes);
    }
    return 0;
}

/* A quantized stack of transposed linears, as numbers. */
static int put_turned(struct plan *p, struct plan_linear *l, const char *name, struct err *e)
{
    char full[NAME_BYTES];
    size_t at;
    const struct tensor_shape shape = {2, {l->from.in, l->n_rows}};
    snprintf(full, sizeof full, "%s.weight", name);
    if (plan_tensor(p, &at, full, DT_F32, stacked(l, shape), (size_t)l->n_modules, e)) return -1;
    for (int i = 0; i < l->n_modules; i++)
        if (plan_turned_job(p, &l->quant[i], at, i, e)) return -1;
    return 0;
}

static int put_plain(struct plan *p, struct plan_linear *l, const char *name, struct err *e)
{
    struct plan_job j = {0}, none = {0};
    char full[NAME_BYTES];
    struct tensor_shape shape = {2, {l->n_rows, l->from.in}};
    if (l->from.turned) shape = (struct tensor_shape){2, {l->from.in, l->n_rows}};
    for (int i = 0; i < l->n_modules; i++) plain_jobs(NULL, &l->plain[i], &none, e);
    snprintf(full, sizeof full, "%s.weight", name);
    if (plan_tensor(p, &j.tensor, full, l->plain[0].t->t->dtype, stacked(l, shape), none.piece, e))
        return -1;
    for (int i = 0; i < l->n_modules; i++)
        if (plain_jobs(p, &l->plain[i], &j, e)) return -1;
    return 0;
}

int plan_linear_put(struct plan *p, struct plan_linear *l, const char *name, struct err *e)
{
    char full[NAME_BYTES];
    int turned = l->quant && l->from.turned;
    if (!(l->name = strdup(name))) return err_memory(e);
    if (turned     ? put_turned(p, l, name, e)
        : l->quant ? put_quant(p, l, name, e)
                   : put_plain(p, l, name, e))
        return -1;
    if (!l->bias) return 0;
    snprintf(full, sizeof full, "%s.bias", name);
    float *bias = l->bias;
    l->bias = NULL;
    return plan_data(p, full, DT_F32, stacked(l, (struct tensor_shape){1, {l->n_rows}}), bias, e);
}

int plan_linear(struct plan *p, const struct linear_from *from, const char *name, struct err *e)
{
    struct plan_linear *l;
    return plan_linear_read(p, from, &l, e) || plan_linear_put(p, l, name, e) ? -1 : 0;
}
