/* opt4gptq.h: the library: a model file opened, prompts in, tokens and vectors out. The only header
 * that `make install` installs; libopt4gptq exports what it declares and nothing else.
 *
 * It prints nothing, reads no environment, installs no signal handler and starts no process but to
 * compile GPU kernels that it lacks. An answer is a function of model, request and arithmetic
 * alone: not of the other requests, the threads or the number of sequences (docs/numerics.md).
 *
 * Functions return 0, or -1 with *e filled in; an engine that failed can only be closed. A model
 * and its engine belong to one thread at a time. Structs of options begin with their size, so that
 * a program keeps working with a later library: set it with O4_INIT. */
#ifndef OPT4GPTQ_H
#define OPT4GPTQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define O4_INIT(type)                                                                              \
    {                                                                                              \
        .size = sizeof(struct type)                                                                \
    }

/* What failed: our own state (a full disk, a missing library), memory, the caller's input, the
 * device, or a refusal because of an option. */
enum o4_kind { O4_FAILED = 1, O4_MEMORY, O4_INPUT, O4_DEVICE };
struct o4_error {
    int kind; /* enum o4_kind */
    char text[1024];
};

typedef struct o4_model o4_model;
typedef struct o4_engine o4_engine;

/* The version of the library, as "0.2". */
const char *o4_version(void);

/* Opens a model file (made by opt4gptq-convert) with its tokenizer and chat template, which the
 * model owns. The file stays mapped and must not change. */
int o4_model_open(o4_model **m, const char *path, struct o4_error *e);
/* Its engine must be closed. NULL is allowed. */
void o4_model_close(o4_model *m);

/* Text to ids [*n] and back, malloc'd: free them with o4_free. TEXT has `bytes` bytes of UTF-8;
 * with `special` the tokenizer adds what it adds to a prompt (BOS). The text ends with a NUL that
 * *bytes does not count; special tokens give no text. */
int o4_tokenize(const o4_model *m, const char *text, size_t bytes, int special, int32_t **id,
                size_t *n, struct o4_error *e);
int o4_detokenize(const o4_model *m, const int32_t *id, size_t n, char **text, size_t *bytes,
                  struct o4_error *e);
/* The prompt of a chat: messages as OpenAI's JSON array, through the model's chat template; encode
 * it with special = 0. */
int o4_chat(const o4_model *m, const char *messages_json, char **text, size_t *bytes,
            struct o4_error *e);
void o4_free(void *p);

/* Zero and NULL stand for the defaults of opt4gptq-run. */
struct o4_engine_options {
    size_t size;
    const char *backend;  /* "cpu", "gpu"; NULL: a GPU that can run the kernels, else the CPU */
    const char *act, *kv; /* arithmetic and storage of keys and values: as --act and --kv */
    const char *variant;  /* instruction set of the CPU or kernels of a GPU */
    const char *library;  /* path of the GPU's runtime library */
    const char *helper;   /* path of opt4gptq-run, which compiles kernels for a GPU that the library
                             has none for; NULL: such a GPU is refused */
    int device, threads;
    int n_seqs, n_batch, n_ctx; /* sequences at once, rows of a step, positions of a sequence */
    uint64_t memory;            /* bytes for model and cache */
    int embeddings;             /* requests may ask for vectors */
    /* Lines that opt4gptq-run would print on stderr; NULL: they are dropped. */
    void (*note)(void *self, const char *line);
    void *self;
    /* Several GPUs, "0,1" or "all", and how they share the work, as --parallel-mode: data gives
     * each n_seqs sequences. */
    const char *devices, *parallel_mode;
};
/* A model has one engine at a time. O may be NULL. */
int o4_engine_open(o4_engine **g, o4_model *m, const struct o4_engine_options *o,
                   struct o4_error *e);
/* Requests that have not ended get no further calls. NULL is allowed. */
void o4_engine_close(o4_engine *g);

/* A request. Zero and NULL stand for greedy answers without a constraint; the seed is part of it.
 */
struct o4_params {
    size_t size;
    int max_tokens; /* 0: until the model ends or its context is full */
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int top_k, min_tokens, ignore_eos;
    uint64_t seed;
    const char *json_schema, *regex, *grammar; /* what the answer has to be; at most one */
    int embedding;                             /* the vector of the prompt in place of an answer */
};

enum o4_finish { O4_STOP, O4_LENGTH, O4_ABORTED };

/* Called by o4_step on its thread. A callback that may be missing is NULL. */
struct o4_sink {
    size_t size;
    /* A token of the answer with the text that is final now (UTF-8, `bytes` long, not ended by NUL;
     * empty while a character is incomplete). Returns 1 to end the answer here, else 0. What was
     * held back at the end comes with id -1. */
    int (*token)(void *arg, int32_t id, const char *text, size_t bytes);
    /* The prompt's vector [n], of length 1. */
    void (*vector)(void *arg, const float *x, int n);
    /* The last call of a request. MSG: why it failed, or NULL. */
    void (*done)(void *arg, enum o4_finish why, const char *msg);
};

/* Queues a request; PROMPT [n] is copied, SINK and ARG are the caller's until done(). -1: it can
 * never run, and gets no calls. */
int o4_submit(o4_engine *g, const struct o4_params *p, const int32_t *prompt, size_t n,
              const struct o4_sink *sink, void *arg, struct o4_error *e);
/* Computes one step for all requests. 1: there is more to do; 0: all have ended. */
int o4_step(o4_engine *g, struct o4_error *e);
/* Ends all requests with O4_ABORTED. */
int o4_abort(o4_engine *g, struct o4_error *e);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
