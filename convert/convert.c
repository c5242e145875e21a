#include "convert/convert.h"

#include "convert/info.h"
#include "convert/plan.h"
#include "core/model/whatis.h"

int convert_run(const struct convert_options *o, struct err *e)
{
    const struct notes *n = &o->notes;
    struct hf_dir d = {0};
    struct hf_config c = {0};
    struct quant_config q = {0};
    struct plan p = {0};
    struct writer_result r;
    json_t *config = NULL, *generation = NULL, *meta = NULL;
    int rc = -1;
    if (hfd_open(&d, o->dir, e)) {
        whatis(o->dir, WHATIS_CHECKPOINT, e);
        goto fail;
    }
    if (hfd_json(&d, "config.json", &config, e)) goto fail;
    if (!config) {
        err_set(e, "%s: has no config.json: not a Hugging Face checkpoint", o->dir);
        whatis(o->dir, WHATIS_CHECKPOINT, e);
        goto fail;
    }
    if (hfd_json(&d, "generation_config.json", &generation, e)) goto fail;
    if (hfc_read(&c, config, generation, n, e)) {
        err_prefix(e, "%s", d.path);
        goto fail;
    }
    if (qc_read(&q, &d, config, n, e) || hfd_open_shards(&d, q.base_name, e) ||
        qc_read_shards(&q, &d, n, e))
        goto fail;
    if (plan_build(&p, &d, &c, &q, &o->plan, n, e) || info_metadata(&p, &meta, e) ||
        writer_run(&p, meta, &o->out, &r, e))
        goto fail;
    char size[32], spent[32];
    note_info(n, "%s: %s, %d quantized and %d plain linears%s, %s in %s", o->out.path,
              c.architecture, p.facts.n_quantized, p.facts.n_plain,
              o->plan.plain8 ? " (stored with 8 bits)" : "", note_bytes(r.file_bytes, size),
              note_seconds(r.seconds, spent));
    rc = 0;
fail:
    plan_free(&p);
    qc_free(&q);
    hfc_free(&c);
    hfd_close(&d);
    json_decref(meta);
    json_decref(config);
    json_decref(generation);
    return rc;
}
