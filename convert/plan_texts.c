/* plan_texts.c: the checkpoint's small files, copied into the model file byte for byte; they are
 * parsed here as opt4gptq-run will parse them. */
#include "convert/plan.h"

#include "core/model/whatis.h"
#include "core/text/chat.h"
#include "core/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENIZER,
    SPM,
    TOKENIZER_CONFIG,
    SPECIAL_MAP,
    ADDED,
    TEMPLATE,
    TEMPLATE_JSON,
    TOOL_USE,
    GENERATION,
    CONFIG,
    MODULES,
    POOLING,
    N_TEXTS
};
static const char *const names[N_TEXTS] = {
    "tokenizer.json",         "tokenizer.model",
    "tokenizer_config.json",  "special_tokens_map.json",
    "added_tokens.json",      "chat_template.jinja",
    "chat_template.json",     "additional_chat_templates/tool_use.jinja",
    "generation_config.json", "config.json",
    "modules.json",           "1_Pooling/config.json"};

/* Another name of chat_template.jinja. */
static const char other_template[] = "additional_chat_templates/default.jinja";

/* Also adds the tokenizer's end token to c. */
static int check_tokenizer(const struct plan *p, struct hf_config *c,
                           const struct chat_file text[N_TEXTS], struct err *e)
{
    const struct tok_source s = {.json = text[TOKENIZER].text,
                                 .json_bytes = text[TOKENIZER].bytes,
                                 .spm = text[SPM].text,
                                 .spm_bytes = text[SPM].bytes,
                                 .config = text[TOKENIZER_CONFIG].text,
                                 .config_bytes = text[TOKENIZER_CONFIG].bytes,
                                 .special_map = text[SPECIAL_MAP].text,
                                 .special_map_bytes = text[SPECIAL_MAP].bytes,
                                 .added = text[ADDED].text,
                                 .added_bytes = text[ADDED].bytes};
    struct tokenizer *t;
    struct err why = {0};
    if (!s.json && !s.spm) {
        note_warn(p->notes,
                  "%s has neither tokenizer.json nor tokenizer.model: the result can only be used "
                  "with token ids",
                  p->dir->path);
        return 0;
    }
    if (tok_open(&t, &s, &why)) {
        char file[1200];
        snprintf(file, sizeof file, "%s/%s", p->dir->path, names[s.json ? TOKENIZER : SPM]);
        *e = why;
        return err_is_memory(e) || whatis_format(file, e)
                   ? -1
                   : err_set(e,
                             "%s/%s (--no-tokenizer converts without it, for use with token ids)",
                             p->dir->path, why.msg);
    }
    int n = tok_n_ids(t), vocab = p->config->vocab;
    if (n > vocab)
        note_warn(p->notes,
                  "%s: the tokenizer has ids up to %d, but vocab_size is %d: a text that needs one "
                  "of the ids from %d on will be refused",
                  p->dir->path, n - 1, vocab, vocab);
    int rc = hfc_end(c, tok_eos(t), p->notes, e);
    tok_close(t);
    return rc;
}

static int check_template(const struct plan *p, const struct chat_file text[N_TEXTS], struct err *e)
{
    const struct chat_source s = {.jinja = text[TEMPLATE],
                                  .tool_use = text[TOOL_USE],
                                  .config = text[TOKENIZER_CONFIG],
                                  .special_map = text[SPECIAL_MAP],
                                  .json = text[TEMPLATE_JSON]};
    struct chat *c;
    struct err why = {0};
    if (!chat_open(&c, &s, 0, &why)) {
        chat_close(c);
        return 0;
    }
    if (err_is_memory(&why)) {
        *e = why;
        return -1;
    }
    note_warn(p->notes, "%s: %s: chat needs another template (opt4gptq-run --chat-template-file)",
              p->dir->path, why.msg);
    return 0;
}

int plan_texts(struct plan *p, struct hf_config *c, int no_tokenizer, struct err *e)
{
    struct chat_file text[N_TEXTS] = {{0}};
    for (int i = 0; i < N_TEXTS; i++) {
        char *data, name[64];
        size_t n;
        if (no_tokenizer && (i == TOKENIZER || i == SPM)) continue;
        if (hfd_file(p->dir, names[i], &data, &n, e)) return -1;
        if (!data && i == TEMPLATE && hfd_file(p->dir, other_template, &data, &n, e)) return -1;
        if (!data) continue;
        if (!n) {
            free(data);
            continue;
        }
        snprintf(name, sizeof name, "file.%s", names[i]);
        if (plan_memory(p, name, DT_U8, (int64_t)n, data, e)) return -1;
        text[i] = (struct chat_file){data, n};
    }
    return (!no_tokenizer && check_tokenizer(p, c, text, e)) || check_template(p, text, e) ? -1 : 0;
}
