/* gguf_keys.c: keys of a GGUF file, and the small files that are made of them. */
#include "convert/gguf_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *gguf_key(const struct gguf_checkpoint *k, const char *name)
{
    char full[200];
    snprintf(full, sizeof full, "%s%s", *name == '.' ? k->arch->name : "", name);
    return json_object_get(k->file.keys, full);
}

int gguf_integer(const struct gguf_checkpoint *k, const char *name, int64_t fallback, int64_t *x,
                 struct err *e)
{
    const json_t *v = gguf_key(k, name);
    *x = v ? json_integer_value(v) : fallback;
    if (v && !json_is_integer(v))
        return err_set(e, "%s: key '%s' is not one integer", k->file.path, name);
    return *x >= 0 && *x < 1 << 30
               ? 0
               : err_set(e, "%s: key '%s' is missing or out of range", k->file.path, name);
}

int gguf_real(const struct gguf_checkpoint *k, const char *name, double fallback, double *x,
              struct err *e)
{
    const json_t *v = gguf_key(k, name);
    char digits[40];
    if (v && !json_is_number(v))
        return err_set(e, "%s: key '%s' is not a number", k->file.path, name);
    /* as many digits as an fp32 number of people has: 1e-05, not 9.99999974e-06 */
    snprintf(digits, sizeof digits, "%.6g", v ? json_number_value(v) : fallback);
    *x = strtod(digits, NULL);
    return 0;
}

void gguf_add_text(struct gguf_checkpoint *k, const char *name, char *data, size_t n)
{
    CHECK(k->n_texts < GGUF_TEXTS);
    k->text[k->n_texts++] = (struct gguf_text){name, data, n};
}

int gguf_add_json(struct gguf_checkpoint *k, const char *name, json_t *j, struct err *e)
{
    char *data = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!data) return err_memory(e);
    gguf_add_text(k, name, data, strlen(data));
    return 0;
}
