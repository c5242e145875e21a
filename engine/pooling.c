#include "engine/pooling.h"

#include "engine/embedding.h"
#include "core/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The prompt that Qwen3-Reranker was trained with. A template loses its last newline. */
static const char builtin[] =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n"
    "<Instruct>: {{ instruction | default(\"Given a web search query, retrieve relevant passages "
    "that answer the query\") }}\n"
    "<Query>: {{ query }}\n"
    "<Document>: {{ document }}<|im_end|>\n"
    "<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n\n";

/* ---- the checkpoint's files */

/* 1 and *out; 0: the checkpoint has no such file. */
static int read_file(const struct model *m, const char *name, json_t **out, struct err *e)
{
    size_t n;
    const char *text = mf_source_file(&m->file, name, &n);
    *out = NULL;
    if (!text) return 0;
    if ((*out = json_read_python(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL, e)))
        return 1;
    return err_is_memory(e) ? -1 : err_prefix(e, "%s: %s", m->file.st.path, name);
}

/* "Pooling" of "sentence_transformers.models.Pooling". */
static const char *class_of(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

static int mode_of(const char *name, enum pooling_kind *kind)
{
    static const char *const names[][3] = {[POOLING_LAST] = {"lasttoken", "last", "LAST"},
                                           [POOLING_MEAN] = {"mean_tokens", "mean", "MEAN"},
                                           [POOLING_CLS] = {"cls_token", "cls", "CLS"}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++)
            if (!strcmp(name, names[k][i])) {
                *kind = (enum pooling_kind)k;
                return 1;
            }
    return 0;
}

/* A boolean, also as Python's 0 or 1; -1: it is something else. */
static int flag_of(const json_t *v)
{
    double x = json_is_number(v) ? json_number_value(v) : json_is_true(v);
    int none = !v || json_is_null(v);
    return !none && !json_is_boolean(v) && (!json_is_number(v) || (x != 0 && x != 1)) ? -1 : x != 0;
}

/* 1_Pooling/config.json: {"pooling_mode_lasttoken": true, ...}, later "pooling_mode": "lasttoken".
 */
static void read_pooling(struct pooling *p, const json_t *j)
{
    static const char prefix[] = "pooling_mode_";
    const char *key, *mode = json_string_value(json_object_get(j, "pooling_mode"));
    json_t *v;
    int n = 0;
    json_object_foreach ((json_t *)j, key, v) {
        int flag = strncmp(key, prefix, sizeof prefix - 1) ? 0 : flag_of(v);
        if (flag < 0) {
            snprintf(p->wrong, sizeof p->wrong,
                     "the checkpoint's 1_Pooling/config.json: %.40s is neither true nor false: "
                     "--pooling says it",
                     key);
            return;
        }
        if (!flag) continue;
        mode = key + sizeof prefix - 1;
        n++;
    }
    if (n > 1)
        snprintf(p->wrong, sizeof p->wrong,
                 "the checkpoint's 1_Pooling/config.json joins several vectors, which is not "
                 "served: --pooling takes one");
    else if (mode && !mode_of(mode, &p->kind))
        snprintf(p->wrong, sizeof p->wrong,
                 "the checkpoint's 1_Pooling/config.json says '%.40s', which is not served: "
                 "--pooling takes another",
                 mode);
}

/* modules.json: the steps from a text to its vector. */
static void read_modules(struct pooling *p, const json_t *modules)
{
    size_t i;
    json_t *module;
    int pools = 0, norm = EMBEDDING_NO_NORM;
    json_array_foreach ((json_t *)modules, i, module) {
        const char *name = class_of(module);
        if (!strcmp(name, "Pooling")) pools = 1;
        else if (!strcmp(name, "Normalize")) norm = EMBEDDING_EUCLIDEAN;
        else if (strcmp(name, "Transformer") && strcmp(name, "LogitScore"))
            snprintf(p->wrong, sizeof p->wrong,
                     "the checkpoint's modules.json has a module %.60s, which is not served: "
                     "--pooling leaves it out",
                     name);
    }
    if (!pools) return;
    p->ranks = 0;
    p->norm = norm;
}

/* config.json: is_matryoshka, matryoshka_dimensions, as vLLM reads them. */
static int read_dimensions(struct pooling *p, const json_t *config, struct err *e)
{
    const json_t *list = json_object_get(config, "matryoshka_dimensions");
    size_t n = json_array_size(list);
    const json_t *may = json_object_get(config, "is_matryoshka");
    int flag = flag_of(may);
    if (flag < 0) return err_set(e, "config.json: is_matryoshka is neither true nor false");
    p->may_cut = n || flag || !may || json_is_null(may);
    if (!n) return 0;
    if (!(p->dimensions = malloc(n * sizeof *p->dimensions))) return err_memory(e);
    for (size_t i = 0; i < n; i++) {
        double x = json_number_value(json_array_get(list, i));
        if (x >= 1 && x <= p->dim) p->dimensions[p->n_dimensions++] = (int)x;
    }
    return 0;
}

static int read_checkpoint(struct pooling *p, const struct model *m, struct err *e)
{
    json_t *modules, *pooling = NULL, *config = NULL;
    int rc = read_file(m, "modules.json", &modules, e);
    if (rc >= 0) rc = read_file(m, "1_Pooling/config.json", &pooling, e);
    if (rc >= 0) rc = read_file(m, "config.json", &config, e);
    if (rc >= 0) {
        if (pooling) p->ranks = 0;
        if (modules) read_modules(p, modules);
        if (pooling) read_pooling(p, pooling);
        rc = read_dimensions(p, config, e);
    }
    json_decref(modules);
    json_decref(pooling);
    json_decref(config);
    return rc < 0 ? -1 : 0;
}

/* ---- pairs */

static int holds(const char *text, size_t n, const char *word)
{
    return text && memmem(text, n, word, strlen(word)) != NULL;
}

/* Whether the model's chat template has the roles query and document. */
static int renders_pairs(const struct model *m)
{
    static const char *const files[] = {"chat_template.jinja", "tokenizer_config.json",
                                        "chat_template.json"};
    for (int i = 0; i < 3; i++) {
        size_t n;
        const char *t = mf_source_file(&m->file, files[i], &n);
        int query = holds(t, n, "\"query\"") || holds(t, n, "'query'") ||
                    holds(t, n, "\\\"query\\\"");
        int document = holds(t, n, "\"document\"") || holds(t, n, "'document'") ||
                       holds(t, n, "\\\"document\\\"");
        if (query && document) return 1;
    }
    return 0;
}

static int open_template(struct pooling *p, const struct pooling_options *o, const struct model *m,
                         const struct chat *chat, struct err *e)
{
    const char *given = o->template_text;
    if (!given && renders_pairs(m)) {
        p->pair = chat;
        return 0;
    }
    size_t n = given ? o->template_bytes : sizeof builtin - 1;
    if (given) p->template_crc = (uint32_t)crc32_z(0, (const unsigned char *)given, n);
    int rc = chat_open_model(&p->own, &m->file, given ? given : builtin, n, 0, e);
    if (rc && given) err_prefix(e, "the template of a pair");
    p->pair = p->own;
    return rc;
}

/* The id of a token that is WORD [n], by its spelling, else as all that the text encodes to; -1. */
static int token_of(const struct tokenizer *t, const char *word, size_t n, int32_t *id,
                    struct err *e)
{
    char s[64];
    struct tok_ids ids = {0};
    snprintf(s, sizeof s, "%.*s", (int)n, word);
    *id = tok_id_of(t, s);
    if (*id >= 0) return 0;
    int rc = tok_encode(t, s, strlen(s), 0, &ids, e);
    if (!rc && ids.n == 1) *id = ids.id[0];
    tok_ids_free(&ids);
    return rc;
}

static int find_tokens(struct pooling *p, const struct pooling_options *o, const struct tokenizer *t,
                       int vocab, int headless, struct err *e)
{
    const char *words = o->score_tokens ? o->score_tokens : "yes,no", *comma = strchr(words, ',');
    p->yes = p->no = -1;
    if (headless) snprintf(p->wrong_pair, sizeof p->wrong_pair, "the model has no head (lm_head)");
    if (!comma || comma == words || !comma[1] || strlen(words) > 60)
        return err_set(e, "--score-tokens %s: two tokens with a comma between them", words);
    if (headless) return 0;
    if (!t) {
        snprintf(p->wrong_pair, sizeof p->wrong_pair, "the model has no tokenizer");
        return 0;
    }
    if (token_of(t, words, (size_t)(comma - words), &p->yes, e) ||
        token_of(t, comma + 1, strlen(comma + 1), &p->no, e))
        return -1;
    if (p->yes >= 0 && p->no >= 0 && p->yes < vocab && p->no < vocab && p->yes != p->no) return 0;
    snprintf(p->wrong_pair, sizeof p->wrong_pair,
             "%s: the tokenizer has no two such tokens (--score-tokens names others, --pooling "
             "last compares embeddings)",
             words);
    return o->score_tokens
               ? err_set(e, "--score-tokens %s: the tokenizer has no two such tokens", words)
               : 0;
}

int pooling_open(struct pooling *p, const struct pooling_options *o, const struct model *m,
                 const struct tokenizer *t, const struct chat *chat, struct err *e)
{
    *p = (struct pooling){
        .kind = POOLING_LAST, .norm = EMBEDDING_EUCLIDEAN, .ranks = 1, .dim = m->config.dim};
    int rc = read_checkpoint(p, m, e);
    if (!rc && o->kind) {
        p->ranks = !strcmp(o->kind, "rank");
        if (!p->ranks) mode_of(o->kind, &p->kind);
        p->wrong[0] = 0;
    }
    if (o->norm) p->norm = *o->norm;
    if (!rc) rc = open_template(p, o, m, chat, e);
    if (!rc) rc = find_tokens(p, o, t, m->config.vocab, m->config.headless, e);
    if (rc) pooling_close(p);
    return rc;
}

void pooling_close(struct pooling *p)
{
    chat_close(p->own);
    free(p->dimensions);
    *p = (struct pooling){0};
}

int pooling_render(const struct pooling *p, const json_t *query, const json_t *document,
                   const json_t *extra, char **text, size_t *bytes, struct err *e)
{
    json_t *q = (json_t *)query, *d = (json_t *)document;
    json_t *instruction = json_object_get(extra, "instruction");
    json_t *variables = extra ? json_copy((json_t *)extra) : json_object();
    json_t *messages = json_pack("[{s:s,s:O},{s:s,s:O}]", "role", "query", "content", q, "role",
                                 "document", "content", d);
    int rc = -1;
    if (messages && instruction)
        json_array_insert_new(messages, 0,
                              json_pack("{s:s,s:O}", "role", "system", "content", instruction));
    json_object_set(variables, "query", q);
    json_object_set(variables, "document", d);
    if (!variables || !messages || json_check(e)) err_memory(e);
    else {
        const struct chat_input in = {.messages = messages, .extra = variables};
        rc = chat_render(p->pair, &in, text, bytes, e);
    }
    json_decref(variables);
    json_decref(messages);
    return rc;
}
