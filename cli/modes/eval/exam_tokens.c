#include "cli/modes/eval/exam_tokens.h"

#include "cli/modes/eval/task_text.h"
#include "cli/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BOS, else EOS; -1: none. */
static int32_t prefix_of(const struct tokenizer *t)
{
    int32_t bos = tok_bos(t);
    return bos >= 0 ? bos : tok_eos(t);
}

int exam_encode(const struct tokenizer *t, const char *text, size_t n, struct tok_ids *ids,
                struct err *e)
{
    size_t n_before;
    (void)tok_before(t, &n_before);
    ids->n = 0;
    if (tok_encode(t, text, n, 1, ids, e)) return -1;
    if (!n_before || ids->n <= n_before || ids->id[n_before] != prefix_of(t)) return 0;
    ids->n = 0;
    return tok_encode(t, text, n, 0, ids, e);
}

int exam_encode_pair(const struct tokenizer *t, const char *context, const char *continuation,
                     struct tok_ids *ids, int *from, struct err *e)
{
    struct tok_ids whole = {0};
    const int32_t prefix = prefix_of(t);
    char *text = NULL;
    size_t n = strlen(context), end = task_text_end(context, n);
    if (asprintf(&text, "%s%s", context, continuation) < 0) return err_memory(e);
    int rc = n ? exam_encode(t, text, strlen(text), &whole, e)
               : tok_encode(t, text, strlen(text), 0, &whole, e);
    if (!rc && n) rc = exam_encode(t, text, end, ids, e);
    free(text);
    size_t n_context = ids->n;
    if (!rc && !n && prefix >= 0) { /* nothing stands before it but BOS */
        n_context = whole.n && whole.id[0] == prefix;
        rc = run_keep_id(ids, prefix, e);
    }
    *from = (int)ids->n;
    for (size_t i = n_context; i < whole.n && !rc; i++) rc = run_keep_id(ids, whole.id[i], e);
    tok_ids_free(&whole);
    if (!rc && !*from) rc = err_set(e, "the text before a choice has no tokens");
    if (!rc && (int)ids->n == *from) rc = err_set(e, "a choice has no tokens");
    return rc;
}
