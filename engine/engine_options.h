/* engine_options.h: what an engine is opened with. A program fills it: from its table of options
 * or, as the library, from its caller's. Must not know: command lines. */
#ifndef ENGINE_ENGINE_OPTIONS_H
#define ENGINE_ENGINE_OPTIONS_H

#include "core/base/numa.h"

enum { ENGINE_DEVICES = 16 };

/* Texts are the program's and outlive the engine. */
struct engine_options {
    const char *backend, *act, *kv; /* names, or "auto" until engine_settle has replaced it */
    const char *cpu, *variant;      /* variants of the CPU's and of the GPU's kernels, or "auto" */
    const char *hip_library;        /* path of a GPU's runtime library; NULL: the known ones */
    int device, gpu_timeout, query_halves; /* of a GPU */
    /* What a GPU computes of a model and the CPU does not (placement.h); texts: NULL, numbers: 0
     * where not given. */
    const char *gpu_layers, *experts_on, *gpu_memory;
    int n_cpu_moe, cpu_moe;
    const char *exchange;      /* of rows between GPUs: "auto" (NULL, too), "peer", "host" */
    const char *devices;       /* GPUs as text, "0,1" or "all"; NULL: the one of `device` */
    const char *parallel_mode; /* "tensor", "layers", "data"; NULL or "auto" */
    /* Of so many processes on this machine that share its GPUs this is number local_rank; 0: of
     * one. Each takes cards of its own, where these options leave it open which. */
    int n_local, local_rank;
    int n_devices, device_at[ENGINE_DEVICES]; /* what these mean; filled by engine_settle */
    int threads;                              /* of the CPU; 0: its cores */
    const char *numa;                         /* mode of nodes of memory; NULL: none is set */
    struct numa nodes;                        /* what it found; filled by engine_settle */
    int n_ctx;                                /* positions of a sequence; 0: the model's */
    int n_batch, n_seqs; /* rows of a step, sequences at once; 0: the backend's default */
    int most_seqs;       /* sequences where memory is there; filled by engine_settle */
    int n_pages;         /* of the KV cache; 0: what memory gives */
    const char *memory;  /* bytes for model and cache, as text; NULL: 9/10 of what is free */
    /* directory of prompts that are kept from run to run, NULL: none; its size as text, NULL: the
     * default */
    const char *prefix_dir, *prefix_size;
    int no_prefix_cache, check_tensors, same_bits;
    /* "off"; "prompt": tokens are drafted from texts; "mtp": by the model's draft layer; NULL or
     * "auto": by both where steps are the CPU's. Most tokens of a draft, 0: the default */
    const char *speculate;
    int draft_most;
    /* What lies where and what choices would cost is said, nothing is opened (engine_open). Of GPUs
     * that are not here gpu_memory says what each has, and `devices` which there are. */
    int survey;
    int embeds; /* models without a head are welcome: the caller makes embeddings */
    int quiet;  /* no line that shows progress */
    /* Receives lines about what was chosen, without a newline; NULL: nobody. */
    void (*note)(void *arg, const char *line);
    void *note_arg;
};

/* Gives the receiver of notes, if there is one, a line. */
void engine_note(const struct engine_options *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
