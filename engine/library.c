/* library.c: the library's models, engines and errors (opt4gptq.h). */
#include "engine/library.h"

#include "engine/devices.h"

#include "backend-hip/runtime/hip_compile.h"
#include "core/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int o4_fail(struct o4_error *to, enum o4_kind kind, const struct err *e)
{
    if (!to) return -1;
    to->kind = err_is_memory(e) ? O4_MEMORY : kind;
    snprintf(to->text, sizeof to->text, "%s", e->msg);
    return -1;
}

const char *o4_version(void) { return OPT4GPTQ_VERSION; }

void o4_free(void *p) { free(p); }

/* ---- models */

static int open_model(o4_model *m, const char *path, struct err *e)
{
    if (!json_is_ours())
        return err_set(e, "another part of this process has set jansson's functions of memory");
    m->options = (struct engine_options){
        .backend = "cpu", .act = "auto", .kv = "auto", .cpu = "auto", .variant = "auto", .quiet = 1};
    m->options.embeds = 1;
    if (engine_open_model(&m->engine, path, &m->options, e) ||
        chat_open_model(&m->chat, &m->engine.model.file, NULL, 0, 0, e))
        return -1;
    const struct pooling_options pooling = {0};
    return pooling_open(&m->pooling, &pooling, &m->engine.model, m->engine.tokenizer, m->chat, e);
}

int o4_model_open(o4_model **out, const char *path, struct o4_error *e)
{
    struct err why = {0};
    o4_model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return o4_fail(e, O4_MEMORY, (err_memory(&why), &why));
    if (open_model(m, path, &why)) {
        o4_model_close(m);
        return o4_fail(e, O4_INPUT, &why);
    }
    *out = m;
    return 0;
}

void o4_model_close(o4_model *m)
{
    if (!m) return;
    CHECK(!m->has_engine);
    pooling_close(&m->pooling);
    chat_close(m->chat);
    engine_close(&m->engine);
    free(m);
}

static int need_tokenizer(const o4_model *m, struct err *e)
{
    return m->engine.tokenizer ? 0 : err_set(e, "the model has no tokenizer");
}

int o4_tokenize(const o4_model *m, const char *text, size_t bytes, int special, int32_t **id,
                size_t *n, struct o4_error *e)
{
    struct err why = {0};
    struct tok_ids ids = {0};
    *id = NULL;
    *n = 0;
    if (need_tokenizer(m, &why) ||
        tok_encode(m->engine.tokenizer, text, bytes, special, &ids, &why)) {
        tok_ids_free(&ids);
        return o4_fail(e, O4_INPUT, &why);
    }
    *id = ids.id;
    *n = ids.n;
    return 0;
}

int o4_detokenize(const o4_model *m, const int32_t *id, size_t n, char **text, size_t *bytes,
                  struct o4_error *e)
{
    struct err why = {0};
    *text = NULL;
    *bytes = 0;
    if (need_tokenizer(m, &why) || tok_decode(m->engine.tokenizer, id, n, 1, text, bytes, &why))
        return o4_fail(e, O4_INPUT, &why);
    return 0;
}

int o4_chat(const o4_model *m, const char *messages_json, char **text, size_t *bytes,
            struct o4_error *e)
{
    struct err why = {0};
    json_t *given, *messages = NULL;
    int rc = -1;
    *text = NULL;
    *bytes = 0;
    given = json_read(messages_json, strlen(messages_json), 0, NULL, &why);
    if (given && !chat_messages(m->chat, given, &messages, &why)) {
        const struct chat_input in = {.messages = messages, .add_generation_prompt = 1};
        rc = chat_render(m->chat, &in, text, bytes, &why);
    }
    json_decref(messages);
    json_decref(given);
    return rc ? o4_fail(e, O4_INPUT, &why) : 0;
}

/* ---- engines */

