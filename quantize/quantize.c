#include "quantize/quantize.h"

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "quantize/export.h"
#include "quantize/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- without calibration */

/* The modules of one linear of the model file that are not done yet, by plain rounding. */
static int round_linear(struct quantize *q, const struct module_linear *l, uint8_t *done,
                        struct err *e)
{
    struct unit u;
    struct st_file file;
    int there, n = 0, rc = 0;
    for (int i = 0; i < l->plan->n_modules; i++) n += !done[l->module[i]];
    if (!n) return 0;
    if (unit_find(&file, &q->work, q->n_units, &there, e) || unit_open(&u, n, e)) return -1;
    if (there) st_close(&file);
    n = 0;
    for (int i = 0; i < l->plan->n_modules && !rc; i++) {
        const struct module *m = &q->modules.module[l->module[i]];
        if (done[l->module[i]]) continue;
        done[l->module[i]] = 1;
        struct factor f = {0};
        struct module_codes codes = {0};
        const struct factor_want want = {.kind = ORDER_NONE, .group = module_group(m)};
        const struct module_call c = {m, &f, "rtn", 0};
        if (!there)
            rc = factor_open(&f, (int)m->from.in, NULL, &want, e) ||
                 run_module(q, &c, &u.part[n++], &codes, e);
        module_codes_free(&codes);
        factor_close(&f);
        if (!rc) rc = run_step(q, (double)(m->from.in * m->from.n_rows), m->name, e);
    }
    if (!rc && !there) rc = unit_write(&u, &q->work, q->n_units, e);
    unit_close(&u);
    q->n_units++;
    return rc ? -1 : 0;
}

static int round_all(struct quantize *q, struct err *e)
{
    uint8_t *done = calloc((size_t)q->modules.n, 1);
    int rc = done ? 0 : err_memory(e);
    for (int i = 0; i < q->modules.n; i++)
        q->total += (double)(q->modules.module[i].from.in * q->modules.module[i].from.n_rows);
    for (int i = 0; i < q->modules.n_linears && !rc; i++)
        if (q->modules.linear[i].module) rc = round_linear(q, &q->modules.linear[i], done, e);
    free(done);
    return rc;
}

/* ---- the run */

static int is_file(const char *out)
{
    size_t n = strlen(out);
    return n > 12 && !strcmp(out + n - 12, ".safetensors");
}

static int check_target(const char *out, struct err *e)
{
    struct stat sb;
    if (!lstat(out, &sb)) return err_set(e, "%s: exists: name another, or remove it", out);
    return errno == ENOENT ? 0 : err_sys(e, "%s", out);
}

static int open_source(struct quantize *q, struct err *e)
{
    const struct quantize_options *o = q->o;
    static const struct plan_options options = {.no_mtp = 1};
    struct checkpoint *k = &q->source;
    static const struct notes quiet = {.silent = 1, .quiet = 1, .program = "opt4gptq-quantize"};
    if (checkpoint_open(k, o->in, 1, &quiet, e)) return -1;
    if (k->quant.present)
        return err_set(e,
                       "%s: is quantized already (%s%s): quantize the checkpoint that it was made "
                       "from, or convert it as it is by opt4gptq-convert",
                       o->in, qc_method_name(k->quant.method),
                       k->quant.quantizer[0] ? k->quant.quantizer : "");
    if (plan_build(&q->plan, &k->dir, &k->model, &k->quant, &options, &quiet, e)) return -1;
    if (q->plan.facts.n_quantized) return err_set(e, "%s: is quantized already", o->in);
    return modules_open(&q->modules, &q->plan, &o->settings, e);
}

