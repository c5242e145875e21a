/* pooling.h: how a model makes embeddings and scores: what the checkpoint's files say (those of
 * sentence-transformers: modules.json, 1_Pooling/config.json) and the options. Owns: the template of
 * a pair. Must not know: command lines, records, requests. */
#ifndef ENGINE_POOLING_H
#define ENGINE_POOLING_H

#include "core/model/model.h"
#include "core/text/chat.h"
#include "core/text/tokenizer.h"

/* What an embedding is made of: the row of the prompt's last token, the mean of all, the row of its
 * first token. */
enum pooling_kind { POOLING_LAST, POOLING_MEAN, POOLING_CLS };

struct pooling {
    enum pooling_kind kind;
    int norm;  /* of embedding_make */
    int ranks; /* a score is the likelihood of yes beside no as the next token; 0: a cosine */
    int dim;
    int *dimensions; /* [n_dimensions] those that the checkpoint names; 0: any up to dim */
    int n_dimensions;
    int may_cut;      /* 0: config.json says that vectors must not be cut */
    struct chat *own; /* of the template that an option gives, else of the built-in one; NULL: */
    const struct chat *pair; /* what renders a pair: that, or the model's own chat template */
    int32_t yes, no;         /* token ids; -1: the tokenizer has no such single tokens */
    char wrong[256], wrong_pair[256]; /* why embeddings, and scores by yes and no, are refused */
    uint32_t template_crc;            /* of the options; 0: none */
};

/* NULL stands for what the checkpoint says. */
struct pooling_options {
    const char *kind;          /* last, mean, cls or rank */
    const int *norm;           /* of embedding_make */
    const char *template_text; /* [template_bytes] Jinja template of a pair */
    size_t template_bytes;
    const char *score_tokens; /* the two tokens of a score with a comma between them */
};

/* CHAT: of the model. Error: the template or the tokens, or a checkpoint's file that is no JSON. */
int pooling_open(struct pooling *p, const struct pooling_options *o, const struct model *m,
                 const struct tokenizer *t, const struct chat *chat, struct err *e);
void pooling_close(struct pooling *p);
/* Renders a pair of JSON strings; *text is malloc'd. EXTRA: an object of further variables of the
 * template (instruction, which is also a system message), or NULL. */
int pooling_render(const struct pooling *p, const json_t *query, const json_t *document,
                   const json_t *extra, char **text, size_t *bytes, struct err *e);

#endif
