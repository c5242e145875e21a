/* answer.c: answers a prompt. cc answer.c -lopt4gptq && ./a.out MODEL "The capital of France is" */
#include <opt4gptq.h>
#include <stdio.h>
#include <string.h>

static int on_token(void *arg, int32_t id, const char *text, size_t bytes)
{
    (void)arg, (void)id;
    fwrite(text, 1, bytes, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct o4_error e;
    o4_model *m = NULL;
    o4_engine *g = NULL;
    int32_t *id = NULL;
    size_t n;
    struct o4_params p = O4_INIT(o4_params);
    struct o4_sink sink = O4_INIT(o4_sink);
    if (argc != 3) return fprintf(stderr, "usage: answer MODEL PROMPT\n"), 2;
    p.max_tokens = 32;
    sink.token = on_token;
    int rc = o4_model_open(&m, argv[1], &e);
    if (!rc) rc = o4_engine_open(&g, m, NULL, &e);
    if (!rc) rc = o4_tokenize(m, argv[2], strlen(argv[2]), 1, &id, &n, &e);
    if (!rc) rc = o4_submit(g, &p, id, n, &sink, NULL, &e);
    for (int more = !rc; more;)
        if ((more = o4_step(g, &e)) < 0) rc = -1, more = 0;
    o4_free(id);
    o4_engine_close(g);
    o4_model_close(m);
    if (rc) return fprintf(stderr, "%s\n", e.text), 1;
    return putchar('\n') == EOF;
}
