#include "core/text/gen_config.h"

#include "core/base/json.h"

int gen_config_apply(const struct modelfile *m, struct sampler_params *p, struct err *e)
{
    size_t n;
    const char *text = mf_source_file(m, "generation_config.json", &n);
    if (!text) return 0;
    json_t *c = json_read_python(text, n, 0, NULL, e);
    if (!json_is_object(c)) {
        json_decref(c);
        return !c && err_is_memory(e)
                   ? -1
                   : err_set(e, "%s: generation_config.json inside is not a JSON object",
                             m->st.path);
    }
    double top_k = p->top_k;
    const struct {
        const char *key;
        double *value, lo, hi;
    } fields[] = {
        {"temperature", &p->temperature, 0, 100},
        {"top_k", &top_k, -1, 1 << 24},
        {"top_p", &p->top_p, 0, 1},
        {"min_p", &p->min_p, 0, 1},
        {"repetition_penalty", &p->repetition_penalty, 0.01, 100},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !rc; i++) {
        const json_t *v = json_object_get(c, fields[i].key);
        if (!v || json_is_null(v)) continue;
        double x = json_number_value(v);
        if (!json_is_number(v) || !(x >= fields[i].lo && x <= fields[i].hi))
            rc = err_set(e, "%s: generation_config.json inside: '%s' is not a number in %g..%g",
                         m->st.path, fields[i].key, fields[i].lo, fields[i].hi);
        *fields[i].value = x;
    }
    if (!rc && top_k != (int)top_k)
        rc = err_set(e, "%s: generation_config.json inside: 'top_k' is not an integer", m->st.path);
    p->top_k = top_k > 0 ? (int)top_k : 0;
    json_decref(c);
    return rc;
}
