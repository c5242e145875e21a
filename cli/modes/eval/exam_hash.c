#include "cli/modes/eval/exam_hash.h"

#include "cli/modes/eval/python_json.h"
#include "core/base/json.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

static void hash(const char *text, size_t n, char hex[EXAM_HASH])
{
    SHA256Data((const uint8_t *)text, n, hex);
}

static int hash_document(const struct exam *x, int q, char hex[EXAM_HASH], struct err *e)
{
    struct out o = {0};
    json_t *doc = exam_document(x, q);
    int rc = json_check(e);
    if (!rc) python_json(&o, doc);
    json_decref(doc);
    if (!rc && out_failed(&o)) rc = err_memory(e);
    if (!rc) hash(o.p, o.n, hex);
    out_free(&o);
    return rc;
}

/* Takes over TEXT; NULL: *e is set. */
static int hash_text(char *text, char hex[EXAM_HASH])
{
    if (!text) return -1;
    hash(text, strlen(text), hex);
    free(text);
    return 0;
}

int exam_hash(const struct exam *x, int q, struct exam_hash *h, struct err *e)
{
    _Static_assert(EXAM_HASH == SHA256_DIGEST_STRING_LENGTH, "a text of hexadecimal digits");
    return hash_document(x, q, h->document, e) || hash_text(exam_context(x, q, 0, e), h->prompt) ||
                   hash_text(exam_target(x, q, e), h->target)
               ? -1
               : 0;
}

int exam_hash_task(const struct exam *x, char hex[EXAM_HASH], struct err *e)
{
    SHA2_CTX all;
    struct exam_hash h;
    SHA256Init(&all);
    for (int filter = 0; filter < exam_filters(x); filter++)
        for (int q = 0; q < x->n; q++) {
            if (exam_hash(x, q, &h, e)) return -1;
            SHA256Update(&all, (const uint8_t *)h.document, EXAM_HASH - 1);
            SHA256Update(&all, (const uint8_t *)h.prompt, EXAM_HASH - 1);
            SHA256Update(&all, (const uint8_t *)h.target, EXAM_HASH - 1);
        }
    SHA256End(&all, hex);
    return 0;
}
