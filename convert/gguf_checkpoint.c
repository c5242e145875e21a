#include "convert/gguf_checkpoint.h"

#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>

/* A whole model, not a part of one or what is added to one. */
static int is_whole(const struct gguf_checkpoint *k, struct err *e)
{
    const json_t *parts = json_object_get(k->file.keys, "split.count"),
                 *type = json_object_get(k->file.keys, "general.type");
    if (json_is_integer(parts) && json_integer_value(parts) > 1)
        return err_set(e,
                       "%s: is one of %d parts of a model: join them first (llama-gguf-split "
                       "--merge)",
                       k->file.path, (int)json_integer_value(parts));
    if (type && strcmp(json_is_string(type) ? json_string_value(type) : "", "model") != 0)
        return err_set(e, "%s: is no model: its general.type is '%.40s'", k->file.path,
                       json_is_string(type) ? json_string_value(type) : "no text");
    return 0;
}

/* llama: Llama, Mistral, SmolLM and what else has Llama's layers. */
static const struct gguf_arch archs[] = {
    {"llama", "llama", "LlamaForCausalLM", 1, 0, 0},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", 0, 0, 0},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", 0, 0, 0},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", 0, 1, 2},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", 0, 1, 3},
};

static int find_arch(struct gguf_checkpoint *k, struct err *e)
{
    const char *name = json_string_value(json_object_get(k->file.keys, "general.architecture"));
    if (!name) return err_set(e, "%s: does not say its general.architecture", k->file.path);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (!strcmp(archs[i].name, name)) {
            k->arch = &archs[i];
            return 0;
        }
    return err_set(e,
                   "%s: GGUF files of architecture '%.40s' are not read (llama, qwen2, qwen3, "
                   "gemma2 and gemma3 are): take the model's GPTQ or AWQ export",
                   k->file.path, name);
}

const struct gguf_text *gguf_checkpoint_text(const struct gguf_checkpoint *k, const char *name)
{
    for (int i = 0; i < k->n_texts; i++)
        if (!strcmp(k->text[i].name, name)) return &k->text[i];
    return NULL;
}

int gguf_checkpoint_open(struct gguf_checkpoint *k, const char *path, int as_numbers, struct err *e)
{
    *k =
        (struct gguf_checkpoint){.file = {.fd = -1}, .shard = {.fd = -1}, .as_numbers = as_numbers};
    if (gguf_open(&k->file, path, e)) return -1;
    if (is_whole(k, e) || find_arch(k, e) || gguf_config(k, e) || gguf_tokenizer(k, e) ||
        gguf_views(k, e) || json_check(e)) {
        gguf_checkpoint_close(k);
        return -1;
    }
    return 0;
}

void gguf_checkpoint_close(struct gguf_checkpoint *k)
{
    for (int i = 0; i < k->n_texts; i++) free(k->text[i].data);
    st_close(&k->shard);
    free(k->views);
    gguf_close(&k->file);
    *k = (struct gguf_checkpoint){.file = {.fd = -1}, .shard = {.fd = -1}};
}