/* The library's options as the engine wants them. O has as many bytes as its size says. */
static int read_options(o4_engine *g, const struct o4_engine_options *given, struct err *e)
{
    struct o4_engine_options o = {0};
    if (given && (given->size < sizeof o.size || given->size > sizeof o))
        return err_set(e, "o4_engine_options has a size that this library does not know");
    if (given) memcpy(&o, given, given->size);
    struct engine_options *to = &g->model->options;
    const char *backend = o.backend ? o.backend : "auto";
    if (!strcmp(backend, "gpu")) backend = "hip";
    if (strcmp(backend, "auto") && strcmp(backend, "cpu") && strcmp(backend, "hip"))
        return err_set(e, "backend %s is neither cpu nor gpu", backend);
    if (o.device < 0 || o.threads < 0 || o.n_seqs < 0 || o.n_batch < 0 || o.n_ctx < 0 ||
        o.n_seqs > 65536 || o.n_batch > 65536 || o.n_ctx > 1 << 24 || o.threads > 1024)
        return err_set(e, "a number of o4_engine_options is out of its range");
    enum parallel mode;
    if (o.devices && o.device) return err_set(e, "device and devices exclude each other");
    if (parallel_read(o.parallel_mode, &mode, e)) return -1;
    if (o.memory) snprintf(g->memory, sizeof g->memory, "%llu", (unsigned long long)o.memory);
    *to = (struct engine_options){.backend = backend,
                                  .act = o.act ? o.act : "auto",
                                  .kv = o.kv ? o.kv : "auto",
                                  .cpu = o.variant ? o.variant : "auto",
                                  .variant = o.variant ? o.variant : "auto",
                                  .hip_library = o.library,
                                  .device = o.device,
                                  .devices = o.devices,
                                  .parallel_mode = o.parallel_mode,
                                  .query_halves = 2,
                                  .threads = o.threads,
                                  .n_ctx = o.n_ctx,
                                  .n_batch = o.n_batch,
                                  .n_seqs = o.n_seqs,
                                  .memory = o.memory ? g->memory : NULL,
                                  .embeds = 1,
                                  .quiet = 1,
                                  .note = o.note,
                                  .note_arg = o.self};
    g->model->engine.hidden = o.embeddings;
    if (o.helper) hip_compile_by(o.helper);
    return backend_check_names(to, e);
}

int o4_engine_open(o4_engine **out, o4_model *m, const struct o4_engine_options *o,
                   struct o4_error *e)
{
    struct err why = {0};
    o4_engine *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g) return o4_fail(e, O4_MEMORY, (err_memory(&why), &why));
    g->model = m;
    if (m->has_engine) {
        free(g);
        err_set(&why, "the model has an engine");
        return o4_fail(e, O4_INPUT, &why);
    }
    if (read_options(g, o, &why) || engine_settle(&m->options, &why)) {
        free(g);
        return o4_fail(e, O4_INPUT, &why);
    }
    engine_use(&m->engine, &m->options);
    if (engine_open(&m->engine, &why)) {
        engine_stop(&m->engine);
        free(g);
        return o4_fail(e, O4_DEVICE, &why);
    }
    m->has_engine = 1;
    *out = g;
    return 0;
}

void o4_engine_close(o4_engine *g)
{
    if (!g) return;
    engine_stop(&g->model->engine);
    while (g->first) o4_request_free(g, g->first);
    vocab_close(g->vocab);
    g->model->has_engine = 0;
    free(g);
}

int o4_step(o4_engine *g, struct o4_error *e)
{
    struct err why = {0};
    int rc = replicas_step(g->model->engine.replicas, &why);
    return rc < 0 ? o4_fail(e, O4_DEVICE, &why) : rc;
}

int o4_abort(o4_engine *g, struct o4_error *e)
{
    struct err why = {0};
    return replicas_abort(g->model->engine.replicas, &why) ? o4_fail(e, O4_DEVICE, &why) : 0;
}
