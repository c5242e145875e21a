#include "convert/convert.h"

#include "convert/gguf_checkpoint.h"
#include "convert/info.h"
#include "core/model/model.h"
#include "core/model/whatis.h"
#include "core/base/units.h"

#include <string.h>

int checkpoint_open(struct checkpoint *k, const char *dir, int as_numbers, const struct notes *n,
                    struct err *e)
{
    memset(k, 0, sizeof *k);
    if (hfd_open(&k->dir, dir, as_numbers, e)) {
        if (!k->dir.gguf) whatis(dir, WHATIS_CHECKPOINT, e);
        return -1;
    }
    if (hfd_json(&k->dir, "config.json", &k->config, e)) return -1;
    if (!k->config) {
        err_set(e, "%s: has no config.json: not a Hugging Face checkpoint", dir);
        whatis(dir, WHATIS_CHECKPOINT, e);
        return -1;
    }
    if (hfd_json(&k->dir, "generation_config.json", &k->generation, e)) return -1;
    if (hfc_read(&k->model, k->config, k->generation, n, e))
        return err_prefix(e, "%s", k->dir.path);
    return qc_read(&k->quant, &k->dir, k->config, n, e) ||
                   hfd_open_shards(&k->dir, k->quant.base_name, e) ||
                   qc_read_shards(&k->quant, &k->dir, n, e)
               ? -1
               : 0;
}

void checkpoint_close(struct checkpoint *k)
{
    qc_free(&k->quant);
    hfc_free(&k->model);
    hfd_close(&k->dir);
    json_decref(k->config);
    json_decref(k->generation);
}

/* Linears of Q5_K and Q6_K have no exact form of few bits here, and five times their size in 32. */
static int check_gguf(const struct checkpoint *k, const struct plan_options *o, struct err *e)
{
    const struct gguf_tensor *t = k->dir.gguf ? k->dir.gguf->k_quant : NULL;
    if (!t || o->plain_said) return 0;
    return err_set(e,
                   "%s: tensor '%s' is %s, which no kernel reads: --plain keep stores such linears "
                   "exactly, in 32 bits, --plain 8bit rounds them, opt4gptq-quantize makes 4 bits "
                   "of the file",
                   k->dir.path, t->name, t->type->name);
}

/* What opt4gptq-run would refuse (a number of the checkpoint that no key of its configuration may
 * have, say) is no result. */
static int check_model(const char *path, struct err *e)
{
    struct model m;
    if (!model_open(&m, path, e)) {
        model_close(&m);
        return 0;
    }
    size_t n = strlen(path);
    if (!strncmp(e->msg, path, n) && !strncmp(e->msg + n, ": ", 2))
        memmove(e->msg, e->msg + n + 2, strlen(e->msg + n + 2) + 1);
    return err_is_memory(e) ? -1 : err_prefix(e, "what it becomes is no model that can run");
}

int convert_run(const struct convert_options *o, struct err *e)
{
    const struct notes *n = &o->notes;
    struct writer_options out = o->out;
    struct checkpoint k;
    struct plan p = {0};
    struct writer_result r;
    out.check = check_model;
    json_t *meta = NULL;
    int rc = -1;
    if (checkpoint_open(&k, o->dir, o->as_numbers, n, e) ||
        (!o->as_numbers && check_gguf(&k, &o->plan, e)))
        goto fail;
    if (plan_build(&p, &k.dir, &k.model, &k.quant, &o->plan, n, e) || info_metadata(&p, &meta, e) ||
        writer_run(&p, meta, &out, &r, e))
        goto fail;
    char size[32], spent[32];
    note_info(n, "%s: %s, %d quantized and %d plain linears%s, %s in %s", o->out.path,
              k.model.architecture, p.facts.n_quantized, p.facts.n_plain,
              p.facts.n_rounded ? " (stored with 8 bits)" : "", units_bytes(r.file_bytes, size),
              units_seconds(r.seconds, spent));
    rc = 0;
fail:
    plan_free(&p);
    checkpoint_close(&k);
    json_decref(meta);
    return rc;
}