/* What the bytes of the result depend on. */
static json_t *manifest_of(const struct quantize *q)
{
    const struct quantize_options *o = q->o;
    json_t *files = json_object();
    for (size_t i = 0; i < q->source.dir.n_shards; i++) {
        const struct st_file *f = &q->source.dir.shards[i];
        struct stat sb = {0};
        fstat(f->fd, &sb);
        json_object_set_new(
            files, q->source.dir.shard_names[i],
            json_pack("[I, I]", (json_int_t)f->file_bytes, (json_int_t)sb.st_mtime));
    }
    json_t *j = json_pack("{s:s, s:o, s:o, s:b}", "version", OPT4GPTQ_VERSION, "weights", files,
                          "settings", settings_json(&o->settings, q->modules.plain), "calibrated",
                          o->settings.calibrated);
    return j;
}

/* The result gets its name. */
static int give_name(struct quantize *q, const char *dir, struct err *e)
{
    const struct quantize_options *o = q->o;
    char *parent = strdup(o->out), *slash;
    if (!parent) return err_memory(e);
    for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/';) parent[--n] = 0;
    int rc = check_target(parent, e);
    if (!rc && rename(dir, parent))
        rc = err_sys(e, "%s: cannot rename the finished folder", parent);
    slash = strrchr(parent, '/');
    if (slash) slash[slash == parent] = 0;
    if (!rc) rc = shard_sync_dir(slash ? parent : ".", e);
    free(parent);
    return rc;
}

static int write_report(const struct quantize_options *o, const json_t *reports, struct err *e)
{
    if (!o->report) return 0;
    json_t *all = json_pack("{s:s, s:s, s:o, s:O}", "in", o->in, "out", o->out, "settings",
                            settings_json(&o->settings, NULL), "modules", reports);
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    int rc = text ? shard_write_text(o->report, text, strlen(text), e) : err_memory(e);
    free(text);
    return rc;
}

static int write_result(struct quantize *q, struct err *e)
{
    const struct quantize_options *o = q->o;
    json_t *reports = NULL;
    const struct export_from from = {
        &q->source.dir, &q->modules, &o->settings, q->source.config, q->n_units, o->stop, 0};
    char *dir = work_path(&q->work, "checkpoint");
    if (!dir) return err_memory(e);
    int rc = export_write(&q->work, &from, dir, &reports, e);
    if (!rc && is_file(o->out)) {
        const struct convert_options c = {
            .dir = dir,
            .out = {o->out, o->n_threads, !o->notes.quiet, o->stop},
            .notes = {.quiet = 1, .program = "opt4gptq-quantize"},
        };
        rc = convert_run(&c, e);
    } else if (!rc) rc = give_name(q, dir, e);
    if (!rc) rc = write_report(o, reports, e);
    json_decref(reports);
    free(dir);
    return rc;
}

static void say_done(const struct quantize *q)
{
    char spent[UNITS_TEXT];
    note_info(&q->o->notes, "%s: %d modules quantized in %s", q->o->out, q->modules.n,
              units_seconds(clock_now() - q->progress.start, spent));
}

int quantize_run(const struct quantize_options *o, struct err *e)
{
    struct quantize q = {.o = o, .k = quantize_kernels(), .work = {.lock = -1}};
    struct err late;
    progress_begin(&q.progress);
    int rc = check_target(o->out, e) || open_source(&q, e);
    json_t *manifest = rc ? NULL : manifest_of(&q);
    if (!rc) rc = json_check(e) || work_open(&q.work, o->out, manifest, e);
    if (!rc && q.work.resumed)
        note_info(&o->notes, "%s: going on from what is finished", q.work.dir);
    if (!rc) rc = pool_open(&q.pool, o->n_threads, e);
    if (!rc) rc = o->settings.calibrated ? sweep_run(&q, e) : round_all(&q, e);
    if (!o->notes.quiet) progress_clear();
    if (!rc) rc = write_result(&q, e);
    if (!rc) say_done(&q);
    if (q.work.dir && work_close(&q.work, !rc, rc ? &late : e)) rc = -1;
    json_decref(manifest);
    if (q.pool) pool_close(q.pool);
    modules_close(&q.modules);
    plan_free(&q.plan);
    checkpoint_close(&q.source);
    return rc ? -1 : 0;
}
