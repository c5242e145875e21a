/* library.h: what the files of the library share. Owns: the structs behind opt4gptq.h. */
#ifndef ENGINE_LIBRARY_H
#define ENGINE_LIBRARY_H

#include "core/text/chat.h"
#include "engine/engine.h"
#include "engine/opt4gptq.h"
#include "engine/pooling.h"
#include "engine/vocabulary.h"

struct o4_model {
    struct engine engine; /* its backend and scheduler are open while has_engine */
    struct engine_options options;
    struct chat *chat;
    struct pooling pooling;
    int has_engine;
};

struct o4_request;

struct o4_engine {
    o4_model *model;
    struct vocab *vocab;       /* made by the first request with a constraint */
    struct o4_request *first; /* those that have not ended */
    char memory[32];
};

/* Copies the error; returns -1. KIND: where it is not for lack of memory. */
int o4_fail(struct o4_error *to, enum o4_kind kind, const struct err *e);
/* Takes the request out of the engine's list. */
void o4_request_free(o4_engine *g, struct o4_request *q);

#endif
